r"""Mutants of a module: small faults that a hurried change could make.

A comparison is turned round, a `not` is lost, a condition always holds, a call is missing, a number is off by one. Code
without effect at run time stays unchanged: annotations, docstrings, `__all__`, and imports for the checkers. Values in
f-strings stay unchanged too, because Python 3.11 and Python 3.12 give them different locations.

>>> text = "def f(a, b):\n    return a < b\n"
>>> [one.after for one in mutants("f.py", text)]
['return None', 'a <= b']
>>> print(mutants("f.py", text)[1].applied(text))
def f(a, b):
    return a <= b
<BLANKLINE>
"""

from __future__ import annotations

import ast
import warnings
from collections.abc import Iterator
from typing import final

import msgspec

__all__ = ["Mutant", "is_sound", "mutants"]

_COMPARISONS: dict[type[ast.cmpop], str] = {
    ast.Eq: "!=",
    ast.NotEq: "==",
    ast.Lt: "<=",
    ast.LtE: "<",
    ast.Gt: ">=",
    ast.GtE: ">",
    ast.Is: "is not",
    ast.IsNot: "is",
    ast.In: "not in",
    ast.NotIn: "in",
}
_ARITHMETIC: dict[type[ast.operator], str] = {ast.Add: "-", ast.Sub: "+", ast.Mult: "//", ast.FloorDiv: "*"}
_TWINS = {"startswith": "endswith", "endswith": "startswith", "min": "max", "max": "min", "any": "all", "all": "any"}


@final
class Mutant(msgspec.Struct, frozen=True):
    """One small fault in one module."""

    path: str
    """The file, as a path from the top of the project."""
    line: int
    """The first line of the changed code, from 1."""
    column: int
    """The first column of the changed code, in bytes, from 0."""
    before: str
    after: str

    @property
    def end(self) -> tuple[int, int]:
        """The line and the column after the changed code."""
        lines = self.before.encode().split(b"\n")
        return self.line + len(lines) - 1, len(lines[-1]) + (self.column if len(lines) == 1 else 0)

    def applied(self, text: str) -> str:
        """Return the text of the module with the fault.

        Args:
            text: The module without the fault.

        Raises:
            ValueError: If `before` is not at the location of the mutant.
        """
        rows = text.encode().splitlines(keepends=True)
        start = sum(map(len, rows[: self.line - 1])) + self.column
        source, before = b"".join(rows), self.before.encode()
        if source[start : start + len(before)] != before:
            raise ValueError(f"{self.path}:{self.line}: the module changed since the mutant was drawn. Draw again.")
        return (source[:start] + self.after.encode() + source[start + len(before) :]).decode()

    def __str__(self) -> str:
        before, after = (" ".join(code.split())[:90] for code in (self.before, self.after))
        return f"{self.path}:{self.line}: {before} → {after}"


@final
class _Source:
    """The text of a module, cut by the locations in its syntax tree, which count columns in bytes."""

    def __init__(self, path: str, text: str) -> None:
        self.path = path
        self.lines = text.encode().splitlines(keepends=True)
        self.tree = ast.parse(text)

    def part(self, node: ast.expr | ast.stmt) -> str:
        end = node.end_lineno or node.lineno
        rows = self.lines[node.lineno - 1 : end]
        rows[-1] = rows[-1][: node.end_col_offset]
        rows[0] = rows[0][node.col_offset :]
        return b"".join(rows).decode()

    def mutant(self, node: ast.expr | ast.stmt, after: str) -> Mutant:
        return Mutant(self.path, node.lineno, node.col_offset, self.part(node), after)


def mutants(path: str, text: str) -> list[Mutant]:
    """List every mutant of a module, sorted by line. Some are not sound: see `is_sound`."""
    source = _Source(path, text)
    found = [source.mutant(node, after) for node in _running(source.tree) for after in _faults(node, source)]
    return sorted(found, key=lambda mutant: mutant.line)


def is_sound(mutant: Mutant, text: str) -> bool:
    """Return True if the mutant differs from the module and the compiler accepts it without a warning."""
    mutated = mutant.applied(text)
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # otherwise the warning finds the mutant, and no test
        try:
            compile(mutated, mutant.path, "exec", dont_inherit=True)
        except (SyntaxError, ValueError):
            return False
    return mutated != text


