r"""Programs that run as hosts: their options, processes, failures, and answers.

A host starts its program when a request needs it and ends it with its scope. Hosts as models and as tools share this
module.

>>> program_of(("translate", "--to", "de"), {"format": "text"}).lifetime
'scope'
>>> print(HostFailure("translate", "ended", "before its answer was complete", exit_code=3))
Program 'translate' ended (exit code 3): before its answer was complete. Run it by hand ...
>>> from fxai.effects import fx
>>> def asked(host: Host) -> fx.Effect[str | None, HostFailure]:
...     return host.exchange(lambda number, takes: b"Hello\n", lambda message: fx.succeed(None)).map(lambda r: r.text)
>>> fx.run(fx.scoped(Host.open(Program(("cat",), format="text")).flat_map(asked)))
'Hello'
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from pathlib import Path, PurePath
from typing import Any, Final, Literal, Never, TypeAlias, TypedDict, final, get_args

import anyio
import msgspec
from anyio.abc import ByteReceiveStream

from fxai.effects import fx
from fxai.effects.cause import Exit, Succeeded
from fxai.effects.concurrency import Lock
from fxai.effects.effect import Effect, EffectOf, Gen
from fxai.effects.process import GONE, ChildProcess
from fxai.effects.scope import NOTHING, Scope
from fxai.effects.service import Clock
from fxai.effects.waker import Home
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
from fxai.providers.host.protocol import (
    VERSION,
    Acknowledged,
    Delta,
    Message,
    Reported,
    Result,
    Unreadable,
    encode_line,
    read,
    read_text,
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
    program = Program(tuple(command), **given, takes=frozenset(takes))
    strange = program.takes - set(get_args(Take))
    if strange:
        raise ValueError(f"takes contains unknown {', '.join(sorted(strange))}. Use: {', '.join(get_args(Take))}.")
    if program.takes and program.format != "json":
        raise ValueError('takes must be empty for a host that reads plain text. Remove takes, or set format="json".')
    for name, choices in _CHOICES.items():
        if getattr(program, name) not in choices:
            raise ValueError(f"{name} must be {' or '.join(map(repr, choices))}, got {getattr(program, name)!r}")
    for name in ("silence", "timeout", "max_line", "max_answer"):
        value = getattr(program, name)
        if value is not None and not value > 0:
            raise ValueError(f"{name} must be greater than 0, got {value!r}")
    if not program.grace >= 0:
        raise ValueError(f"grace must be at least 0, got {program.grace!r}")
    return program


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


@final
class HostFailure(msgspec.Struct, frozen=True):
    """A failure of a host."""

    program: str
    """The command without its directory and arguments."""
    problem: HostProblem
    """The kind of failure."""
    description: str = ""
    """A description of the failure. If the host reported an error, its message."""
    exit_code: int | None = None
    """The exit code of the program, negative for a signal. None if the program did not end."""
    seconds: float | None = None
    """The time limit that passed, or None for another failure."""
    stderr: str = ""
    """The last output on stderr, at most about 4,000 characters."""
    retryable: bool = False
    """True if the host states that a retry can help."""
    retry_after: float | None = None
    """Seconds to wait before a retry, if the host specifies them."""

    @property
    def is_retryable(self) -> bool:
        """True if a retry can help: the program ended, was silent, or wrote invalid output, or the host states it."""
        return self.retryable or self.problem in ("ended", "timeout", "invalid-output")

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
        end = self.stderr.strip()[-500:]
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


Compose: TypeAlias = Callable[[int, frozenset[str]], bytes]
"""A function that returns the line of a request from its number and from the host's accepted data."""

Hear: TypeAlias = Callable[[Message], EffectOf[None, HostFailure, None]]
"""A function that handles a message before the end of the answer."""

_DONE: Final = Result()


