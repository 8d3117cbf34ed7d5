"""The measures of the package, which keep it small enough to walk through: `python -m tests.kit.measures` prints them.

Circles count every import: of packages, for types and inside functions.
"""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from functools import cache

import msgspec

from tests.kit.source import ROOT, Module, modules

__all__ = ["MEASURES", "THIN", "Measure", "circles", "measure", "participles", "thin_modules"]

THIN: Mapping[str, str] = {
    "fxai.cli.picture": "escape codes, which nothing else of the command line may write",
}
"""Modules that have one importer and under 120 lines, and stay, each with the reason."""

# Irregular participles; regular ones end in -ed.
# fmt: off
PARTICIPLES = frozenset({
    "begun", "bound", "bought", "broken", "brought", "built", "caught", "chosen", "done", "drawn", "driven",
    "fallen", "felt", "forgotten", "found", "given", "gone", "grown", "heard", "held", "hidden", "kept", "known",
    "laid", "led", "lent", "lost", "made", "meant", "met", "paid", "said", "seen", "sent", "shown", "sold",
    "sought", "spent", "spoken", "stood", "stopped", "struck", "taken", "taught", "thought", "thrown", "told",
    "understood", "won", "worked", "written",
})
# fmt: on

# Names of the public API, by what the field calls them, and asyncio's own; and words that are no participles.
NOUNS = frozenset(
    {"batched", "capped", "done", "fixed", "grouped", "jittered", "meant", "scoped", "sent", "spaced", "stored"}
    | {"embed", "exceed", "feed", "need", "proceed", "seed", "speed", "succeed"}
)

_WALK = """
import sys, msgspec
from fxai import Agent, Tool, Toolkit, fx
from fxai.testing import ScriptedModel, call, text
from returns.result import Success

class Sum(msgspec.Struct, frozen=True):
    a: int
    b: int

add = Tool.make("add", parameters=Sum, success=int)
raw = Tool.dynamic("raw", parameters={"type": "object", "properties": {"days": {"type": "integer"}}})
kit = Toolkit.make(add)
handlers = kit.to_layer(add.handler(lambda p: Success(p.a + p.b)))
agent = Agent.make("x", toolkit=kit)

def program():
    if sys.argv[1] == "wrong":
        return Toolkit.make(raw).call_json("raw", '{"days": "two"}').provide(raw.handler(Success))
    model = ScriptedModel.make([call("add", {"a": 1, "b": 2}), text("3")])
    run = agent.stream("?").collect() if sys.argv[1] == "stream" else agent.execute("?")
    return run.provide(handlers).provide(model.layer)

fx.run(program())
functions, files, asked = {}, set(), program()

def note(frame, event, argument):
    path = frame.f_code.co_filename
    if event == "call" and "/fxai/" in path and "/testing/" not in path:
        functions[path, frame.f_code.co_firstlineno, frame.f_code.co_name] = frame.f_code.co_qualname
        files.add(path)

sys.setprofile(note)
fx.run(asked)
sys.setprofile(None)
if "--path" in sys.argv:
    for (path, line, _), name in functions.items():
        print(f"{path.partition('/fxai/')[2]}:{line} {name}")
print(len(functions), len(files))
"""


class Measure(msgspec.Struct, frozen=True):
    """One figure, and the most that it may be."""

    name: str
    value: int
    most: int

    @property
    def is_kept(self) -> bool:
        """Whether it is small enough."""
        return self.value <= self.most

    def __str__(self) -> str:
        """The figure in a line."""
        return f"{'ok' if self.is_kept else 'NO'}  {self.name}: {self.value} (at most {self.most})"


def _imports(module: Module, names: frozenset[str]) -> Iterator[str]:
    for node in ast.walk(module.tree):
        found: list[str] = []
        if isinstance(node, ast.Import):
            found = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            found = [f"{node.module}.{alias.name}" for alias in node.names]
        for name in found:
            while name and name not in names:
                name = name.rpartition(".")[0]
            if name and name != module.name:
                yield name


@cache
def _arrows() -> Mapping[str, frozenset[str]]:
    names = frozenset(module.name for module in modules())
    return {module.name: frozenset(_imports(module, names)) for module in modules()}


