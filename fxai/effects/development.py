"""The development mode. It warns if a program creates an effect and drops it without running it.

The mode is on if the environment variable `FXAI_DEBUG` is set to a value other than `0`. If the variable is not set,
the mode is on under pytest and in the development mode of Python (`python -X dev`). fxai decides this when this package
is imported. If the mode is off, it costs nothing.

fxai emits a `NeverRunWarning` for an effect that its own statement drops or compares, for an effect in a local variable
that no code reads, and for an effect that a loop or an assignment iterates. It finds these statements in the source of
the program, by the positions that Python keeps for tracebacks. Without source, such as in `exec`, it emits no warning.
It does not warn of an effect that waits in a variable for a branch that the program does not take.

To keep the cost low, fxai watches the first 50 effects that one place of a program creates. In a test that creates more
than 10,000 effects, it then watches every 64th effect.

>>> is_on({"FXAI_DEBUG": "1"}, {})
True
"""

from __future__ import annotations

import ast
import gc
import linecache
import os
import sys
import warnings
from collections.abc import Callable, Generator, Iterator, Mapping, Sized
from contextlib import suppress
from functools import lru_cache, partial
from itertools import islice
from types import CellType, CodeType, FrameType, FunctionType, MethodType
from typing import Any, TypeAlias, cast, final

_OFTEN = 50  # effects of one place that are watched: a line that is wrong is wrong when it first runs
_TEST = 10_000  # effects of a test that are all looked at; of more, every 64th
_CALLERS = 8  # frames around the place where an effect is made, of which one may be the statement that drops it
_DEPTH = 6  # how deep inside its fields an effect may hold others: in the closure of a function in a tuple, say
_MANY = 1000  # items of a list that are looked at
_HOLDERS = (tuple, list, dict, FunctionType, MethodType, CellType, partial)

_Place: TypeAlias = tuple[CodeType, int]  # a call: the code, and the offset in it
_Span: TypeAlias = tuple[
    int | None, int | None, int | None, int | None
]  # first line, last line, first column, last column


class NeverRunWarning(RuntimeWarning):
    """An effect was made and never run: nothing of what it describes has happened."""


def is_on(environment: Mapping[str, str], modules: Mapping[str, Any], *, dev_mode: bool = False) -> bool:
    """Return true if effects are watched."""
    wanted = environment.get("FXAI_DEBUG")
    if wanted is None:
        return dev_mode or ("PYTEST_VERSION" in environment and "pytest" in modules)
    return wanted not in ("", "0")


ON = is_on(os.environ, sys.modules, dev_mode=sys.flags.dev_mode)

_made: dict[int, tuple[_Place, ...]] = {}  # by identity, where each was made that was not run and is part of no other
_told: dict[str, dict[Any, Any]] = {}  # by file, the lines that were warned of
_steps: dict[int, CodeType] = {}  # by place, the code of a `yield from`, so that nothing else takes its place
_times: dict[int, int] = {}  # by place, how many effects of it were watched
_left = [sys.maxsize]  # how many effects more are all looked at


class Op(int):
    """The number of an instruction, which the interpreter reads from what it runs."""

    def __get__(self, effect: object, owner: object) -> Op:
        if effect is not None:
            _made.pop(id(effect), None)
        return self


def begin_test() -> None:
    """A test begins, which may make very many effects: its time is not to be spent on them."""
    _left[0] = _TEST


def make(effect: object) -> None:
    """Notes where an effect was made; those that it holds are its own from now on."""
    _left[0] = left = _left[0] - 1
    if left < 0 and left & 63:
        return
    # What makes effects is called from many places: four frames say which one it is.
    one: Any = sys._getframe(1)  # pyright: ignore[reportPrivateUsage]
    two: Any = one.f_back or one
    three: Any = two.f_back or two
    four: Any = three.f_back or three
    place = id(one.f_code) + one.f_lasti + (id(two.f_code) + two.f_lasti) * 31
    place += (id(three.f_code) + three.f_lasti) * 961 + (id(four.f_code) + four.f_lasti) * 29_791
    times = _times.get(place, 0)
    if times < _OFTEN:
        _times[place] = times + 1
        _note(effect, one)


def _note(effect: object, frame: FrameType | None) -> None:
    _adopt(effect, _DEPTH)
    places: list[_Place] = []
    while frame is not None and len(places) < _CALLERS:
        places.append((frame.f_code, frame.f_lasti))
        frame = frame.f_back
    _made[id(effect)] = tuple(places)


def _adopt(holder: object, depth: int) -> None:
    held: object = holder.__closure__ if isinstance(holder, FunctionType) else holder
    if isinstance(held, (tuple, list, dict)) and len(cast("Sized", held)) > _MANY:
        return
    for one in gc.get_referents(held):
        if _made.pop(id(one), None) is None and depth and isinstance(one, _HOLDERS):
            _adopt(cast(object, one), depth - 1)


def drop(effect: object, is_over: Callable[[], bool] = sys.is_finalizing) -> None:  # a default outlives the module
    """Warn if a statement drops an effect that was never run and is not part of another effect."""
    if is_over() or (places := _made.pop(id(effect), None)) is None:
        return
    frame = sys._getframe(1)  # pyright: ignore[reportPrivateUsage]
    for code, made in places:
        source, span = _source_of(code.co_filename), _span(code, made)
        statement = source.dropped.get(span)
        is_after = code is frame.f_code and frame.f_lasti > made  # otherwise the called function drops it
        if statement is not None and is_after and _is_inside(_span(code, frame.f_lasti), statement):
            _warn("an effect was dropped here, and never run: write `yield from` before it", code, span)
            return
        if span in source.unread:
            _warn(f"the effect in {source.unread[span]!r} was never run: nothing reads it", code, span)
            return
        if code.co_name == "__init__":
            return  # the new object contains the effect


