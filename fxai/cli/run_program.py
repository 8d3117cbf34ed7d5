"""Functions that run an effect as the work of this process. Use `value_of` for one program, `error_of` for its error.

Use `BackgroundRunner` for a chat. It runs programs in an event loop in a separate thread, so that the main thread can
talk to the user:

>>> with BackgroundRunner() as background:
...     opened = background.hold(fx.acquire_release(fx.succeed(3), lambda _: fx.succeed(None)))
...     background.value_of(background.here(lambda: opened + 1))
4
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future, InvalidStateError
from contextlib import ExitStack, suppress
from queue import Empty, SimpleQueue
from types import FrameType
from typing import Any, Final, Generic, Never, Self, final

import anyio
import msgspec
from anyio.abc import TaskStatus
from anyio.from_thread import BlockingPortal, start_blocking_portal
from typing_extensions import TypeVar

from fxai.agents import BudgetExceeded, MemoryFailure
from fxai.agents.answer import RenderFailed
from fxai.cli.exit import HUNG_UP, INTERRUPTED, SHOW_TRACE, TERMINATED, CliError, interruption
from fxai.effects import Cause, ContextOf, EffectOf, Exit, MissingServiceError, Succeeded, fx
from fxai.messages import AiError
from fxai.schema.display import one_line
from fxai.tools import (
    AnyTool,
    HandlerError,
    HandlerFailed,
    HandlerUnavailable,
    InvalidResult,
    OutcomeUnknown,
    ToolConflictError,
)
from fxai.tools.handler import missing_services

GIVE_LAYER: Final = "Provide the service with --layer module:name."
"""The remedy for a missing service."""
GIVE_HANDLERS: Final = "Name the layer of the handlers with --layer module:name."
"""The remedy for missing handlers."""
GIVE_HANDLER: Final = "Provide a layer that has a handler for each tool."
"""The remedy for handlers that a layer lacks."""
_ASKED: Final = "To answer questions, call the tool in a terminal with fxai mcp call or fxai chat."


def is_server_failure(failure: object) -> bool:
    """Return True for a failure of an MCP server or of one of its tools. Its string is the whole message."""
    from fxai.mcp.result import McpError, McpToolError  # imported only after a failure

    return isinstance(failure, McpError | McpToolError)


def error_of(cause: Cause[Any]) -> CliError:
    """Return the error for the first failure of a run, otherwise for its first defect."""
    for failure in cause.failures:
        return _failure_error(failure)
    for defect in cause.defects:
        problem, remedy = f"the program raised {type(defect).__name__}: {defect}", SHOW_TRACE
        match defect:
            case CliError():
                return defect
            case MissingServiceError():
                problem, remedy = f"service {defect.service} is missing", GIVE_LAYER
            case ToolConflictError():
                problem, remedy = str(defect), "Add a prefix to the server's tools with --mcp name=SERVER."
            case HandlerError():
                problem, _, remedy = str(defect).partition(". ")
            case _:
                pass
        return CliError(problem, remedy, cause=defect)
    return CliError("the program interrupted itself", "Run the command again.", cause=cause.squash())


def _failure_error(failure: object) -> CliError:
    from fxai.durable.failure import DurableFailure  # most commands need none of these
    from fxai.hosting.listening import CannotListen
    from fxai.ui import ConversationError

    problem, remedy = str(failure), ""
    match failure:
        case CliError():
            return failure
        case AiError():
            return model_error(failure)
        case BudgetExceeded(what="rounds"):
            problem = f"the model still called tools in round {failure.limit:g}, the last allowed round"
            remedy = f"Allow more rounds with --rounds {failure.limit * 2:g}."
        case BudgetExceeded():
            problem = f"run exceeded its limit of {failure.limit:g} {failure.what}"
            remedy = "Raise the limit in the agent's budget."
        case MemoryFailure():
            remedy = "The memory is unchanged."
        case HandlerFailed():
            remedy = 'To let the model read this failure, set failure_mode="return" for the tool.'
        case InvalidResult():
            remedy = "Correct the handler or the declared result type of the tool."
        case RenderFailed() | HandlerUnavailable() | OutcomeUnknown() | DurableFailure() | ConversationError():
            pass
        case _ if is_server_failure(failure) or isinstance(failure, CannotListen):
            return server_error(failure)
        case _:
            problem, remedy = f"run failed: {problem}", "Run it again with --debug to see more."
    return CliError(problem, remedy)


def model_error(failure: AiError) -> CliError:
    """Return the error for a failed request to a model."""
    return CliError(failure.message, failure.advice + "." * failure.advice[-1:].isalnum())


def server_error(failure: Any, data: Mapping[str, Any] | None = None) -> CliError:
    """Return the error for a failure of an MCP server or of one of its tools, with a remedy for the command line.

    The message quotes the end of the server's standard error. `data` is added to the error in JSON.
    """
    from fxai.mcp.result import McpError

    if not isinstance(failure, McpError):
        message = str(failure)
        return CliError(message, _ASKED if "approval-unavailable" in message else "", data=data)
    problem = str(msgspec.structs.replace(failure, remedy="", stderr=""))
    heard = f"; its standard error ends with: {one_line(failure.stderr, 300)}" if failure.stderr else ""
    remedy = failure.remedy.replace("a longer timeout=", "a longer --timeout SECONDS")
    remedy += "." * remedy[-1:].isalnum()
    return CliError(problem + heard, _ASKED if "elicit=" in remedy else remedy, data=data)


def require_handlers(
    tools: Iterable[AnyTool], services: ContextOf[Any], whose: str, remedy: str = GIVE_HANDLERS
) -> None:
    """Raise `CliError` if `services` contains no handler of a tool that requires one. `whose` names the tools."""
    missing = [tool.name for tool in tools if tool.requires_handler and services.find(tool.identity) is None]
    if missing:
        raise CliError(f"missing handlers for tools of {whose}: {', '.join(missing)}", remedy)


def require_services(tools: Iterable[AnyTool], services: ContextOf[Any]) -> None:
    """Raise `CliError` if a handler of these tools declares a service that `services` does not contain."""
    for tool, name in missing_services(tools, services):
        problem = f"service {name} is missing: the handler of {tool!r} requires it"
        raise CliError(problem, GIVE_LAYER)


_A = TypeVar("_A")


_GLANCE: Final = 0.2 if sys.platform == "win32" else None
"""Seconds between checks for a Ctrl-C. Only Windows needs them, because there a Ctrl-C does not end the wait."""


@final
class BackgroundRunner:
    """A runner of programs, one after another, while the main thread waits. Ctrl-C stops the active program.

    Use it as a context manager in the main thread. `SIGTERM` and the loss of the terminal raise `CliError`.
    """

    def __init__(self) -> None:
        self._stack = ExitStack()
        self._holding: list[_Running[Any]] = []
        self._wanted: SimpleQueue[Callable[[], None]] = SimpleQueue()
        self._open: list[Callable[[], None]] = []  # one function for each open question, which withdraws it

    def __enter__(self) -> Self:
        def raise_error(number: int, _: FrameType | None) -> None:
            if number == signal.SIGTERM:
                raise CliError("terminated", "", code=TERMINATED)
            raise CliError("the terminal closed", "", code=HUNG_UP)

        if threading.current_thread() is threading.main_thread():
            for number in (getattr(signal, name, None) for name in ("SIGTERM", "SIGHUP")):
                if number is not None and signal.getsignal(number) == signal.SIG_DFL:
                    signal.signal(number, raise_error)
                    self._stack.callback(signal.signal, number, signal.SIG_DFL)
        self._portal: BlockingPortal = self._stack.enter_context(start_blocking_portal())
        self._leaving = self._portal.call(anyio.Event)
        return self

    def __exit__(self, *_: object) -> None:
        try:
            self._portal.call(self._leaving.set)
            for running in reversed(self._holding):
                running.over.wait()
        except (KeyboardInterrupt, CliError):
            _leave_at_once()
        finally:
            self._stack.close()

    def value_of(self, program: EffectOf[_A, Any, Any]) -> _A:
        """Run a program with its finalizers, and return its value."""
        running = _Running(program, self._wake)
        self._follow(running, running.over)
        return running.value()

    def here(self, ask: Callable[[], _A], stopped: Callable[[], _A] | None = None) -> EffectOf[_A]:
        """Return an effect that calls `ask` in the main thread, where it can talk to the user, and returns its answer.

        Ctrl-C during `ask` stops the program. If a program stops waiting, it withdraws the question. The main thread
        then asks no open question. A caller outside the program that still waits receives the result of `stopped`.
        """

        async def wait_for_answer() -> _A:
            answer, there = Future[_A](), anyio.Event()

            def give() -> None:
                if answer.done():
                    return
                with suppress(InvalidStateError):  # the program withdrew the question
                    try:
                        answer.set_result(ask())
                    except CliError:
                        raise
                    except Exception as raised:
                        answer.set_exception(raised)
                self._portal.call(there.set)

            def withdraw() -> None:
                if stopped is not None and not answer.done():
                    answer.set_result(stopped())
                    there.set()
                answer.cancel()

            self._open.append(withdraw)
            self._wanted.put(give)
            try:
                await there.wait()
            finally:
                answer.cancel()
                self._open.remove(withdraw)
            return answer.result()

        return fx.wait(wait_for_answer)

    def hold(self, opening: EffectOf[_A, Any, Any]) -> _A:
        """Open a resource and return it. Its scope closes when the background closes."""
        opened, there = list[_A](), threading.Event()

        async def hold(value: _A) -> None:
            opened.append(value)
            announce()
            await self._leaving.wait()

        def announce() -> None:
            there.set()
            self._wake()

        running = _Running(fx.scoped(opening.flat_map(lambda value: fx.wait(lambda: hold(value)))), announce)
        self._follow(running, there)
        if not opened:
            running.value()
        self._holding.append(running)
        return opened[0]

    def _follow(self, running: _Running[Any], until: threading.Event) -> None:
        def stop() -> None:
            running.cancel()
            for withdraw in tuple(self._open):
                withdraw()

        try:
            try:
                self._portal.start_task_soon(running.run)
                self._answer(until)
            except (KeyboardInterrupt, CliError) as error:
                running.error = error if isinstance(error, CliError) else interruption()
                self._portal.call(stop)
                while not running.over.wait(_GLANCE):  # from here on, this thread answers no questions
                    pass
        except (KeyboardInterrupt, CliError):
            _leave_at_once()
        if running.error is not None:
            raise running.error

    def _answer(self, until: threading.Event) -> None:
        """Run the requests to this thread until `until` is set."""
        while not until.is_set():
            with suppress(Empty):
                self._wanted.get(timeout=_GLANCE)()

    def _wake(self) -> None:
        self._wanted.put(lambda: None)


@final
class _Running(Generic[_A]):
    """A program in the background."""

    def __init__(self, program: EffectOf[_A, Any, Any], ended: Callable[[], None]) -> None:
        self.over = threading.Event()
        self.error: CliError | None = None
        self._program = program
        self._ended = ended
        self._scope: anyio.CancelScope | None = None
        self._exit: Exit[_A, Any] | BaseException | None = None

    def cancel(self) -> None:
        """Cancel the program from its event loop. The program can still be waiting to start."""
        self._scope = self._scope or anyio.CancelScope()
        self._scope.cancel()

    async def run(self) -> None:
        """Run the program in its event loop."""
        try:
            self._scope = self._scope or anyio.CancelScope()
            with self._scope:
                self._exit = await fx.run_async_exit(self._program)
        except Exception as raised:
            self._exit = raised
        finally:
            self.over.set()
            self._ended()

    def value(self) -> _A:
        """Return the value of the finished program, or raise its error."""
        if self._exit is None:
            raise self.error or interruption()
        if isinstance(self._exit, BaseException):
            raise self._exit
        return success_of(self._exit)


def _leave_at_once() -> Never:
    os._exit(INTERRUPTED)  # a second signal skips the finalizers


def value_of(program: EffectOf[_A, Any, Any]) -> _A:
    """Run a program with its finalizers, and return its value."""
    try:
        ended = anyio.run(_run_until_signal, program)
    except* KeyboardInterrupt:  # before the signal receiver starts, and on Windows always
        ended = interruption()
    if isinstance(ended, CliError):
        raise ended
    return success_of(ended)


def success_of(ended: Exit[_A, Any]) -> _A:
    """Return the value of a successful program, or raise the error of a failed program."""
    if isinstance(ended, Succeeded):
        return ended.value
    raise error_of(ended.cause)


async def _run_until_signal(program: EffectOf[_A, Any, Any]) -> Exit[_A, Any] | CliError:
    """Return the exit of a program, or the error of the signal that stopped it, after its finalizers.

    A signal cancels a scope. asyncio alone would cancel the task, which cuts uninterruptible work short.
    """
    ends: list[CliError] = []
    end: Exit[_A, Any] | None = None
    scope = anyio.CancelScope()
    async with anyio.create_task_group() as group:
        if sys.platform != "win32":
            await group.start(_listen, scope, ends)
        with scope:
            end = await fx.run_async_exit(program)
        group.cancel_scope.cancel()
    return ends[0] if end is None else end


async def _listen(
    scope: anyio.CancelScope, ends: list[CliError], *, task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED
) -> None:
    numbers = [number for number in (signal.SIGINT, signal.SIGTERM) if signal.getsignal(number) != signal.SIG_IGN]
    with anyio.open_signal_receiver(*numbers) as signals:
        task_status.started()
        async for number in signals:
            if ends:  # a second signal skips the finalizers
                os._exit(ends[0].code)
            ends.append(interruption() if number == signal.SIGINT else CliError("terminated", "", code=TERMINATED))
            scope.cancel()
