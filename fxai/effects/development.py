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

import gc
import linecache
import os
import re
import sys
import warnings
from collections.abc import Callable, Generator, Mapping, Sized
from functools import lru_cache, partial
from itertools import islice
from types import CellType, CodeType, FrameType, FunctionType, MethodType
from typing import Any, TypeAlias, cast, final

_OFTEN = 50  # watched effects per place; a wrong line is already wrong at its first run
_TEST = 10_000  # fully watched effects per test; after them, fxai watches every 64th effect
_CALLERS = 8  # frames around the creation of an effect, one of which can be the statement that drops it
_DEPTH = 6  # the depth of the search for effects inside the fields of an effect, such as in the closure of a function
_MANY = 1000  # checked items of a list
_HOLDERS = (tuple, list, dict, FunctionType, MethodType, CellType, partial)

_Location: TypeAlias = tuple[CodeType, int]  # a call: the code, and the offset in it
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

_made: dict[int, tuple[_Location, ...]] = {}  # by identity, the origin of each free effect that has not run
_warned: dict[str, dict[Any, Any]] = {}  # by file, the lines with a warning
_steps: dict[int, CodeType] = {}  # by place, the code of a `yield from`, held so that its id stays unique
_times: dict[int, int] = {}  # by place, the number of watched effects
_left = [sys.maxsize]  # the number of further effects that fxai fully watches


class Op(int):
    """The number of an instruction. The interpreter reads it from each effect that it runs."""

    def __get__(self, effect: object, owner: object) -> Op:
        if effect is not None:
            _made.pop(id(effect), None)
        return self


def start_test() -> None:
    """Reset the limits at the start of a test, because a test can create very many effects."""
    _left[0] = _TEST


def make(effect: object) -> None:
    """Record the place where an effect was created. The effects inside it become parts of it."""
    _left[0] = left = _left[0] - 1
    if left < 0 and left & 63:
        return
    # Many places call the functions that create effects. Four frames identify the place.
    one: Any = sys._getframe(1)  # pyright: ignore[reportPrivateUsage]
    two: Any = one.f_back or one
    three: Any = two.f_back or two
    four: Any = three.f_back or three
    location = id(one.f_code) + one.f_lasti + (id(two.f_code) + two.f_lasti) * 31
    location += (id(three.f_code) + three.f_lasti) * 961 + (id(four.f_code) + four.f_lasti) * 29_791
    times = _times.get(location, 0)
    if times < _OFTEN:
        _times[location] = times + 1
        _note(effect, one)


def _note(effect: object, frame: FrameType | None) -> None:
    _adopt(effect, _DEPTH)
    locations: list[_Location] = []
    while frame is not None and len(locations) < _CALLERS:
        locations.append((frame.f_code, frame.f_lasti))
        frame = frame.f_back
    _made[id(effect)] = tuple(locations)


def _adopt(holder: object, depth: int) -> None:
    held: object = holder.__closure__ if isinstance(holder, FunctionType) else holder
    if isinstance(held, (tuple, list, dict)) and len(cast("Sized", held)) > _MANY:
        return
    for one in gc.get_referents(held):
        if _made.pop(id(one), None) is None and depth and isinstance(one, _HOLDERS):
            _adopt(cast(object, one), depth - 1)


def drop(effect: object, is_over: Callable[[], bool] = sys.is_finalizing) -> None:  # a default outlives the module
    """Warn if a statement drops an effect that was never run and is not part of another effect.

    The patches of a stateful prompt use this function too. Nothing runs a patch, so an effect must return it.
    """
    if is_over() or (locations := _made.pop(id(effect), None)) is None:
        return
    frame = sys._getframe(1)  # pyright: ignore[reportPrivateUsage]
    is_patch = type(effect).__name__ == "StepPatch"
    for code, made in locations:
        call = _Expression(code, made)
        if (
            code is frame.f_code
            and frame.f_lasti > made
            and call.is_dropped(_span(code, frame.f_lasti), is_compared=not is_patch)
        ):
            lost = (
                _DROPPED_PATCH
                if is_patch
                else "an effect was dropped here, and never run: write `yield from` before it"
            )
            _warn(lost, code, call.span)
            return
        if (name := call.unread_name(code)) is not None:
            lost = f"the patch in {name!r} was never returned" if is_patch else f"the effect in {name!r} was never run"
            _warn(f"{lost}: nothing reads it", code, call.span)
            return
        if code.co_name == "__init__":
            return  # the new object contains the effect


