"""The pytest plugin has fixtures for models, clocks, and cassettes, and creates one test per law of a toolkit.

pytest loads the plugin if fxai is installed in its environment. Otherwise, load it with `-p fxai.testing.plugin`. The
plugin imports heavy modules only when a test needs them. Under pytest, fxai warns about effects that a test created but
never ran, see `fxai.effects.development`.

The mark `tool_laws` creates one case per law of each tool and, with a layer, of each handler:

    @pytest.mark.tool_laws(kit, handlers)
    def test_my_tools(law):
        law.check()

The fixture `cassette` creates the layer of a cassette that belongs to the test. `pytest --cassettes=record` sends the
requests to the providers and writes the files again. `--cassettes=auto` adds missing exchanges. By default, fxai
replays the files:

    def test_my_agent(cassette):
        assert fx.run(asked.provide(openai.layer("gpt-5.5")).provide(cassette())).text == "Good day."

The fixture `check_run` compares a run with the recorded run of the test. `pytest --records=record` stores changed runs
again. `--records=auto` stores missing runs:

    def test_my_agent(check_run):
        check_run(fx.run(agent.execute("What does tea cost?").provide(handlers).provide(replay_turns(record))))

>>> pytest_configure.__doc__
'Register the mark.'
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, cast

import pytest

if TYPE_CHECKING:
    from pathlib import Path

    from fxai.agents.records.run_record import RunRecord, RunSource
    from fxai.effects.layer import LayerOf
    from fxai.providers.http.transport import Transport
    from fxai.testing.clock import TestClock
    from fxai.testing.scripted import ScriptedModel

__all__ = [
    "pytest_addoption",
    "pytest_configure",
    "pytest_generate_tests",
    "pytest_runtest_setup",
    "run_check",
    "scripted_model",
    "standing_clock",
    "tests_cassette",
]

_UNSAFE: Final = re.compile(r"[^\w.-]+")  # a test id can contain any characters
_MARK = (
    "tool_laws(toolkit, layer=None, **settings): one test per law of the toolkit and its handlers, as the argument"
    " `law`. For the settings, see fxai.testing.laws_of"
)


def pytest_addoption(parser: pytest.Parser) -> None:
    """Register the options `--cassettes` and `--records`."""
    parser.getgroup("fxai").addoption(
        "--records",
        choices=("compare", "record", "auto"),
        default="compare",
        help="Mode of the fixture `check_run`. record stores changed runs again, and auto stores missing runs.",
    )
    parser.getgroup("fxai").addoption(
        "--cassettes",
        choices=("replay", "record", "auto"),
        default="replay",
        help="Mode of the fixture `cassette`: replay its files, record them again, or add missing exchanges (auto).",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Register the mark."""
    config.addinivalue_line("markers", _MARK)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Add the cases to a test with the mark `tool_laws`.

    Raises:
        pytest.UsageError: If the test has no argument `law`.
    """
    marks = list(metafunc.definition.iter_markers("tool_laws"))
    if not marks:
        return
    from fxai.testing.check import laws_of

    if "law" not in metafunc.fixturenames:
        raise pytest.UsageError(
            f"{metafunc.function.__name__} has the mark tool_laws but no argument `law`. Write"
            f" `def {metafunc.function.__name__}(law): law.check()`"
        )
    cases = [case for mark in marks for case in laws_of(*mark.args, **mark.kwargs)]
    metafunc.parametrize("law", cases, ids=str)


def pytest_runtest_setup() -> None:
    """Tell the development mode that a test starts."""
    if development := sys.modules.get("fxai.effects.development"):
        development.start_test()


@pytest.fixture
def scripted_model() -> Callable[..., ScriptedModel]:
    """Return a function that creates a scripted model: `scripted_model("Hello.", [call("add", {"a": 1})])`."""
    from fxai.testing.scripted import ScriptedModel

    return lambda *turns: ScriptedModel.make(turns)


@pytest.fixture(name="test_clock")
def standing_clock() -> TestClock:
    """Return a clock that stands still until the test advances it. Its layer is `test_clock.layer`."""
    from fxai.testing.clock import TestClock

    return TestClock()


@pytest.fixture(name="cassette")
def tests_cassette(request: pytest.FixtureRequest) -> Callable[..., LayerOf[Transport]]:
    """Return a function that creates the layer of a cassette next to the test: `cassettes/<its file>/<its name>.json`.

    `cassette("other")` sets another name. For the other arguments, see `fxai.testing.cassette`. The option
    `--cassettes` sets the mode.
    """
    from fxai.testing.recording import cassette

    mode: Any = request.config.getoption("--cassettes")

    def make(name: str | None = None, **settings: Any) -> LayerOf[Transport]:
        return cassette(_file_of(request, "cassettes", name), mode, **settings)

    return make


@pytest.fixture(name="check_run")
def run_check(request: pytest.FixtureRequest) -> Callable[..., RunRecord]:
    """Return a function that compares a run with `records/<its file>/<its name>.json` next to the test.

    `check_run(answer, "other")` sets another name. For the other arguments, see `fxai.testing.check_run`. The option
    `--records` sets the mode.
    """
    from fxai.testing.recorded_run import check_run

    mode: Any = request.config.getoption("--records")

    def check(source: RunSource | RunRecord, name: str | None = None, **settings: Any) -> RunRecord:
        __tracebackhide__ = True  # the message contains the difference
        return check_run(source, _file_of(request, "records", name), mode, **settings)

    return check


def _file_of(request: pytest.FixtureRequest, folder: str, name: str | None) -> Path:
    """Return the file of a test in a folder next to it."""
    test: str = cast("Any", request).node.name  # older versions of pytest do not declare its type
    return request.path.parent / folder / request.path.stem / f"{_UNSAFE.sub('-', name or test).strip('-')}.json"
