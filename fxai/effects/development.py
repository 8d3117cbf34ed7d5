"""The development mode: warns of effects that were made, and thrown away without being run.

It is on if the environment variable `FXAI_DEBUG` is set to anything but `0`. If the variable is not set, it is on under
pytest and in Python's development mode, `python -X dev`. fxai decides this when the package is imported: if it is off,
effects have no part of it and cost nothing.

A `NeverRunWarning` is given for an effect that is dropped by the statement that made it, for one in a local variable
that nothing ever reads, and for one that a loop takes for its items. These are mistakes whatever the program does. An
effect that waits in a variable for a branch that is not taken is none, and one that is part of another is that one's.

Watching has to be cheap. Of the effects that one place of a program makes, the first 50 are watched; and in a test that
makes more than 10,000, every 64th of the rest is looked at.

>>> is_on({"FXAI_DEBUG": "1"}, {})
True
"""

from __future__ import annotations

import dis
import gc
import os
import sys
import warnings
from bisect import bisect_right
from collections.abc import Generator, Mapping, Sized
from functools import lru_cache, partial
from types import CellType, CodeType, FrameType, FunctionType, MethodType
from typing import Any, TypeAlias, cast

_OFTEN = 50  # effects of one place that are watched: a line that is wrong is wrong when it first runs
_TEST = 10_000  # effects of a test that are all looked at; of more, every 64th
_CALLERS = 8  # frames around the place where an effect is made, of which one may be the statement that drops it
_DEPTH = 6  # how deep inside its fields an effect may hold others: in the closure of a function in a tuple, say
_MANY = 1000  # items of a list that are looked at
_DROPS = frozenset({"POP_TOP", "COMPARE_OP", "CONTAINS_OP", "IS_OP"})
_LOOPS = frozenset({"GET_ITER", "UNPACK_SEQUENCE", "UNPACK_EX", "LIST_EXTEND", "SET_UPDATE"})
_HOLDERS = (tuple, list, dict, FunctionType, MethodType, CellType, partial)

_Place: TypeAlias = tuple[CodeType, int]  # of a call: the code, and the offset in it


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


def drop(effect: object) -> None:
    """Warns where an effect goes that was neither run nor part of another, by a mistake that is known as one."""
    places = _made.pop(id(effect), None)
    if places is None or sys.is_finalizing():
        return
    frame = sys._getframe(1)  # pyright: ignore[reportPrivateUsage]
    here, at = frame.f_code, frame.f_lasti
    for code, made in places:
        following = _instruction(code, made, after=1)
        dropping = _instruction(here, at)
        is_dropped = following is dropping or _line(code, made) == _line(here, at)
        if code is here and is_dropped and dropping.opname in _DROPS:
            _warn("an effect was dropped here, and never run: write `yield from` before it", code, made)
            return
        if following.opname.startswith("STORE_FAST") and (name := _names(following)[0]) in _unread(code):
            _warn(f"the effect in {name!r} was never run: nothing reads it", code, made)
            return
        if code.co_name == "__init__":
            return  # the object that was made holds it


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
    place = id(frame.f_code) + frame.f_lasti
    if place not in _steps:
        if _instruction(frame.f_code, frame.f_lasti).opname in _LOOPS:
            _warn("an effect is not its items: `(yield from effect)` gives those", frame.f_code, frame.f_lasti)
        else:
            _steps[place] = frame.f_code
    return steps


@lru_cache(4096)
def _instructions(code: CodeType) -> tuple[list[int], list[dis.Instruction]]:
    instructions = list(dis.get_instructions(code))
    return [one.offset for one in instructions], instructions


def _instruction(code: CodeType, offset: int, *, after: int = 0) -> dis.Instruction:
    """The instruction at an offset, which may be inside of it, or one after it."""
    offsets, instructions = _instructions(code)
    return instructions[min(bisect_right(offsets, offset) - 1 + after, len(offsets) - 1)]


def _names(one: dis.Instruction) -> tuple[str, ...]:
    """The local variables of an instruction; from 3.13 on, one may stand for two: what it does first comes first."""
    names: Any = one.argval
    return cast("tuple[str, ...]", names) if isinstance(names, tuple) else (cast(str, names),)


@lru_cache(4096)
def _unread(code: CodeType) -> frozenset[str]:
    """The local variables that are never read, but for those whose names begin with `_`: they are meant."""
    read: set[str] = set()
    for one in _instructions(code)[1]:
        if one.opname.startswith(("LOAD_FAST", "DELETE_FAST")):
            read.update(_names(one))
        elif one.opname == "STORE_FAST_LOAD_FAST":
            read.add(_names(one)[1])
    return frozenset(name for name in code.co_varnames if name not in read and not name.startswith("_"))


def _line(code: CodeType, offset: int) -> int:
    return [line for start, line in dis.findlinestarts(code) if start <= offset and line][-1]


def _warn(message: str, code: CodeType, offset: int) -> None:
    file = code.co_filename
    warnings.warn_explicit(message, NeverRunWarning, file, _line(code, offset), registry=_told.setdefault(file, {}))
