"""Programs run as hosts: their options, their processes, and what can go wrong with them.

>>> program_of(("translate", "--to", "de"), {"format": "text"}).lifetime
'scope'
>>> print(HostFailure("translate", "ended", "it ended before its answer was complete", exit_code=3))
The program 'translate' has ended (exit code 3): it ended before its answer was complete. Run it by hand ...
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path, PurePath
from typing import Any, Final, Literal, TypeAlias, TypedDict, final, get_args

import anyio
import msgspec
from anyio.abc import ByteReceiveStream

from fxai.effects.process import GONE, ChildProcess
from fxai.messages.reason import (
    InternalProviderError,
    InvalidOutputError,
    InvalidRequestError,
    InvalidUserInputError,
    ModelUnavailableError,
    Reason,
    RequestTimeoutError,
    UnknownError,
)

Format: TypeAlias = Literal["text", "json"]
"""The format of requests and answers: lines of plain text, or one JSON object a line."""

Lifetime: TypeAlias = Literal["scope", "request"]
"""How long one process lives: as long as the scope around, or for one request."""

Take: TypeAlias = Literal["tools", "schema", "options"]
"""What a model may be sent beside messages: tools to call, a schema for its answer, options such as temperature."""


class HostOptions(TypedDict, total=False):
    """How a program is run, and in which format it is asked."""

    format: Format
    """`"json"` by default."""
    lifetime: Lifetime
    """`"scope"` by default: started with the scope and asked again and again, one request at a time; one that has
    ended, or was stopped in the middle of an answer, is started anew by the next request. `"request"`: a process for
    each request, whose input ends behind it; requests are served side by side."""
    params: Mapping[str, Any] | None
    """Sent first, in an `init` message, which it has to acknowledge. None, the default: no such message."""
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
    """A program with its options; the fields are those of `HostOptions`, `params` as JSON text."""

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
        """Its name in errors: the command, without its directory and its arguments."""
        return PurePath(self.command[0]).name

    @property
    def whole(self) -> bool:
        """Whether all that it writes is one answer: plain text, of a process for one request."""
        return self.format == "text" and self.lifetime == "request"

    def input_line(self, text: str) -> bytes | None:
        """The request as plain text for its input; None for several lines where it reads one line for each request."""
        line = text.rstrip("\r\n")
        several = "\n" in line or "\r" in line
        return None if several and not self.whole else f"{line}\n".encode()

    def __repr__(self) -> str:
        return f"Program({self.name!r}, format={self.format!r})"  # arguments and variables may hold secrets


_CHOICES: Final = {"format": get_args(Format), "lifetime": get_args(Lifetime)}
_POSITIVE: Final = ("silence", "timeout", "max_line", "max_answer")


def program_of(command: tuple[str, ...], options: HostOptions, takes: Iterable[Take] = ()) -> Program:
    """The program of a command line, which no shell reads, and options.

    Raises `TypeError` for an unknown option or `params` that JSON cannot carry; `ValueError` for no command, an option
    that has no such value, or `takes` of a host that speaks plain text.
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
    program = Program(tuple(command), **given, takes=_check_takes(frozenset(takes), options.get("format", "json")))
    _check_values(program)
    return program


def _check_takes(takes: frozenset[Take], format_: str) -> frozenset[Take]:
    unknown = takes - set(get_args(Take))
    if unknown:
        raise ValueError(f"takes names {', '.join(sorted(unknown))}: there are {', '.join(get_args(Take))}")
    if takes and format_ != "json":
        raise ValueError('a host that speaks plain text takes nothing but text: leave takes out, or say format="json"')
    return takes


def _check_values(program: Program) -> None:
    for name, choices in _CHOICES.items():
        if getattr(program, name) not in choices:
            raise ValueError(f"{name} is {getattr(program, name)!r}: it is {' or '.join(map(repr, choices))}")
    for name in _POSITIVE:
        value = getattr(program, name)
        if value is not None and not value > 0:
            raise ValueError(f"{name} is {value!r}: it must be more than 0")
    if not program.grace >= 0:
        raise ValueError(f"grace is {program.grace!r}: it must be at least 0")