def circles() -> list[str]:
    """The modules that import themselves by way of others; faces are no part of a circle that only they close."""
    faces = {module.name for module in modules() if module.path.endswith("__init__.py")}

    def reach(start: str) -> set[str]:
        seen: set[str] = set()
        pending = list(_arrows()[start])
        while pending:
            name = pending.pop()
            if name not in seen:
                seen.add(name)
                pending += _arrows()[name]
        return seen

    return [name for name in _arrows() if name not in faces and name in reach(name)]


def thin_modules() -> list[str]:
    """The modules with one importer, faces aside, and under 120 lines."""
    faces = {module.name for module in modules() if module.path.endswith(("__init__.py", "__main__.py"))}
    importers = {
        module.name: [k for k, v in _arrows().items() if module.name in v and k not in faces] for module in modules()
    }
    return [
        module.name
        for module in modules()
        if module.name not in faces and len(importers[module.name]) == 1 and len(module.lines) < 120
    ]


def participles() -> list[str]:
    """The functions that are named by one bare participle; properties and fields are no functions."""
    found: list[str] = []
    for module in modules():
        for node in ast.walk(module.tree):
            if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) or node.name.startswith("__"):
                continue
            word = node.name.strip("_")
            is_property = any("property" in ast.dump(decorator) for decorator in node.decorator_list)
            bare = "_" not in word and (word in PARTICIPLES or word.endswith("ed")) and word not in NOUNS
            if bare and not is_property:
                found.append(f"{module.path}:{node.lineno} {node.name}")
    return found


def _walk(way: str, *options: str) -> list[str]:
    command = [sys.executable, "-c", _WALK, way, *options]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout.splitlines()


def _lines_with(pattern: str) -> int:
    return sum(len(re.findall(pattern, line)) for module in modules() for line in module.lines)


def _single_callers() -> int:
    """Return the number of private functions whose name stands twice in its module, for each 100 functions."""
    functions = single = 0
    for module in modules():
        words = Counter(re.findall(r"\w+", "\n".join(module.lines)))
        for node in ast.walk(module.tree):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                functions += 1
                single += node.name.startswith("_") and not node.name.startswith("__") and words[node.name] == 2
    return round(100 * single / functions)


def measure() -> list[Measure]:
    """Every measure, as it is now."""
    whole, streamed, wrong = (list(map(int, _walk(way)[-1].split())) for way in ("execute", "stream", "wrong"))
    lines = sum(len(module.lines) for module in modules())
    return [
        Measure(name, value, most)
        for (name, most), value in zip(
            MEASURES.items(),
            (
                len(circles()),
                len(modules()),
                len(thin_modules()),
                lines,
                whole[0],
                whole[1],
                streamed[0],
                streamed[1],
                wrong[0],
                _single_callers(),
                round(1_000 * _lines_with(r"\bAny\b") / lines),
                _lines_with(r"sqlite3\.connect\("),
                len([module for module in modules() if any("import fcntl" in line for line in module.lines)]),
                _lines_with(r"def take_turn\("),
                _lines_with(r"Any, Any, Any\]"),
                len(participles()),
            ),
            strict=True,
        )
    ]


MEASURES: Mapping[str, int] = {
    "modules in a circle": 0,
    "modules": 339,
    "modules with one importer and under 120 lines": 10,
    "lines": 109_000,
    "functions that a run with one call passes": 75,
    "files that it passes": 18,
    "functions that the same run passes, streamed": 101,
    "files that it passes, streamed": 22,
    "functions that a call with a wrong integer passes": 26,
    "private functions with one caller, per 100 functions": 15,
    "uses of Any, per 1,000 lines": 38,
    "places that open a database": 1,
    "modules that lock files": 1,
    "drivers of a round": 1,
    "types that are Any three times over": 150,
    "functions named by a bare participle": 0,
}
"""The measures and their limits. A feature that needs more raises a limit, and this text states the reason."""


if __name__ == "__main__":
    for one in measure():
        print(one)
    for listed in (*circles(), *thin_modules(), *participles()):
        print(f"  {listed}")
    if "--path" in sys.argv:
        for route in ("execute", "stream", "wrong"):
            print(f"\n{route}:", *_walk(route, "--path"), sep="\n  ")