def watch(*classes: Any) -> None:
    """Make the classes of effects report which effects run and which effects a loop iterates."""
    for one in classes:
        if "op" in vars(one):
            one.op = Op(one.op)
        if "__iter__" in vars(one):
            one.__fx_steps__, one.__iter__ = one.__iter__, iterate


def iterate(effect: object) -> Generator[Any, Any, Any]:
    """Run an effect in place of `__iter__`. Warn if a loop iterates the effect instead of its items."""
    _made.pop(id(effect), None)
    watched: Any = effect
    steps: Generator[Any, Any, Any] = watched.__fx_steps__()
    if _left[0] < 0:
        return steps
    frame = sys._getframe(1)  # pyright: ignore[reportPrivateUsage]
    location, code = id(frame.f_code) + frame.f_lasti, frame.f_code
    if location not in _steps:
        taken = _Expression(code, frame.f_lasti)
        if taken.is_loop:
            _warn("an effect is not its items: `(yield from effect)` gives those", code, taken.span)
        else:
            _steps[location] = code
    return steps


# -- the source of a program


@lru_cache(4096)
def _span(code: CodeType, offset: int) -> _Span:
    """Return the position in the source of the instruction at an offset."""
    return next(islice(code.co_positions(), offset // 2, None))


@final
class _Expression:
    """The expression of an instruction, with the text before and after it on its lines.

    fxai does not parse the source, because a destructor can run while another function parses: in CPython 3.11, both
    parsers then fail.
    """

    def __init__(self, code: CodeType, offset: int) -> None:
        self.span: _Span = _span(code, offset)
        first, last, start, end = self.span
        lines = [] if first is None or last is None else linecache.getlines(code.co_filename)[first - 1 : last]
        encoded = [line.encode() for line in lines] or [b""]  # positions count bytes
        self.before: str = encoded[0][:start].decode(errors="ignore").strip()
        self.after: str = encoded[-1][end:].partition(b"#")[0].decode(errors="ignore").strip()
        self.text: str = encoded[0][start:].decode(errors="ignore")
        """The first line of the expression."""

    def is_dropped(self, by: _Span, *, is_compared: bool) -> bool:
        """Return True if the instruction at another position drops the value of this expression.

        With `is_compared`, also return True if the instruction compares the value.
        """
        if by == self.span:
            return True  # an expression statement
        if by[0] is None:  # after a conditional expression
            return not self.before and self.after.startswith("if ")
        return is_compared and bool(re.match(_COMPARED, self.after) or re.search(_COMPARING, self.before))

    def unread_name(self, code: CodeType) -> str | None:
        """Return the local variable of this expression if the function contains its name only once."""
        assigned = re.fullmatch(_ASSIGNED, self.before)
        if assigned is None or self.after[:1] not in ("", ";"):
            return None
        name = assigned[1]
        last = max((line for *_, line in code.co_lines() if line), default=0)
        source = "".join(linecache.getlines(code.co_filename)[code.co_firstlineno - 1 : last])
        is_read = len(re.findall(rf"\b{name}\b", source)) > 1
        return None if is_read or name not in code.co_varnames or name.startswith("_") else name

    @property
    def is_loop(self) -> bool:
        """True if the instruction iterates a value in a loop, a display, or an assignment to several names."""
        if "yield from" in self.text or self.span[0] is None:
            return False
        is_unpacked = self.after.startswith("=") and not self.after.startswith("==")
        return is_unpacked or self.before.endswith(" in") or self.text.startswith(("for ", "[", "{", "("))


_DROPPED_PATCH = "a patch was dropped here, and changes nothing: return it from the function of `at.effect`"
_COMPARED = r"==|!=|<|>|(?:in|not in)\b"
_COMPARING = r"(?:==|!=|<=?|>=?|\bin)$"
_ASSIGNED = r"(?:.*;\s*)?([^\W\d]\w*)(?:\s*:[^=]+)?\s*="


def _warn(message: str, code: CodeType, span: _Span) -> None:
    file = code.co_filename
    warnings.warn_explicit(message, NeverRunWarning, file, span[0] or 0, registry=_warned.setdefault(file, {}))