# -- what can go wrong

HostProblem: TypeAlias = Literal[
    "not-found", "refused", "invalid-input", "ended", "timeout", "invalid-output", "too-much", "reported"
]
"""The kind of failure: the program is not there or may not be run; it refused its `params`; the request cannot be
expressed in its format; it ended, or closed its output, before its answer was complete; it did not answer in time; its
output is not the protocol; its output is larger than allowed; it answered with an error of its own."""

_WORDS: Final[dict[HostProblem, tuple[str, str]]] = {
    "not-found": ("cannot be started", "Check the command, `cwd` and whether the file may be run"),
    "refused": ("refused its params", "Change `params` to what it wants"),
    "invalid-input": ("cannot be asked this", "Change what is asked, or how the program is spoken to"),
    "ended": ("has ended", "Run it by hand with the same input and look at what it writes to stderr"),
    "timeout": ("did not answer in time", "Allow more by `silence` or `timeout`, or see what it waits for"),
    "invalid-output": ("said what is not the protocol", "Write one line of the protocol for each message to stdout"),
    "too-much": ("said more than is read", "Let it say less, or allow more by `max_line` or `max_answer`"),
    "reported": ("reports an error", "See what it says"),
}
_RETRYABLE: Final = ("ended", "timeout", "invalid-output")
_STDERR_LENGTH: Final = 500


@final
class HostFailure(msgspec.Struct, frozen=True):
    """What went wrong with a host.

    Attributes:
        program: The command, without its directory and its arguments.
        problem: The kind of failure, one of a closed set of words.
        description: What happened, in words; the host's own, where it reported an error.
        exit_code: What the program ended with, where it has; negative for a signal.
        seconds: How long it was waited for, where it did not answer in time.
        stderr: The last that it wrote to stderr, at most some 4,000 characters.
        retryable: Whether the host says that asking again can help.
        retry_after: The seconds to wait before that, if the host says.
    """

    program: str
    problem: HostProblem
    description: str = ""
    exit_code: int | None = None
    seconds: float | None = None
    stderr: str = ""
    retryable: bool = False
    retry_after: float | None = None

    @property
    def is_retryable(self) -> bool:
        """Whether asking again can help: where it ended, was silent or wrote nonsense, or where it says so."""
        return self.retryable or self.problem in _RETRYABLE

    @property
    def message(self) -> str:
        """What happened, in one line, without what it wrote to stderr."""
        code = "" if self.exit_code is None else f" (exit code {self.exit_code})"
        within = "" if self.seconds is None else f" ({self.seconds:g} s)"
        description = f": {self.description}" if self.description else ""
        return f"The program {self.program!r} {_WORDS[self.problem][0]}{code}{within}{description}"

    @property
    def advice(self) -> str:
        """What to do about it, in one line."""
        return _WORDS[self.problem][1]

    @property
    def full_message(self) -> str:
        """The message, with the end of what it wrote to stderr behind it."""
        end = self.stderr.strip()[-_STDERR_LENGTH:]
        return f"{self.message}; its stderr ends: {end}" if end else self.message

    def __str__(self) -> str:
        return f"{self.full_message}. {self.advice}"


def reason_of(failure: HostFailure) -> Reason:
    """The reason of the `AiError` that a failure becomes, where the host is a model."""
    text = failure.full_message
    match failure.problem:
        case "not-found":
            return ModelUnavailableError(model=failure.program, problem="missing", description=text)
        case "refused":
            return InvalidRequestError(parameter="params", description=text)
        case "invalid-input":
            return InvalidUserInputError(text)
        case "timeout":
            return RequestTimeoutError(seconds=failure.seconds, description=text)
        case "invalid-output" | "too-much":
            return InvalidOutputError(text)
        case "ended":
            return InternalProviderError(text)
        case "reported":
            if failure.retryable:
                return InternalProviderError(text, retry_after=failure.retry_after)
            return UnknownError(text)


# -- the running program

_CHUNK: Final = 65536
_STDERR_KEPT: Final = 4000


class TooMuchError(Exception):
    """A line, or all lines of an answer, are longer than is read."""


