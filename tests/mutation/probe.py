"""Probes in a copy of the project. Use this module to learn which tests reach which mutants.

The sources of the copy stay unchanged, because tests read them. The probes are in the compiled modules next to the
sources, so they also work in the programs that tests start.
"""

from __future__ import annotations

import ast
import importlib.util
import marshal
from collections.abc import Iterable, Mapping, Sequence
from compileall import compile_dir
from pathlib import Path
from typing import cast, final

import msgspec

from tests.mutation.draw import SOURCE
from tests.mutation.mutant import Mutant

__all__ = ["Reach", "plant", "reaches", "remove", "test_of"]

MODULE = "mutation_probe"
"""The module that the probes call. It is in the top folder of the copy."""

_PROGRAM = '''"""Records which tests reach which mutants."""

import os
import sys


def reach(number, _at=(OUTPUT, os.O_WRONLY | os.O_APPEND | os.O_CREAT), _seen=set(), _environment=os.environb,
          _open=os.open, _write=os.write, _close=os.close, _frame=sys._getframe):
    test = _environment.get(b"PYTEST_CURRENT_TEST", b"")
    if (number, test) in _seen:
        return
    _seen.add((number, test))
    frame = _frame(1)
    while frame is not None and frame.f_code.co_name != "<module>":
        frame = frame.f_back
    is_imported = frame is not None and frame.f_globals.get("__name__") != "__main__"
    module = frame.f_code.co_filename if is_imported else ""
    file = _open(*_at)
    _write(file, b"%d\\t%s\\t%s\\n" % (number, os.fsencode(module), test))
    _close(file)
'''


@final
class Reach(msgspec.Struct):
    """The tests that reach one mutant."""

    tests: set[str] = msgspec.field(default_factory=set[str])
    """Tests that execute the line."""
    files: set[str] = msgspec.field(default_factory=set[str])
    """Files of tests that share a result of the line: their import executes the line, or a fixture does."""
    is_everywhere: bool = False
    """True if the import of a module of the package executes the line, or if fxai cannot determine the test."""


def test_of(name: str) -> str:
    """Return the ID of a test without the group that pytest-xdist appends."""
    at = name.rfind("@")
    return name[:at] if at > name.rfind("]") else name


def _compiled(path: Path) -> Path:
    return Path(importlib.util.cache_from_source(str(path)))


def plant(copy: Path, drawn: Sequence[Mutant], output: Path) -> None:
    """Write compiled modules with a probe for each mutant.

    Args:
        copy: The copy of the project.
        drawn: The mutants. Their numbers are their indices.
        output: The file that the probes append to.
    """
    (copy / f"{MODULE}.py").write_text(_PROGRAM.replace("OUTPUT", repr(str(output))), encoding="utf-8")
    for name in sorted({mutant.path for mutant in drawn}):
        numbers: dict[_Span, list[int]] = {}
        for number, mutant in enumerate(drawn):
            if mutant.path == name:
                numbers.setdefault((mutant.line, mutant.column, *mutant.end), []).append(number)
        source = copy / name
        content = source.read_bytes()
        tree = cast("ast.Module", _Probes(numbers).visit(ast.parse(content)))
        code = compile(ast.fix_missing_locations(tree), str(source), "exec", dont_inherit=True, optimize=0)
        # 1: a hash instead of a time, and Python never compares it with the source
        header = importlib.util.MAGIC_NUMBER + (1).to_bytes(4, "little") + importlib.util.source_hash(content)
        _compiled(source).parent.mkdir(exist_ok=True)
        _compiled(source).write_bytes(header + marshal.dumps(code))


def remove(copy: Path, drawn: Sequence[Mutant]) -> None:
    """Remove the probes, and compile every module of the package again."""
    (copy / f"{MODULE}.py").unlink()
    for name in {mutant.path for mutant in drawn}:
        _compiled(copy / name).unlink(missing_ok=True)
    compile_dir(copy / SOURCE, quiet=2)


_Span = tuple[int, int, int, int]


@final
class _Probes(ast.NodeTransformer):
    """A copy of a syntax tree, in which each mutated node first calls the probe."""

    def __init__(self, numbers: Mapping[_Span, Iterable[int]]) -> None:
        self.numbers = numbers

    def visit(self, node: ast.AST) -> ast.AST | list[ast.AST]:
        if isinstance(node, ast.Match):  # a pattern has no room for a call, so the statement follows the probes
            within = [self._calls(one) for case in node.cases for one in ast.walk(case.pattern)]
        else:
            within = [self._calls(node)]
        if not isinstance(node, ast.pattern):
            self.generic_visit(node)
        calls = [call for some in within for call in some]
        if isinstance(node, ast.expr) and calls:
            return ast.copy_location(ast.BoolOp(ast.Or(), [*calls, node]), node)
        return [*(ast.copy_location(ast.Expr(call), node) for call in calls), node] if calls else node

    def _calls(self, node: ast.AST) -> list[ast.expr]:
        if not isinstance(node, ast.expr | ast.stmt):
            return []
        span = (node.lineno, node.col_offset, node.end_lineno or 0, node.end_col_offset or 0)
        source = f"__import__({MODULE!r}).reach"
        called = [ast.parse(f"{source}({number})", mode="eval").body for number in self.numbers.get(span, ())]
        for call in called:
            for inner in ast.walk(call):
                ast.copy_location(inner, node)
        return called


def reaches(copy: Path, output: Path, count: int) -> list[Reach]:
    """Read what the probes wrote, for each mutant by its number."""
    found = [Reach() for _ in range(count)]
    lines = set(output.read_bytes().splitlines()) if output.exists() else set[bytes]()
    for line in lines:
        number, module, current = line.split(b"\t", 2)
        _add(found[int(number)], _inside(copy, module.decode()), current.decode())
    return found


def _inside(copy: Path, module: str) -> str:
    path = Path(module)
    return path.relative_to(copy).as_posix() if path.is_relative_to(copy) else ""


def _add(reach: Reach, module: str, current: str) -> None:
    name, _, phase = current.rpartition(" ")
    test = test_of(name)
    if test:
        reach.tests.add(test)
        if phase != "(call)":
            reach.files.add(test.partition("::")[0])
    elif module and not module.startswith(f"{SOURCE}/"):
        reach.files.add(module)
    if module.startswith(f"{SOURCE}/") or not (test or module):
        reach.is_everywhere = True