def watch(*classes: Any) -> None:
    """Makes the classes of effects tell what is run, and what is iterated."""
    for one in classes:
        if "op" in vars(one):
            one.op = Op(one.op)
        if "__iter__" in vars(one):
            one.__fx_steps__, one.__iter__ = one.__iter__, iterate


def iterate(effect: object) -> Generator[Any, Any, Any]:
    """What `__iter__` is: an effect is run by `yield from`; it warns where a loop takes the effect for its items."""
    _made.pop(id(effect), None)
    watched: Any = effect
    steps: Generator[Any, Any, Any] = watched.__fx_steps__()
    if _left[0] < 0:
        return steps
    frame = sys._getframe(1)  # pyright: ignore[reportPrivateUsage]
    place, code = id(frame.f_code) + frame.f_lasti, frame.f_code
    if place not in _steps:
        span = _span(code, frame.f_lasti)
        is_delegated = "yield from" in linecache.getline(
            code.co_filename, span[0] or 0
        )  # the usual case, without a parse
        if not is_delegated and span in _source_of(code.co_filename).loops:
            _warn("an effect is not its items: `(yield from effect)` gives those", code, span)
        else:
            _steps[place] = code
    return steps


# -- the source of a program


@lru_cache(4096)
def _span(code: CodeType, offset: int) -> _Span:
    """Return the position in the source of the instruction at an offset."""
    return next(islice(code.co_positions(), offset // 2, None))


def _is_inside(span: _Span, statement: ast.stmt) -> bool:
    """Return True if a position is in a statement. The last instruction of a conditional expression has no position."""
    return span[0] is None or statement.lineno <= span[0] <= (statement.end_lineno or statement.lineno)


@lru_cache(1024)
def _source_of(file: str) -> _Source:
    source = _Source()
    # a notebook cell with a magic command is no Python; SystemError: a bug of CPython near the limit of recursion
    with suppress(SyntaxError, ValueError, RecursionError, SystemError):
        source.read(ast.parse("".join(linecache.getlines(file))), None)
    return source


@final
class _Source:
    """The statements of a file that misuse an effect if one of their expressions is an effect."""

    def __init__(self) -> None:
        self.dropped: dict[_Span, ast.stmt] = {}
        """The statement that drops or compares an expression, by the position of the expression."""
        self.unread: dict[_Span, str] = {}
        """The local variable that no code reads, by the position of its value."""
        self.loops: set[_Span] = set()
        """The positions that Python reports while it iterates a value."""

    def read(self, node: ast.AST, function: ast.AST | None, statement: ast.stmt | None = None) -> None:
        """Add a node and the nodes inside it.

        Args:
            node: Node of the syntax tree.
            function: Function that contains it. None for a module or a class.
            statement: Statement that contains it.
        """
        match node:
            case ast.Expr(value=value):
                self.dropped.update((_of(one), node) for one in _arms(value))
            case ast.Compare(left=left, comparators=others) if statement is not None:
                self.dropped.update((_of(one), statement) for one in (left, *others))
            case ast.Assign(targets=[ast.Name(id=name)], value=value) if function is not None:
                if not name.startswith("_") and name not in _read_names(function):
                    self.unread[_of(value)] = name
            case ast.Assign(targets=[ast.Tuple() | ast.List() as target]):
                self.loops.add(_of(target))
            case ast.For(iter=values):  # Python 3.13 reports the iterated value, and earlier versions the statement
                self.loops.update((_of(node), _of(values)))
            case ast.ListComp() | ast.SetComp() | ast.DictComp() | ast.GeneratorExp():
                self.loops.update((_of(node), _of(node.generators[0].iter)))
            case ast.List() | ast.Tuple() | ast.Set() if any(isinstance(one, ast.Starred) for one in node.elts):
                self.loops.add(_of(node))
            case _:
                pass
        inner = node if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda) else function
        inner = None if isinstance(node, ast.ClassDef) else inner
        for child in ast.iter_child_nodes(node):
            self.read(child, inner, node if isinstance(node, ast.stmt) else statement)


def _of(node: ast.expr | ast.stmt) -> _Span:
    return node.lineno, node.end_lineno, node.col_offset, node.end_col_offset


def _arms(value: ast.expr) -> Iterator[ast.expr]:
    """Yield the expressions that can be the value of an expression."""
    match value:
        case ast.IfExp(body=body, orelse=other):
            yield from _arms(body)
            yield from _arms(other)
        case ast.BoolOp(values=values):
            yield from values
        case _:
            yield value


@lru_cache(4096)
def _read_names(function: ast.AST) -> frozenset[str]:
    """Return the names that a function reads or deletes, also in the functions inside it."""
    names = [one for one in ast.walk(function) if isinstance(one, ast.Name) and not isinstance(one.ctx, ast.Store)]
    shared = [name for one in ast.walk(function) if isinstance(one, ast.Global | ast.Nonlocal) for name in one.names]
    return frozenset([*(one.id for one in names), *shared])


def _warn(message: str, code: CodeType, span: _Span) -> None:
    file = code.co_filename
    warnings.warn_explicit(message, NeverRunWarning, file, span[0] or 0, registry=_told.setdefault(file, {}))
