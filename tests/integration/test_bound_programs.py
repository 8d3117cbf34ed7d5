"""The programs of the examples and the pages, asked of a model that binds its thinking to the prefix."""

from __future__ import annotations

import contextlib
import re
import runpy
from pathlib import Path

import pytest

from tests.kit.bound_scripts import bound_scripts

ROOT = Path(__file__).parents[2]
_SAYS = "ScriptedModel"
_BLOCK = re.compile(r"```python\n(.*?)```", re.DOTALL)
_SERVES = ("serve(", "uvicorn", "Cluster.", "mcp_server", "subprocess")  # a program that does not end by itself

# They start other processes, or ask no scripted model when they run as a program.
_SILENT = ("98_one_program_five_ways", "ui_scenarios", "choose-models", "count-tokens", "first-tool")

PROGRAMS = [
    path
    for path in sorted([*(ROOT / "examples").glob("*.py"), *ROOT.glob("docs/**/*.md")])
    if _SAYS in (page := path.read_text(encoding="utf-8"))
    and (path.suffix == ".py" or "```python" in page)
    and path.stem not in _SILENT
    and path.parent.name != "quickstart"  # the blocks are parts of programs below `examples/quickstart`
    and not (path.suffix == ".md" and any(word in page for word in _SERVES))
]


@pytest.mark.slow
@pytest.mark.parametrize("path", PROGRAMS, ids=lambda path: path.name)
def test_no_request_of_a_program_breaks_the_rule(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The API would accept every request; the program may end early, because answers begin with one more part."""
    program = path
    if path.suffix == ".md":
        program = tmp_path / "program.py"
        program.write_text("\n".join(_BLOCK.findall(path.read_text(encoding="utf-8"))), encoding="utf-8")
    monkeypatch.chdir(tmp_path)

    with bound_scripts(monkeypatch) as server, contextlib.suppress(Exception, SystemExit):
        runpy.run_path(str(program), run_name="__main__")

    assert server.refused == []
    assert server.bodies