def _running(node: ast.AST, *, inside: bool = False) -> Iterator[ast.expr | ast.stmt]:
    """Yield the nodes inside functions that have an effect at run time. The constants of a module are data."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.Import | ast.ImportFrom | ast.arguments | ast.JoinedStr) or _is_for_checkers(child):
            continue
        within = inside or isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
        if inside and isinstance(child, ast.expr | ast.stmt) and not _is_annotation(child, node):
            yield child
        if not _is_annotation(child, node):
            yield from _running(child, inside=within)


def _is_annotation(child: ast.AST, parent: ast.AST) -> bool:
    if isinstance(parent, ast.FunctionDef | ast.AsyncFunctionDef):
        return child is parent.returns or child in parent.decorator_list
    if isinstance(parent, ast.AnnAssign):
        return child is parent.annotation
    return isinstance(parent, ast.Call) and getattr(parent.func, "id", "") == "cast" and child in parent.args[:1]


def _is_for_checkers(node: ast.AST) -> bool:
    if isinstance(node, ast.If):
        return getattr(node.test, "id", "") == "TYPE_CHECKING"
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
        return any(getattr(one, "id", "") == "overload" for one in node.decorator_list)
    if isinstance(node, ast.Raise):
        return False
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)  # a docstring, or `...`


def _faults(node: ast.expr | ast.stmt, source: _Source) -> Iterator[str]:
    match node:
        case ast.Compare(left=left, ops=[one], comparators=[right]) if type(one) in _COMPARISONS:
            yield f"{source.part(left)} {_COMPARISONS[type(one)]} {source.part(right)}"
        case ast.BoolOp(op=op, values=values):
            parts = [f"({source.part(value)})" for value in values]
            yield (" or " if isinstance(op, ast.And) else " and ").join(parts)
            word = " and " if isinstance(op, ast.And) else " or "
            yield from (f"({word.join(parts[:at] + parts[at + 1 :])})" for at in range(len(parts)))
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            yield f"bool({source.part(operand)})"
        case ast.BinOp(left=left, op=op, right=right) if type(op) in _ARITHMETIC:
            yield f"({source.part(left)} {_ARITHMETIC[type(op)]} {source.part(right)})"
        case ast.Constant(value=bool() as value):
            yield str(not value)
        case ast.Constant(value=int() as value):
            yield f"({value + 1})"
        case ast.Call():
            yield from _faults_of_call(node, source)
        case ast.IfExp(test=test, body=body, orelse=orelse):
            yield f"({source.part(orelse)} if {source.part(test)} else {source.part(body)})"
        case _:
            yield from _faults_of_statement(node, source)


def _faults_of_call(node: ast.Call, source: _Source) -> Iterator[str]:
    name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
    if name in _TWINS:
        function = source.part(node.func)
        arguments = source.part(node)[len(function) :]
        yield f"{function[: len(function) - len(name)]}{_TWINS[name]}{arguments}"
    plain = [one for one in node.args if not isinstance(one, ast.Starred)]
    if name != "cast" and len(plain) == len(node.args) >= 2:
        first, second = source.part(node.args[0]), source.part(node.args[1])
        rest = [source.part(one) for one in node.args[2:]]
        words = [
            f"{one.arg}={source.part(one.value)}" if one.arg else f"**{source.part(one.value)}" for one in node.keywords
        ]
        yield f"{source.part(node.func)}({', '.join([second, first, *rest, *words])})"


def _faults_of_statement(node: ast.expr | ast.stmt, source: _Source) -> Iterator[str]:
    match node:
        case ast.If(test=test) | ast.While(test=test):
            text = source.part(node)
            word = "elif" if text.startswith("elif") else text[: 2 if isinstance(node, ast.If) else 5]
            before = f"{word} {source.part(test)}"
            if text.startswith(before):
                yield f"{word} not ({source.part(test)}){text[len(before) :]}"
        case ast.Return(value=value) if value is not None and not _is_none(value):
            yield "return None"
        case ast.Expr(value=ast.Call() | ast.Await() | ast.YieldFrom()) | ast.AugAssign() | ast.Delete() | ast.Raise():
            yield "pass"
        case ast.Assign(targets=[ast.Attribute() | ast.Subscript()]):
            yield "pass"
        case ast.Continue():
            yield "break"
        case ast.Break():
            yield "continue"
        case _:
            return


def _is_none(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value is None
