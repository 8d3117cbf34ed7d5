"""Tests stand on what users stand on: the faces of the rooms; what they share is in one kit."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import msgspec
import pytest

from tests.kit.every import every
from tests.kit.source import ROOT, modules, parse_source

FACES = {module.name for module in modules() if module.path.endswith("__init__.py")} | {
    f"fxai.{name}"
    for name in ("agents.stateful", "annotations", "testing.strategies", "testing.plugin", "testing.recording")
}
"""What a test may import from: packages, and modules that are documented as such."""

INTERNAL = {
    "tests/benchmarks/growth.py": "requests without a model",
    "tests/benchmarks/instructions.py": "requests without a model",
    "tests/benchmarks/scale_figures.py": "reservations without a model",
    "tests/conformance/test_approval_cases.py": "what an approval covers",
    "tests/conformance/test_concerto_cases.py": "the messages of a host",
    "tests/conformance/test_mcp_client_cases.py": "how a server's content is shown",
    "tests/conformance/test_openai_cases.py": "finish reasons, and answers continued",
    "tests/laws/test_tool_answer_laws.py": "the readers of two providers, on the same answers",
    "tests/laws/test_coroutine_laws.py": "fibers with and without their own task",
    "tests/laws/test_compaction_laws.py": "pairs of calls, and recorded cuts",
    "tests/integration/distributed/test_lost_queue_workers.py": "rows that no program writes",
    "tests/integration/local/test_local_model.py": "the engine, which is loaded once for all",
    "tests/integration/mcp/test_client.py": "how a server's content is shown",
    "tests/integration/sdk/test_openai_replies.py": "answers written back as input",
    "tests/integration/sdk/test_openai_streams.py": "events read one by one",
    "tests/integration/sdk/test_results.py": "how a server's content is shown",
    "tests/integration/ui/test_message_builder.py": "JSON that is still coming",
    "tests/integration/ui/test_page_build.py": "text that a terminal shows",
    "tests/kit/catalogs.py": "the tables of facts",
    "tests/architecture/test_style.py": "the tables of facts",
    "tests/kit/openai_facts.py": "how a table of facts is written",
    "tests/typing/right/mcp_tool_servers.py": "the type of an application",
    "tests/kit/ag_ui_client.py": "parameters that were cut",
    "tests/kit/fact_tables.py": "the data file of a table of facts",
    "tests/kit/json_schema_suite.py": "the dialects of JSON Schema",
    "tests/kit/kept_servers.py": "locks of files",
    "tests/kit/runs.py": "the loop, without an agent around it",
    "tests/laws/test_allowance_laws.py": "claims, which only layers make",
    "tests/laws/test_answer_laws.py": "the forms of answers",
    "tests/laws/test_approval_laws.py": "what an approval covers, and what is settled",
    "tests/laws/test_memory_laws.py": "what a run is reminded of",
    "tests/laws/test_nested_text_laws.py": "JSON text within JSON",
    "tests/laws/test_openai_laws.py": "events read one by one",
    "tests/laws/test_partial_object_laws.py": "JSON that is still coming",
    "tests/laws/test_tool_search_laws.py": "the ranking without a run",
    "tests/benchmarks/features.py": "the ranking without a run",
    "tests/laws/test_pydantic_laws.py": "the codec of a type of pydantic, and places of faults",
    "tests/laws/test_request_cache_laws.py": "histories encoded by what is new",
    "tests/laws/test_request_form_laws.py": "the forms that the APIs accept",
    "tests/laws/test_schema_laws.py": "places of faults",
    "tests/laws/test_strict_laws.py": "documents checked, and places in them",
    "tests/laws/test_testing_kit.py": "the engines of validation, and the dialects",
}
"""Laws and cases about a mechanism that no face offers, each with what it holds."""

# Folders whose Python files are no tests: the kit, programs that are checked or run, and tools of the developers.
NO_TESTS = ("tests/kit/", "tests/typing/", "tests/acceptance/", "tests/benchmarks/", "tests/mutation/")


class Deep(msgspec.Struct, frozen=True):
    """An import of a name from within a room."""

    path: str
    line: int
    module: str
    name: str

    @property
    def is_at_home(self) -> bool:
        """Whether a unit test imports it: of its own room, or of the rooms that stand on it."""
        return self.path.startswith("tests/unit/")

    def __str__(self) -> str:
        """Where it is, and what it takes from where."""
        return f"{self.path}:{self.line}: from {self.module} import {self.name}"


_FROM = re.compile(r"^\s*from (fxai\.[\w.]+) import", re.MULTILINE)


def _imports() -> Iterator[Deep]:
    for path in sorted((ROOT / "tests").rglob("*.py")):
        name = str(path.relative_to(ROOT))
        if "node_modules" in name or name.startswith(
            ("tests/typing/wrong/", "tests/typing/messages/", "tests/typing/hover/", "tests/acceptance/programs/")
        ):
            continue
        text = path.read_text(encoding="utf-8")
        is_deep = any(module not in FACES for module in _FROM.findall(text))
        for node in ast.walk(parse_source(text)) if is_deep else ():
            if (
                isinstance(node, ast.ImportFrom)
                and (node.module or "").startswith("fxai.")
                and node.module not in FACES
            ):
                yield from (Deep(name, node.lineno, str(node.module), alias.name) for alias in node.names)


@cache
def deep_imports() -> tuple[Deep, ...]:
    """Return every import from within a package, read once and not during collection."""
    return tuple(_imports())


@pytest.mark.slow
def test_what_a_face_offers_is_imported_from_the_face() -> None:
    """So a module may be moved within its room, and no test but its own knows."""
    asked = sorted({f"{deep.module}:{deep.name}" for deep in deep_imports()})
    code = (
        "import importlib, sys\n"
        "for line in sys.stdin.read().split():\n"
        "    module, name = line.split(':')\n"
        "    thing, room = getattr(importlib.import_module(module), name), module.rpartition('.')[0]\n"
        "    while room:\n"
        "        face = importlib.import_module(room)\n"
        "        if name in getattr(face, '__all__', ()) and getattr(face, name) is thing: print(line); break\n"
        "        room = room.rpartition('.')[0]\n"
    )
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, cwd=ROOT, input="\n".join(asked), capture_output=True, text=True, check=True)
    offered = set(done.stdout.split())

    assert [str(deep) for deep in deep_imports() if f"{deep.module}:{deep.name}" in offered] == []


def test_only_the_tests_of_a_room_look_into_it() -> None:
    """What no face offers is imported by the room's own unit tests, or by a law or case of that mechanism."""
    assert [str(deep) for deep in deep_imports() if not deep.is_at_home and deep.path not in INTERNAL] == []
    assert set(INTERNAL) <= {deep.path for deep in deep_imports() if not deep.is_at_home}


@every("path", lambda: sorted((ROOT / "tests").rglob("*.py")), ids=lambda path: path.relative_to(ROOT))
def test_what_tests_share_is_in_the_kit(path: Path) -> None:
    """A file beside the tests is a test or a program; what several share is in `tests/kit`."""
    name = str(path.relative_to(ROOT))
    is_program = "__main__" in path.read_text(encoding="utf-8")

    assert (
        is_program
        or name.startswith(NO_TESTS)
        or "node_modules" in name
        or path.stem.startswith(("test_", "conftest", "__"))
    )
