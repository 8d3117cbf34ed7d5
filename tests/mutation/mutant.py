"""Mutants of a module: the same text with one small fault in it.

A fault is what a hurried change might do: a comparison turned round, a `not` lost, a condition that always holds, a
call left out, a number off by one. Text that does nothing when the program runs (annotations, docstrings, `__all__`,
imports for the checkers) is left alone.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import final

import msgspec

__all__ = ["Mutant", "mutants"]

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
    """One small fault."""

    line: int
    before: str
    after: str
    text: str
    """The module with the fault."""


@final
class _Source:
    """A module's text, cut by the places of its syntax tree, which count columns in bytes."""

    def __init__(self, text: str) -> None:
        self.lines = [line.encode() for line in text.splitlines(keepends=True)]
        self.tree = ast.parse(text)

    def part(self, node: ast.expr | ast.stmt) -> str:
        end = node.end_lineno or node.lineno
        rows = self.lines[node.lineno - 1 : end]
        rows[-1] = rows[-1][: node.end_col_offset]
        rows[0] = rows[0][node.col_offset :]
        return b"".join(rows).decode()

    def mutant(self, node: ast.expr | ast.stmt, after: str) -> Mutant:
        end = node.end_lineno or node.lineno
        head = b"".join(self.lines[: node.lineno - 1]) + self.lines[node.lineno - 1][: node.col_offset]
        tail = self.lines[end - 1][node.end_col_offset :] + b"".join(self.lines[end:])
        return Mutant(node.lineno, self.part(node), after, (head + after.encode() + tail).decode())


def mutants(text: str) -> list[Mutant]:
    """Every mutant of a module, in the order of its lines; none is the module itself, and each can be compiled."""
    source = _Source(text)
    found: list[Mutant] = []
    for node in _running(source.tree):
        for after in _faults(node, source):
            mutant = source.mutant(node, after)
            if mutant.text != text and _compiles(mutant.text):
                found.append(mutant)
    return sorted(found, key=lambda mutant: mutant.line)


def _compiles(text: str) -> bool:
    try:
        compile(text, "mutant", "exec")
    except (SyntaxError, ValueError):
        return False
    return True


def _running(node: ast.AST, *, inside: bool = False) -> Iterator[ast.expr | ast.stmt]:
    """The nodes of a tree that do something when the program runs, functions only: a module's constants are data."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.Import | ast.ImportFrom | ast.arguments) or _is_for_checkers(child):
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
