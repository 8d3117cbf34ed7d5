r"""A host: a program that answers requests. It starts when a request needs it and ends with its scope.

>>> from fxai.effects import fx
>>> from fxai.providers.host.program import Program
>>> def asked(host: Host) -> fx.Effect[str | None, HostFailure]:
...     return host.exchange(lambda number, takes: b"Hello\n", lambda message: fx.succeed(None)).map(lambda r: r.text)
>>> fx.run(fx.scoped(Host.open(Program(("cat",), format="text")).flat_map(asked)))
'Hello'
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, Final, Never, TypeAlias, final

from fxai.effects import fx
from fxai.effects.cause import Exit, Succeeded
from fxai.effects.concurrency import Lock
from fxai.effects.effect import Effect, EffectOf, Gen
from fxai.effects.scope import NOTHING, Scope
from fxai.effects.service import Clock
from fxai.effects.waker import Home
from fxai.providers.host.program import HostFailure, HostProblem, Process, Program, TooMuchError
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
                return (yield from self._fail_reported(process, message))
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
            if process.at_end:
                yield from self._cut(process, message)
            if isinstance(message, Unreadable):
                return (yield from self._fail(process, "invalid-output", message.description))
            if message.id not in (None, number):
                text = f"id of the answer is {message.id}, expected {number}"
                return (yield from self._fail(process, "invalid-output", text))
            return message

    @fx.gen
    def _cut(self, process: Process, message: Message | Unreadable) -> Gen[None, HostFailure]:
        """Fail if the last line is incomplete: the line end is missing, and the message or the exit code is invalid."""
        yield from fx.wait(process.wait_ended)
        if isinstance(message, Unreadable) or process.exit_code:
            yield from self._fail(process, "ended", "in the middle of a line")

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

    def _fail_reported(self, process: Process, error: Reported) -> Effect[Never, HostFailure]:
        retryable = error.retryable or error.retry_after is not None
        failure = HostFailure(
            self._program.name,
            "reported",
            error.message,
            stderr=process.stderr,
            retryable=retryable,
            retry_after=error.retry_after,
        )
        return fx.fail(failure)


def _quote(line: bytes) -> str:
    return repr(line[:80].decode("utf-8", "replace"))
