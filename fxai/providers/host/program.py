"""Programs that run as hosts: their options, processes, and failures. Hosts as models and as tools share this module.

>>> program_of(("translate", "--to", "de"), {"format": "text"}).lifetime
'scope'
>>> print(HostFailure("translate", "ended", "before its answer was complete", exit_code=3))
Program 'translate' ended (exit code 3): before its answer was complete. Run it by hand ...
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
"""The format of requests and answers: lines of plain text, or one JSON object on each line."""

Lifetime: TypeAlias = Literal["scope", "request"]
"""The lifetime of a process: until its scope closes, or for one request."""

Take: TypeAlias = Literal["tools", "schema", "options"]
"""The data that a model accepts in addition to messages: tools, a schema for its answer, or options."""


class HostOptions(TypedDict, total=False):
    """The options of a program and the format of its requests."""

    format: Format
    """The format of requests and answers. By default `"json"`."""
    lifetime: Lifetime
    """The lifetime of a process. By default `"scope"`: the process starts with the scope and answers one request at a
    time. If it ended, or was stopped during an answer, the next request starts it again. `"request"`: fxai starts a
    process for each request and closes its input after the request. The processes run concurrently."""
    params: Mapping[str, Any] | None
    """Parameters of the first message, `init`. The program must acknowledge it. By default fxai sends no `init`."""
    env: Mapping[str, str]
    """Environment variables, in addition to the variables of this process."""
    cwd: str | Path | None
    """The working directory of the program. By default the directory of this process."""
    silence: float | None
    """The maximum number of seconds to wait for a line. 300 by default; None disables the limit."""
    timeout: float | None
    """The maximum number of seconds for an answer, including the time of its reader. By default unlimited."""
    max_line: int
    """The maximum size of a line in bytes. 16 MiB by default."""
    max_answer: int
    """The maximum size of an answer with all its lines, in bytes. 64 MiB by default."""
    grace: float
    """The seconds for the program to end after its input ends, and again after the signal to end. 2 by default."""


@final
class Program(msgspec.Struct, frozen=True):
    """A program with its options. The fields are the fields of `HostOptions`, with `params` as JSON text."""

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
        """The program's name in errors: the command without its directory and arguments."""
        return PurePath(self.command[0]).name

    @property
    def whole(self) -> bool:
        """True if the whole output is one answer: plain text from a process for one request."""
        return self.format == "text" and self.lifetime == "request"

    def input_line(self, text: str) -> bytes | None:
        """Return the request as plain text, or None for multiple lines if the program reads one line per request."""
        line = text.rstrip("\r\n")
        several = "\n" in line or "\r" in line
        return None if several and not self.whole else f"{line}\n".encode()

    def __repr__(self) -> str:
        return f"Program({self.name!r}, format={self.format!r})"  # arguments and variables can contain secrets


_CHOICES: Final = {"format": get_args(Format), "lifetime": get_args(Lifetime)}
_POSITIVE: Final = ("silence", "timeout", "max_line", "max_answer")


def program_of(command: tuple[str, ...], options: HostOptions, takes: Iterable[Take] = ()) -> Program:
    """Create the program of a command and its options. No shell reads the command.

    Raises `TypeError` for an unknown option or for `params` that JSON cannot represent. Raises `ValueError` for an
    empty command, an invalid value of an option, or `takes` of a host for plain text.
    """
    unknown = set(options) - set(HostOptions.__annotations__)
    if unknown:
        known = ", ".join(HostOptions.__annotations__)
        raise TypeError(f"unknown option of a host: {', '.join(sorted(unknown))}. Use one of: {known}.")
    if not command or not command[0]:
        raise ValueError("command must be the name or path of a program, got an empty command")
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
        raise ValueError(f"takes contains unknown {', '.join(sorted(unknown))}. Use: {', '.join(get_args(Take))}.")
    if takes and format_ != "json":
        raise ValueError('takes must be empty for a host that reads plain text. Remove takes, or set format="json".')
    return takes


def _check_values(program: Program) -> None:
    for name, choices in _CHOICES.items():
        if getattr(program, name) not in choices:
            raise ValueError(f"{name} must be {' or '.join(map(repr, choices))}, got {getattr(program, name)!r}")
    for name in _POSITIVE:
        value = getattr(program, name)
        if value is not None and not value > 0:
            raise ValueError(f"{name} must be greater than 0, got {value!r}")
    if not program.grace >= 0:
        raise ValueError(f"grace must be at least 0, got {program.grace!r}")


# -- failures

HostProblem: TypeAlias = Literal[
    "not-found", "refused", "invalid-input", "ended", "timeout", "invalid-output", "too-much", "reported"
]
"""The kind of failure:

- `"not-found"`: the program is missing or is not executable.
- `"refused"`: the program rejected its `params`.
- `"invalid-input"`: the format of the program cannot represent the request.
- `"ended"`: the program ended or closed its output before the end of its answer.
- `"timeout"`: the program did not answer in time.
- `"invalid-output"`: the output violates the protocol.
- `"too-much"`: the output exceeds a limit.
- `"reported"`: the program answered with an error."""

