"""Calling: `fxai call`: where the parameters come from, and where the result goes.

>>> parameters(None), parameters('{"a": 1}')
({}, {'a': 1})
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, TextIO

from fxai.cli.offer import Offer, named, with_layer
from fxai.cli.piped import read_at_most
from fxai.cli.program import value_of
from fxai.cli.single_call import SingleCall, called
from fxai.cli.text import clean, in_line, indented, json_line
from fxai.cli.trouble import WRONG_USE, Trouble
from fxai.cli.waiting import Waiting
from fxai.effects.effect import EffectOf
from fxai.schema.fault import DecodeError
from fxai.schema.parsing import parse_json_unsafe
from fxai.tools.call import Outcome

__all__ = ["call_offered", "call_tool", "parameters"]

_REMEDY: Final = """give JSON such as '{"a": 1}', @file, or - for stdin"""


def call_tool(
    target: str,
    tool: str,
    out: TextIO,
    err: TextIO,
    *,
    params: str | None = None,
    layer: str | None = None,
    approved: bool = False,
    as_json: bool = False,
) -> bool:
    """Calls a tool of a target once, and shows what it gave.

    Raises:
        Trouble: the target, the layer or the parameters cannot be had, or the call failed.
    """
    if target == "-" and params == "-":
        raise Trouble("stdin cannot be both the tools and the parameters", _REMEDY, code=WRONG_USE)

    def find() -> Offer:
        return with_layer(named(target), layer)

    return call_offered(find, tool, out, err, params=params, approved=approved, as_json=as_json)


def call_offered(
    find: Callable[[], Offer],
    tool: str,
    out: TextIO,
    err: TextIO,
    *,
    params: str | None = None,
    approved: bool = False,
    as_json: bool = False,
    plain: Callable[[Any], str | None] = lambda _: None,
    waiting: Waiting | None = None,
    run: Callable[[EffectOf[None, Any, Any]], None] = value_of,
) -> bool:
    """Calls a tool of the offer that `find` gives once, and shows what it gave: JSON, or the text that it is.

    `waiting` is what says that it lasts, and `run` what runs it, where they are not of its own.

    Raises:
        Trouble: the offer or the parameters cannot be had, or the call failed.
    """
    given = parameters(params)

    waiting = waiting or Waiting(err, f"calling {tool}")

    def show(outcome: Outcome) -> None:
        waiting.end()
        if as_json:
            _line(out, {"type": "preliminary", "result": outcome.encoded_result})
        else:
            err.write(f"… {in_line(outcome.encoded_result)}\n")
            err.flush()

    with waiting:
        outcomes = called(find(), SingleCall(tool, given, approved), show, run)
    for outcome in outcomes:
        if as_json:
            _line(out, {"type": "result", "ok": True, "tool": tool, "result": outcome.encoded_result})
        else:
            text = plain(outcome.encoded_result)
            out.write((indented(outcome.encoded_result) if text is None else clean(text)) + "\n")
    return True


def parameters(given: str | None) -> Any:
    """The parameters that are given as JSON, as `@` and a path, or as `-` on stdin; `{}` where nothing is.

    Raises:
        Trouble: they are no JSON, or the file cannot be read.
    """
    text, where = _text(given)
    try:
        return parse_json_unsafe(text)
    except DecodeError as error:
        raise Trouble(f"{where} is no JSON: {error.failure}", _REMEDY, code=WRONG_USE) from None


def _text(given: str | None) -> tuple[bytes | str, str]:
    if given is None:
        return "{}", "nothing"
    if given == "-":
        stdin: Any = sys.stdin
        if stdin is None or stdin.isatty():
            raise Trouble("nothing is piped in", _REMEDY, code=WRONG_USE)
        return read_at_most(getattr(stdin, "buffer", stdin), "stdin"), "stdin"
    if not given.startswith("@"):
        return given.encode("utf-8", "surrogateescape"), f"{given[:60]!r}"
    try:
        with Path(given[1:]).open("rb") as file:
            return read_at_most(file, given[1:]), given[1:]
    except (OSError, ValueError) as error:
        said = getattr(error, "strerror", None) or error
        raise Trouble(f"{given[1:]} cannot be read: {said}", _REMEDY, code=WRONG_USE) from None


def _line(out: TextIO, data: dict[str, Any]) -> None:
    out.write(json_line(data))
    out.flush()