@final
class Host:
    """A program that answers requests one after another. With a process for each request, it answers concurrently."""

    __slots__ = ("_home", "_lock", "_number", "_program", "_running", "_scope")

    def __init__(self, program: Program, scope: Scope) -> None:
        """Initialize the host. Use `Host.open` instead."""
        self._program = program
        self._scope = scope
        self._lock = Lock()
        self._home = Home("a host program that runs")
        self._running: tuple[Process, Scope, object] | None = None
        self._number = 0

    @staticmethod
    @fx.gen
    def open(program: Program) -> Gen[Host, HostFailure, Scope]:
        """Open a host and start its program. The scope ends the program.

        With a process for each request, no program starts before the first request.

        Fails with `HostFailure` if the program cannot be started or rejects its `params`.
        """
        host = Host(program, (yield from fx.service(Scope)))
        if program.lifetime == "scope":
            yield from host._current()
        return host

    def exchange(self, compose: Compose, hear: Hear) -> Effect[Result, HostFailure]:
        """Send a request and return the answer. `hear` handles each earlier message, one after another.

        An interrupted exchange ends the process. The next request starts another process.

        Fails with `HostFailure` if the program cannot be started, ends, is silent for too long, writes invalid or too
        many lines, or reports an error.
        """

        @fx.gen
        def talk() -> Gen[Result, HostFailure, Scope]:
            if self._program.lifetime == "request":
                process = yield from self._start()
            else:
                self._home.require()
                yield from self._lock.hold()
                process = yield from self._current()
            answered = self._answer(process, compose, hear)
            return (yield from answered.on_exit(lambda exit_: NOTHING if process.usable else self._drop(exit_)))

        return fx.scoped(talk())

    # -- the process

    @fx.gen
    def _current(self) -> Gen[Process, HostFailure]:
        """Return the running process. If no usable process exists, start one."""
        if self._running is not None and self._running[0].usable:
            return self._running[0]
        yield from self._drop(Succeeded(None))
        own = Scope()
        token = self._scope.add(own.close)

        def keep(exit_: Exit[Process, HostFailure]) -> EffectOf[None]:
            if isinstance(exit_, Succeeded):
                self._running = (exit_.value, own, token)
                return NOTHING
            self._scope.remove(token)
            return own.close(exit_)

        started = own.around(self._start())
        process: Process = yield from started.on_exit(keep)
        return process

    def _drop(self, exit_: Exit[Any, Any]) -> EffectOf[None]:
        """End the running process, if it exists."""
        if self._running is None:
            return NOTHING
        _, own, token = self._running
        self._running = None
        self._scope.remove(token)
        return own.close(exit_)

    @fx.gen
    def _start(self) -> Gen[Process, HostFailure, Scope]:
        program = self._program

        def to_failure(error: Exception) -> HostFailure | None:
            return HostFailure(program.name, "not-found", str(error)) if isinstance(error, OSError) else None

        starting = fx.attempt_async(lambda: Process.start(program), to_failure)
        process = yield from fx.acquire_release(starting, lambda one: fx.wait(one.end))
        yield from fx.fork(fx.wait(process.listen))
        process.takes = program.takes
        if program.params is None:
            return process
        return (yield from self._initialise(process, program.params))

    @fx.gen
    def _initialise(self, process: Process, params: str) -> Gen[Process, HostFailure, Scope]:
        process.start_request()
        init = encode_line({"type": "init", "version": VERSION, "params": json.loads(params)})
        yield from fx.fork(fx.wait(lambda: process.send(init, last=False)))
        deadline = yield from self._deadline()
        line = yield from self._line(process, deadline)
        if line is None:
            return (yield from self._fail_ended(process, "before it acknowledged `init`"))
        message = read(line)
        if isinstance(message, Reported):
            return (yield from self._fail(process, "refused", message.message))
        if not isinstance(message, Acknowledged):
            expected = 'the answer to `init` must be {"type": "init_ack"} or {"type": "error", "message": …}'
            return (yield from self._fail(process, "invalid-output", f"{expected}, got {_quote(line)}"))
        process.takes |= frozenset(message.takes)
        process.finish()
        return process

    # -- one answer

    @fx.gen
    def _answer(self, process: Process, compose: Compose, hear: Hear) -> Gen[Result, HostFailure, Scope]:
        self._number += 1
        number, process.busy = self._number, True
        if process.left_over:
            text = f"extra output after the answer: {_quote(process.left_over)}"
            return (yield from self._fail(process, "invalid-output", text))
        process.start_request()
        line, last = compose(number, process.takes), self._program.lifetime == "request"
        yield from fx.fork(fx.wait(lambda: process.send(line, last=last)))
        deadline = yield from self._deadline()
        if self._program.whole:
            return (yield from self._all(process, hear, deadline))
        while True:
            message = yield from self._message(process, number, deadline)
            if isinstance(message, Result):
                process.finish()
                return message
            if isinstance(message, Reported):
                process.finish()
                retryable = message.retryable or message.retry_after is not None
                failure = HostFailure(
                    self._program.name,
                    "reported",
                    message.message,
                    stderr=process.stderr,
                    retryable=retryable,
                    retry_after=message.retry_after,
                )
                return (yield from fx.fail(failure))
            yield from hear(message)

    @fx.gen
    def _all(self, process: Process, hear: Hear, deadline: float | None) -> Gen[Result, HostFailure]:
        """Read all lines of the process until it ends with exit code 0."""
        between = ""
        while (line := (yield from self._line(process, deadline))) is not None:
            message = read_text(line)
            if isinstance(message, Unreadable):
                return (yield from self._fail(process, "invalid-output", message.description))
            yield from hear(Delta(text=f"{between}{message.text}"))
            between = "\n"
        yield from fx.wait(process.wait_ended)
        if process.exit_code:
            return (yield from self._fail(process, "ended", ""))
        return _DONE

    @fx.gen
    def _message(self, process: Process, number: int, deadline: float | None) -> Gen[Message, HostFailure]:
        """Return the next message of the answer `number`."""
        while True:
            line = yield from self._line(process, deadline)
            if line is None:
                return (yield from self._fail_ended(process, "before its answer was complete"))
            message = read_text(line) if self._program.format == "text" else read(line)
            if message is None:
                continue
            if process.at_end:  # the last line has no line end, so it can be incomplete
                yield from fx.wait(process.wait_ended)
                if isinstance(message, Unreadable) or process.exit_code:
                    return (yield from self._fail(process, "ended", "in the middle of a line"))
            if isinstance(message, Unreadable):
                return (yield from self._fail(process, "invalid-output", message.description))
            if message.id not in (None, number):
                text = f"id of the answer is {message.id}, expected {number}"
                return (yield from self._fail(process, "invalid-output", text))
            return message

    # -- lines and failures

    @fx.gen
    def _deadline(self) -> Gen[float | None]:
        clock = yield from fx.reference(Clock)
        seconds = self._program.timeout
        return None if seconds is None else clock.monotonic() + seconds

    @fx.gen
    def _line(self, process: Process, deadline: float | None) -> Gen[bytes | None, HostFailure]:
        """Return the next line within the time limits."""
        name, silence = self._program.name, self._program.silence

        def too_much(error: Exception) -> HostFailure | None:
            return HostFailure(name, "too-much", str(error)) if isinstance(error, TooMuchError) else None

        reading = fx.attempt_async(process.line, too_much)
        clock = yield from fx.reference(Clock)
        left = None if deadline is None else max(deadline - clock.monotonic(), 0.0)
        if silence is None and left is None:
            return (yield from reading)
        whole = left is not None and (silence is None or left < silence)
        seconds = left if whole or silence is None else silence

        def to_failure(error: object) -> HostFailure:
            if isinstance(error, HostFailure):
                return error
            waited, by = (self._program.timeout, "timeout") if whole else (silence, "silence")
            return HostFailure(name, "timeout", f"by `{by}`", seconds=waited, stderr=process.stderr)

        return (yield from reading.timeout(seconds or 0.0).map_error(to_failure))

    def _fail_ended(self, process: Process, when: str) -> Effect[Never, HostFailure]:
        def fail(_: None) -> Effect[Never, HostFailure]:
            return self._fail(
                process, "ended", when if process.exit_code is not None else f"the program closed its output {when}"
            )

        return fx.wait(process.wait_ended).flat_map(fail)

    def _fail(self, process: Process, problem: HostProblem, text: str) -> Effect[Never, HostFailure]:
        code = process.exit_code if problem == "ended" else None
        return fx.fail(HostFailure(self._program.name, problem, text, exit_code=code, stderr=process.stderr))


def _quote(line: bytes) -> str:
    return repr(line[:80].decode("utf-8", "replace"))
