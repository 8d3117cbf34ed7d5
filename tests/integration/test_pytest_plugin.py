"""The pytest plugin, in a project of its own: fixtures, and a test for each law."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

KIT = """
from returns.result import Failure, Success

import msgspec
import pytest
from fxai import Tool, Toolkit


class Share(msgspec.Struct, frozen=True):
    of: int
    among: int


share = Tool.make("share", parameters=Share, success=int)
kit = Toolkit.make(share, Tool.make("ping"))
sharing = share.handler(lambda given: Success(given.of // given.among))
handlers = sharing | kit.tools["ping"].handler(lambda _: Success(None))
"""

LAWS = """
from kit import handlers, kit, pytest


@pytest.mark.tool_laws(kit, handlers, max_examples=15, seed=1)
def test_my_tools(law):
    law.check()
"""

FIXTURES = """
from fxai import LanguageModel, fx


def test_model(scripted_model):
    model = scripted_model("Hello.")
    assert fx.run(LanguageModel.generate_text("Hi").provide(model.layer)).text == "Hello."


def test_time(test_clock):
    assert fx.run(fx.sleep(0).and_then(test_clock.advance(5)).as_(test_clock)).now() == 5
"""

RECORDED = """
import httpx2
import pytest
from fxai import fx
from fxai.providers.http import open_client
from fxai.testing import CassetteError

asked = fx.scoped(
    open_client(base_url="https://api.example.com/v1").flat_map(lambda client: client.post("/replies", b"1"))
)


def respond(request):
    return httpx2.Response(200, json="Hello.")


@pytest.mark.parametrize("way", ["a/b"])
def test_asked(cassette, way):
    assert fx.run(asked.provide(cassette(live=httpx2.MockTransport(respond)))).body == b'"Hello."'
"""

CHECKED = """
from fxai import Agent, fx
from fxai.testing import call
from kit import share, sharing


def test_run(check_run, scripted_model):
    model = scripted_model(call("share", {"of": 12, "among": 3}), "Done.")
    agent = Agent.make("sharer", toolkit=share)
    check_run(fx.run(agent.execute("Share.").provide(sharing).provide(model.layer)))
"""

FORGOTTEN = """
from kit import kit, pytest


@pytest.mark.tool_laws(kit)
def test_my_tools():
    assert True
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A folder with a toolkit of two tools, of which one handler crashes."""
    (tmp_path / "kit.py").write_text(KIT)
    return tmp_path


def _pytest(project: Path, test: str, *options: str, path: Path | None = None) -> str:
    (project / "test_it.py").write_text(test)
    environment = {
        **os.environ,
        "PYTHONPATH": str(path or ""),
        "PYTEST_ADDOPTS": "",
        "HYPOTHESIS_STORAGE_DIRECTORY": "h",
    }
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-W",
        "error",
        "--strict-markers",
        "-p",
        "no:cacheprovider",
        "-rA",
        *options,
    ]
    done = subprocess.run(command, cwd=project, env=environment, capture_output=True, text=True, check=False)
    return done.stdout + done.stderr


def test_three_lines_hold_a_toolkit_to_every_law(project: Path) -> None:
    """One test each by name; the broken one alone fails, and tells the smallest data."""
    said = _pytest(project, LAWS, "-p", "fxai.testing.plugin")
    failed = [line for line in said.splitlines() if line.startswith("FAILED")]

    assert len(failed) == 1
    assert "test_my_tools[share: calls end as declared]" in failed[0]
    assert 'with:  {"of":0,"among":0}' in said
    assert "ZeroDivisionError" in said
    assert "test_my_tools[ping: strict at OpenAI]" in said


def test_the_fixtures_work(project: Path) -> None:
    """A model of the turns that it is given, and a clock that is moved."""
    said = _pytest(project, FIXTURES, "-p", "fxai.testing.plugin")

    assert "2 passed" in said


def test_the_entry_point_and_the_option_are_one_plugin(project: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    """Where fxai is installed nothing is to be said; saying it all the same does no harm."""
    site = tmp_path_factory.mktemp("site")
    (site / "fxai_like-1.dist-info").mkdir()
    (site / "fxai_like-1.dist-info" / "METADATA").write_text("Metadata-Version: 2.1\nName: fxai-like\nVersion: 1\n")
    entry = "[pytest11]\nfxai.testing.plugin = fxai.testing.plugin\n"
    (site / "fxai_like-1.dist-info" / "entry_points.txt").write_text(entry)

    assert "2 passed" in _pytest(project, FIXTURES, path=site)
    assert "2 passed" in _pytest(project, FIXTURES, "-p", "fxai.testing.plugin", path=site)


def test_a_mark_without_its_argument_says_what_to_write(project: Path) -> None:
    """Otherwise the test would pass and hold nothing."""
    said = _pytest(project, FORGOTTEN, "-p", "fxai.testing.plugin")

    assert "def test_my_tools(law): law.check()" in said
    assert "passed" not in said


def test_the_fixture_records_and_replays_beside_the_test(project: Path) -> None:
    """What was recorded once with `--cassettes=record` is answered from the file, in a folder beside the test."""
    recorded = _pytest(project, RECORDED, "-p", "fxai.testing.plugin", "--cassettes=record")
    replayed = _pytest(project, RECORDED.replace('json="Hello."', "status_code=500"), "-p", "fxai.testing.plugin")

    assert "1 passed" in recorded
    assert "1 passed" in replayed
    assert [path.name for path in (project / "cassettes" / "test_it").iterdir()] == ["test_asked-a-b.json"]


def test_the_fixture_compares_a_run_with_the_file_beside_the_test(project: Path) -> None:
    """`--records=record` stores the run. Then an equal run passes, and a changed run fails with its difference."""
    changed = CHECKED.replace('"of": 12', '"of": 15')

    missing = _pytest(project, CHECKED, "-p", "fxai.testing.plugin")
    stored = _pytest(project, CHECKED, "-p", "fxai.testing.plugin", "--records=auto")
    same = _pytest(project, CHECKED, "-p", "fxai.testing.plugin")
    differs = _pytest(project, changed, "-p", "fxai.testing.plugin")
    again = _pytest(project, changed, "-p", "fxai.testing.plugin", "--records=record")
    last = _pytest(project, changed, "-p", "fxai.testing.plugin")

    assert "Record the run first. Use mode 'record' (pytest --records=record)." in missing
    assert [("1 passed" in said) for said in (stored, same, again, last)] == [True] * 4
    assert "1 failed" in differs
    assert "/calls/share/params/of: 12 → 15" in differs
    assert "/calls/share/result: 4 → 5" in differs
    assert [path.name for path in (project / "records" / "test_it").iterdir()] == ["test_run.json"]
