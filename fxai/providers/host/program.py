"""Programs: which one is run as a host, and how it is spoken to.

>>> program_of(("translate", "--to", "de"), {"format": "text"}).lifetime
'scope'
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path, PurePath
from typing import Any, Final, Literal, TypeAlias, TypedDict, final, get_args

import msgspec

__all__ = ["Format", "HostOptions", "Lifetime", "Program", "Take", "program_of"]

Format: TypeAlias = Literal["text", "json"]
"""How it is spoken to: by lines of plain text, or by one JSON object a line."""

Lifetime: TypeAlias = Literal["scope", "request"]
"""How long one process lives: as long as the scope around, or for one request."""

Take: TypeAlias = Literal["tools", "schema", "options"]
"""What a model may be given beside messages: tools to call, a schema for its answer, options such as temperature."""


class HostOptions(TypedDict, total=False):
    """How a program is run and spoken to."""

    format: Format
    """`"json"` by default."""
    lifetime: Lifetime
    """`"scope"` by default: started with the scope and asked again and again, one request at a time; one that has
    ended, or was stopped in the middle of an answer, is started anew by the next request. `"request"`: a process for
    each request, whose input ends behind it; requests are served side by side."""
    params: Mapping[str, Any] | None
    """What it is told first, in an `init` message, which it has to acknowledge. None, the default: no such message."""
    env: Mapping[str, str]
    """Environment variables, beside those of this process."""
    cwd: str | Path | None
    """The directory that it runs in; None: this process's."""
    silence: float | None
    """The seconds that may pass without a line while it is waited for; 300 by default, None for any."""
    timeout: float | None
    """The seconds in which an answer must be complete, the time of its reader included; None, the default, for any."""
    max_line: int
    """The longest line that is read, in bytes; 16 MiB by default."""
    max_answer: int
    """The longest answer that is read, all its lines together, in bytes; 64 MiB by default."""
    grace: float
    """The seconds that it gets to end by itself when its input ends, and again when it is told to; 2 by default."""


@final
class Program(msgspec.Struct, frozen=True):
    """A program and how it is spoken to; the fields are those of `HostOptions`, `params` as JSON text."""

    command: tuple[str, ...]
    format: Format = "json"
    lifetime: Lifetime = "scope"
    params: str | None = None
    env: tuple[tuple[str, str], ...] = ()
    cwd: str | None = None
    silence: float | None = 300.0
    timeout: float | None = None
    max_line: int = 16 * 1024 * 1024
    max_answer: int = 64 * 1024 * 1024
    grace: float = 2.0
    takes: frozenset[Take] = frozenset()

    @property
    def name(self) -> str:
        """What errors call it: the command, without its directory and its arguments."""
        return PurePath(self.command[0]).name

    @property
    def whole(self) -> bool:
        """Whether all that it writes is one answer: plain text, of a process for one request."""
        return self.format == "text" and self.lifetime == "request"

    def input_line(self, text: str) -> bytes | None:
        """The request as plain text for its input; None for several lines where it reads one line for each request."""
        said = text.rstrip("\r\n")
        several = "\n" in said or "\r" in said
        return None if several and not self.whole else f"{said}\n".encode()

    def __repr__(self) -> str:
        return f"Program({self.name!r}, format={self.format!r})"  # arguments and variables may hold secrets


_CHOICES: Final = {"format": get_args(Format), "lifetime": get_args(Lifetime)}
_POSITIVE: Final = ("silence", "timeout", "max_line", "max_answer")


def program_of(command: tuple[str, ...], options: HostOptions, takes: Iterable[Take] = ()) -> Program:
    """The program of a command line and options.

    Args:
        command: The program and its arguments; no shell reads them.
        options: See `HostOptions`.
        takes: What a model may be given beside messages.

    Raises:
        TypeError: An option that there is none of, or `params` that JSON cannot carry.
        ValueError: No command, an option that has no such value, or `takes` of a host that speaks plain text.
    """
    unknown = set(options) - set(HostOptions.__annotations__)
    if unknown:
        known = ", ".join(HostOptions.__annotations__)
        raise TypeError(f"hosts have no option {', '.join(sorted(unknown))}: there are {known}")
    if not command or not command[0]:
        raise ValueError("a host needs a command: the program's name or path")
    params, cwd = options.get("params"), options.get("cwd")
    given: dict[str, Any] = {
        **options,
        "params": None if params is None else msgspec.json.encode(params).decode(),
        "env": tuple(sorted(options.get("env", {}).items())),
        "cwd": None if cwd is None else str(cwd),
    }
    program = Program(tuple(command), **given, takes=_taken(frozenset(takes), options.get("format", "json")))
    _hold_values(program)
    return program


def _taken(takes: frozenset[Take], format_: str) -> frozenset[Take]:
    unknown = takes - set(get_args(Take))
    if unknown:
        raise ValueError(f"takes names {', '.join(sorted(unknown))}: there are {', '.join(get_args(Take))}")
    if takes and format_ != "json":
        raise ValueError('a host that speaks plain text takes nothing but text: leave takes out, or say format="json"')
    return takes


def _hold_values(program: Program) -> None:
    for name, choices in _CHOICES.items():
        if getattr(program, name) not in choices:
            raise ValueError(f"{name} is {getattr(program, name)!r}: it is {' or '.join(map(repr, choices))}")
    for name in _POSITIVE:
        value = getattr(program, name)
        if value is not None and not value > 0:
            raise ValueError(f"{name} is {value!r}: it must be more than 0")
    if not program.grace >= 0:
        raise ValueError(f"grace is {program.grace!r}: it must be at least 0")