_WORDS: Final[dict[HostProblem, tuple[str, str]]] = {
    "not-found": ("cannot be started", "Check the command, `cwd`, and the permissions of the file"),
    "refused": ("rejected its params", "Change `params` to the values that the program expects"),
    "invalid-input": ("cannot receive this request", "Change the request, or the format of the program"),
    "ended": ("ended", "Run it by hand with the same input and read its stderr"),
    "timeout": ("did not answer in time", "Increase `silence` or `timeout`, or find out why the program waits"),
    "invalid-output": ("violated the protocol", "Write each message as one line of the protocol to stdout"),
    "too-much": ("exceeded a size limit", "Shorten its output, or increase `max_line` or `max_answer`"),
    "reported": ("reported an error", "Read the message of the program"),
}
_RETRYABLE: Final = ("ended", "timeout", "invalid-output")
_STDERR_LENGTH: Final = 500


@final
class HostFailure(msgspec.Struct, frozen=True):
    """A failure of a host.

    Attributes:
        program: The command without its directory and arguments.
        problem: The kind of failure.
        description: A description of the failure. If the host reported an error, its message.
        exit_code: The exit code of the program, negative for a signal. None if the program did not end.
        seconds: The time limit that passed, or None for another failure.
        stderr: The last output on stderr, at most about 4,000 characters.
        retryable: True if the host states that a retry can help.
        retry_after: Seconds to wait before a retry, if the host specifies them.
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
        """True if a retry can help: the program ended, was silent, or wrote invalid output, or the host states it."""
        return self.retryable or self.problem in _RETRYABLE

    @property
    def message(self) -> str:
        """The failure in one line, without the output on stderr."""
        code = "" if self.exit_code is None else f" (exit code {self.exit_code})"
        within = "" if self.seconds is None else f" ({self.seconds:g} s)"
        description = f": {self.description}" if self.description else ""
        return f"Program {self.program!r} {_WORDS[self.problem][0]}{code}{within}{description}"

    @property
    def advice(self) -> str:
        """The remedy in one line."""
        return _WORDS[self.problem][1]

    @property
    def full_message(self) -> str:
        """The message and the end of the output on stderr."""
        end = self.stderr.strip()[-_STDERR_LENGTH:]
        return f"{self.message}; its stderr ends: {end}" if end else self.message

    def __str__(self) -> str:
        return f"{self.full_message}. {self.advice}"


def reason_of(failure: HostFailure) -> Reason:
    """Return the reason of the `AiError` for a failure of a host that is a model."""
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
    """A line or an answer that exceeds its size limit."""


@final
class Process:
    """A running program with lines as input and output."""

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
        """True after the end of its output."""
        self.busy: bool = False
        """True during an answer. The process then accepts no other request."""
        self.takes: frozenset[str] = frozenset()
        """The data that the program accepts in addition to messages, from its options and its answer to `init`."""

    @staticmethod
    async def start(program: Program) -> Process:
        """Start the process of a program.

        Raises `OSError` if the program or the directory is missing, or if the program is not executable.
        """
        env = {**os.environ, **dict(program.env)}
        raw = await ChildProcess.start(program.command, cwd=program.cwd, env=env, grace=program.grace)
        return Process(raw, program)

    @property
    def exit_code(self) -> int | None:
        """The exit code, or None while the process runs."""
        return self._raw.exit_code

    @property
    def usable(self) -> bool:
        """True if the process can receive a request."""
        return not (self.busy or self.at_end or self.exit_code is not None)

    @property
    def left_over(self) -> bytes:
        """The output after the last answer."""
        return bytes(self._buffer[:80])

    @property
    def stderr(self) -> str:
        """The last output on stderr."""
        return self._tail.decode("utf-8", "replace")

    # -- writing

    def start_request(self) -> None:
        """Start a request."""
        self.busy, self._sent, self._read = True, False, 0

    def finish(self) -> None:
        """End an answer. If the program answered before it read the whole request, the process is not usable."""
        self.busy = not self._sent

    async def send(self, line: bytes, *, last: bool) -> None:
        """Write a line. Close the input after the `last` line. A program that reads nothing causes no failure here."""
        with suppress(*GONE):  # the earlier output of the program is still readable
            await self._raw.stdin.send(line)
        if last:
            with suppress(*GONE):
                await self._raw.stdin.aclose()
        self._sent = True

    # -- reading

    async def line(self) -> bytes | None:
        """Return the next line without its line end, even if it is incomplete. Return None when the output ends.

        Raises `TooMuchError` if the line or the answer exceeds its limit.
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
            raise TooMuchError(f"{what} is longer than {most} bytes (`max_{what}`)")

    async def listen(self) -> None:
        """Read stderr until it ends, so that the program never blocks. Store the last part."""
        try:
            while chunk := await _receive(self._raw.stderr):
                self._tail = (self._tail + chunk)[-_STDERR_KEPT:]
        finally:
            self._drained.set()

    async def wait_ended(self) -> None:
        """Wait until the process ended and its stderr was read, at most for its grace period."""
        with anyio.move_on_after(self._program.grace):
            await self._raw.gone_within(self._program.grace)
            await self._drained.wait()

    # -- the end

    async def end(self) -> None:
        """End the process and its children. A process in the middle of an answer has no grace period."""
        await self._raw.end(patient=not self.busy)


async def _receive(stream: ByteReceiveStream) -> bytes:
    """Return the next bytes, or b"" when the stream ends."""
    try:
        return await stream.receive(_CHUNK)
    except GONE:
        return b""