@final
class Process:
    """A running program, written to and read by lines."""

    def __init__(self, raw: ChildProcess, program: Program) -> None:
        self._raw = raw
        self._program = program
        self._buffer = bytearray()
        self._searched = 0
        self._read = 0
        self._sent = True
        self._tail = b""
        self._drained = anyio.Event()
        self.at_end: bool = False
        """Whether its output has ended."""
        self.busy: bool = False
        """Whether it is in the middle of an answer: then it can be asked nothing more."""
        self.takes: frozenset[str] = frozenset()
        """What it takes beside messages, by its own declaration."""

    @staticmethod
    async def start(program: Program) -> Process:
        """The process of a program, started.

        Raises `OSError`: it is not there, may not be run, or the directory is not there.
        """
        env = {**os.environ, **dict(program.env)}
        raw = await ChildProcess.start(program.command, cwd=program.cwd, env=env, grace=program.grace)
        return Process(raw, program)

    @property
    def exit_code(self) -> int | None:
        """What it ended with; None while it runs."""
        return self._raw.exit_code

    @property
    def usable(self) -> bool:
        """Whether it can be asked."""
        return not (self.busy or self.at_end or self.exit_code is not None)

    @property
    def left_over(self) -> bytes:
        """What it wrote behind its last answer."""
        return bytes(self._buffer[:80])

    @property
    def stderr(self) -> str:
        """The last that it wrote to stderr."""
        return self._tail.decode("utf-8", "replace")

    # -- writing

    def begin(self) -> None:
        """A request begins."""
        self.busy, self._sent, self._read = True, False, 0

    def finish(self) -> None:
        """The answer is complete; one that came before all of the request was read leaves it unusable."""
        self.busy = not self._sent

    async def send(self, line: bytes, *, last: bool) -> None:
        """Writes a line, and ends its input if it is the `last`. One that reads nothing is no failure here."""
        with suppress(*GONE):  # what it has written before can still be read
            await self._raw.stdin.send(line)
        if last:
            with suppress(*GONE):
                await self._raw.stdin.aclose()
        self._sent = True

    # -- reading

    async def line(self) -> bytes | None:
        """Its next line without the line's end, also one that its end cut short; None when its output has ended.

        Raises `TooMuchError`: the line, or the answer, is longer than is read.
        """
        while (at := self._buffer.find(b"\n", self._searched)) < 0:
            self._searched = len(self._buffer)
            self._within(self._searched, self._program.max_line, "line")
            chunk = await _receive(self._raw.stdout)
            if not chunk:
                self.at_end = True
                return self._take(len(self._buffer)) if self._buffer else None
            self._buffer += chunk
        return self._take(at)

    def _take(self, at: int) -> bytes:
        self._within(at, self._program.max_line, "line")
        line = bytes(self._buffer[:at]).removesuffix(b"\r")
        del self._buffer[: at + 1]
        self._searched = 0
        self._read += at + 1
        self._within(self._read, self._program.max_answer, "answer")
        return line

    def _within(self, size: int, most: int, what: str) -> None:
        if size > most:
            raise TooMuchError(f"its {what} is longer than {most} bytes (`max_{what}`)")

    async def listen(self) -> None:
        """Reads stderr to its end and keeps the last of it, so that a program that writes much is not held up."""
        try:
            while chunk := await _receive(self._raw.stderr):
                self._tail = (self._tail + chunk)[-_STDERR_KEPT:]
        finally:
            self._drained.set()

    async def settle(self) -> None:
        """Waits until it has ended and all of its stderr is read; not longer than its grace."""
        with anyio.move_on_after(self._program.grace):
            await self._raw.gone_within(self._program.grace)
            await self._drained.wait()

    # -- the end

    async def end(self) -> None:
        """Ends it and all that it started; one in the middle of an answer gets no time to end by itself."""
        await self._raw.end(patient=not self.busy)


async def _receive(stream: ByteReceiveStream) -> bytes:
    """What comes next; empty at the end."""
    try:
        return await stream.receive(_CHUNK)
    except GONE:
        return b""
