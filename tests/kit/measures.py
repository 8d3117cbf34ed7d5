"""The measures of the package, which keep it small enough to walk through: `python -m tests.kit.measures` prints them.

Circles count every import: of packages, for types and inside functions.
"""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from functools import cache

import msgspec

from tests.kit.source import ROOT, Module, modules

__all__ = ["MEASURES", "THIN", "Measure", "circles", "measure", "participles", "thin_modules"]

THIN: Mapping[str, str] = {
    "fxai.cli.picture": "escape codes, which nothing else of the command line may write",
    "fxai.tools.live_tools": "how what is made of a server's tools follows them: nothing of toolkits themselves",
    "fxai.ui.app_options": "how an application serves, apart from the application",
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
kit = Toolkit.make(add)
handlers = kit.to_layer(add.handler(lambda p: Success(p.a + p.b)))
agent = Agent.make("x", toolkit=kit)

def program():
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


def measure() -> list[Measure]:
    """Every measure, as it is now."""
    whole, streamed = (list(map(int, _walk(way)[-1].split())) for way in ("execute", "stream"))
    return [
        Measure(name, value, most)
        for (name, most), value in zip(
            MEASURES.items(),
            (
                len(circles()),
                len(modules()),
                len(thin_modules()),
                sum(len(module.lines) for module in modules()),
                whole[0],
                whole[1],
                streamed[0],
                streamed[1],
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
    "modules": 391,
    "modules with one importer and under 120 lines": 10,
    "lines": 113_700,
    "functions that a run with one call passes": 76,
    "files that it passes": 18,
    "functions that the same run passes, streamed": 101,
    "files that it passes, streamed": 22,
    "places that open a database": 1,
    "modules that lock files": 1,
    "drivers of a round": 1,
    "types that are Any three times over": 150,
    "functions named by a bare participle": 0,
}
"""The measures and their limits. A room that is added raises the first limits by what it needs, and says so here.

Stateful prompts: 6 modules and 2,800 lines.
Servers of Chat Completions: 3 modules and 1,500 lines.
User interfaces: 27 modules and 7,800 lines, with what the command line has for them.
Types at real size: 4 modules and 2,500 lines, most of them overloads, keys and the warning of effects that never ran.
Real servers: 12 modules and 5,000 lines. Beyond one process: 14 modules and 4,500 lines.
Queues that survive: 12 modules and 3,000 lines.
Limits that hold exactly, in line: 3 modules and 1,500 lines.
Finalizers that refuse an effect as their value: 2 functions of a streamed run.
Types of pydantic: 4 modules and 1,600 lines, with the keys of mappings and the aliases that contain themselves.
The public API of DBOS instead of its private calls: 2 modules and 400 lines.
Requests that only grow: 4 modules and 1,500 lines; a run compares each request with the previous one, in 10 functions.
Models as data, the request form, and histories and answers from elsewhere: 11 modules and 4,500 lines.
Tool search, inboxes, and objects that stream: 5 modules and 1,800 lines.
Compactions, large results, and usage of each end: 4 modules and 1,800 lines.
Recorded runs, their comparison, and their replay: 8 modules and 1,700 lines.
Evaluations: 7 modules and 1,100 lines.
Guards: 2 modules and 700 lines. Messages to durable runs, and the usage of more kinds of runs: 300 lines.
Handlers by name, and slips of prompts that raise: 400 lines.
Usage of cancelled runs: 1 function of a run, which stores the usage with the interruption.
"""


if __name__ == "__main__":
    for one in measure():
        print(one)
    for listed in (*circles(), *thin_modules(), *participles()):
        print(f"  {listed}")
    if "--path" in sys.argv:
        for route in ("execute", "stream"):
            print(f"\n{route}:", *_walk(route, "--path"), sep="\n  ")
