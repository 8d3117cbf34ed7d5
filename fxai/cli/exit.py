r"""Errors and the end of a command: one line on stderr and an exit code, and with `--json` an object on stdout.

>>> print(CliError("there is no file x.py", "check the path"))
there is no file x.py; check the path

>>> import click
>>> from click.testing import CliRunner
>>> @click.command()
... def hello():
...     run_command(lambda out, err: bool(out.write("hello\x9b\n")), as_json=False, debug=False)
>>> CliRunner().invoke(hello).output
'hello�\n'
"""

from __future__ import annotations

import codecs
import errno
import io
import json
import logging
import os
import sys
import traceback
from collections.abc import Callable, Generator, Iterable, Mapping
from contextlib import contextmanager, redirect_stderr, redirect_stdout, suppress
from pathlib import Path
from typing import Any, Final, NoReturn, TextIO, cast, final

import click
import msgspec
from typing_extensions import override

from fxai.agents.answer import BudgetExceeded, RenderFailed
from fxai.agents.memory import MemoryFailure
from fxai.effects.cause import Cause
from fxai.effects.context import ContextOf, MissingServiceError
from fxai.messages.errors import AiError
from fxai.schema.display import clean, json_line, one_line
from fxai.tools.handler import HandlerError, missing_services
from fxai.tools.identity import ToolConflictError
from fxai.tools.tool import AnyTool
from fxai.tools.tool_error import HandlerFailed, HandlerUnavailable, InvalidResult, OutcomeUnknown

FAILED: Final = 1
HUNG_UP: Final = 129
"""As shells say it of a program whose terminal went away."""
WRONG_USE: Final = 2
INTERRUPTED: Final = 130
"""As shells say it of a program that was stopped by Ctrl-C."""
PIPE_CLOSED: Final = 141
"""As shells say it of a program whose reader went away."""
TERMINATED: Final = 143
"""The exit code that shells give a program ended by SIGTERM."""

GIVE_LAYER: Final = "give a layer that supplies it with --layer module:name"
"""What to do where a service is missing."""
GIVE_HANDLERS: Final = "name the layer of their handlers with --layer module:name"
"""What to do where handlers of tools are missing."""
_ASKED: Final = "call it where you can be asked: with fxai mcp call or fxai chat, in a terminal"


@final
class CliError(Exception):
    """An error that ends a command.

    `cause` is the exception behind it, shown by `--debug`; `data` is added to the error in JSON; `of_output` is whether
    the output itself cannot be written.
    """

    def __init__(
        self,
        message: str,
        remedy: str,
        *,
        code: int = FAILED,
        cause: BaseException | None = None,
        data: Mapping[str, Any] | None = None,
        of_output: bool = False,
    ) -> None:
        super().__init__(message, remedy)
        self.message: str = one_line(message)
        self.remedy: str = one_line(remedy)
        self.code = code
        self.cause = cause
        self.data: dict[str, Any] = dict(data or {})
        self.of_output = of_output

    @property
    def is_last(self) -> bool:
        """Whether the process must end: it was told to, its terminal is gone, or its output cannot be written."""
        return self.of_output or self.code in (HUNG_UP, TERMINATED)

    def to_data(self) -> dict[str, Any]:
        """What happened and what to do, as plain JSON data."""
        return {"message": self.message, "remedy": self.remedy, **self.data}

    @override
    def __str__(self) -> str:
        return f"{self.message.rstrip('.')}; {self.remedy}" if self.remedy else self.message


def is_server_failure(failure: object) -> bool:
    """Whether it is a failure of an MCP server or of one of its tools; its text is the whole message."""
    return type(failure).__name__ in ("McpError", "McpToolError")  # by name: their module needs the extra `mcp`


def error_of(cause: Cause[Any]) -> CliError:
    """The error for a run that did not succeed: for its first failure, or else its first defect."""
    for failure in cause.failures:
        return _failure_error(failure)
    for defect in cause.defects:
        return _defect_error(defect)
    return CliError("the program was interrupted from inside", "ask again", cause=cause.squash())


def _failure_error(failure: object) -> CliError:
    if isinstance(failure, CliError):
        return failure
    if isinstance(failure, AiError):
        return CliError(failure.message, _lower(failure.advice))
    said = str(failure)
    if isinstance(failure, BudgetExceeded):
        return _budget_error(failure)
    if isinstance(failure, RenderFailed):
        return CliError(said, "")
    if isinstance(failure, MemoryFailure):
        return CliError(said, "nothing of it was changed")
    if isinstance(failure, HandlerFailed):
        return CliError(said, 'with failure_mode="return" the model reads the failure, and the run goes on')
    if is_server_failure(failure) or type(failure).__name__ == "CannotListen":
        return server_error(failure)
    if isinstance(failure, HandlerUnavailable | OutcomeUnknown):
        return CliError(said, "")
    if type(failure).__module__ == "fxai.durable.failure":  # which not every command has to import
        return CliError(said, "")
    if isinstance(failure, InvalidResult):
        return CliError(said, "correct the handler, or the type that the tool declares")
    return CliError(f"the run failed: {said}", "--debug shows more")


def server_error(failure: Any, data: Mapping[str, Any] | None = None) -> CliError:
    """The error for a failure of an MCP server or of one of its tools, with remedies for the command line.

    It quotes the end of the server's standard error. `data` is added to the error in JSON.
    """
    from fxai.mcp.result import McpError

    if not isinstance(failure, McpError):
        message = str(failure)
        return CliError(message, _ASKED if "approval-unavailable" in message else "", data=data)
    said = str(msgspec.structs.replace(failure, remedy="", stderr=""))
    heard = f"; its standard error ends: {one_line(failure.stderr, 300)}" if failure.stderr else ""
    remedy = failure.remedy.replace("a longer timeout=", "a longer --timeout SECONDS")
    return CliError(said + heard, _ASKED if "elicit=" in remedy else remedy, data=data)


def _budget_error(failure: BudgetExceeded) -> CliError:
    if failure.what != "rounds":
        return CliError(
            f"the run was not done after {failure.limit:g} {failure.what}", "its agent's budget allows no more"
        )
    said = f"the model still called tools in round {failure.limit:g}, the last that it has"
    return CliError(said, f"allow more with --rounds {failure.limit * 2:g}")


def _defect_error(defect: BaseException) -> CliError:
    if isinstance(defect, CliError):
        return defect
    if isinstance(defect, MissingServiceError):
        said = f"the service {defect.service} is needed, and no layer gives it"
        return CliError(said, GIVE_LAYER, cause=defect)
    if isinstance(defect, ToolConflictError):
        return CliError(str(defect), "a server's tools are prefixed by --mcp name=SERVER", cause=defect)
    if isinstance(defect, HandlerError):
        return CliError(str(defect), "give each tool of the layer's toolkit one handler", cause=defect)
    kind = type(defect).__name__
    return CliError(f"the program broke: {kind}: {defect}", "--debug shows where", cause=defect)


def require_services(tools: Iterable[AnyTool], services: ContextOf[Any]) -> None:
    """Checks that the handlers of these tools find the services that they declare."""
    for tool, name in missing_services(tools, services):
        said = f"the service {name} is needed, and no layer gives it to the handler of {tool!r}"
        raise CliError(said, GIVE_LAYER)


def _lower(advice: str) -> str:
    return advice[:1].lower() + advice[1:]


@final
class Outlet:
    """A stream to a terminal, a file or another program: what is written to it is clean, see `fxai.schema.display`.

    Where it takes no more (a full disk, a reader that went away), that is a `CliError`, once; with `forgiving` it is
    passed over, because there is nowhere left to say it.
    """

    def __init__(self, stream: TextIO, *, forgiving: bool = False, raw: bool = False) -> None:
        self._stream = stream
        self._raw = raw
        self._ended = [forgiving]  # shared with `styled`
        self.encoding: str = getattr(stream, "encoding", None) or "utf-8"
        self.errors: str = getattr(stream, "errors", None) or "replace"
        self.closed = False

    @property
    def styled(self) -> TextIO:
        """The same stream for a writer that cleans each text itself and adds escape codes of its own."""
        same = Outlet(self._stream, raw=True)
        same._ended = self._ended
        return cast(TextIO, same)

    def write(self, text: str, /) -> int:
        """Writes the text, cleaned; gives the length of what it was given."""
        if text != "":  # bytes are a TypeError here: libraries try with b"" whether a stream takes text
            self._attempt(lambda: self._stream.write(text if self._raw else clean(text)))
        return len(text)

    def flush(self) -> None:
        """Flushes the stream."""
        self._attempt(self._stream.flush)

    def _attempt(self, act: Callable[[], object]) -> None:
        try:
            act()
        except (OSError, ValueError) as wrong:  # ValueError: it was closed
            if not self._ended[0]:
                self._ended[0] = True
                raise _unwritable(wrong) from wrong

    def writelines(self, lines: Iterable[str], /) -> None:
        """Writes one after another."""
        for line in lines:
            self.write(line)

    @property
    def buffer(self) -> io.RawIOBase:
        """The same stream for bytes."""
        return _Binary(self)

    def isatty(self) -> bool:
        """Whether it is a terminal."""
        return self._stream.isatty()

    def fileno(self) -> int:
        """The file descriptor."""
        return self._stream.fileno()


@final
class _Binary(io.RawIOBase):
    def __init__(self, outlet: Outlet) -> None:
        self._outlet = outlet

    @override
    def writable(self) -> bool:
        return True

    @override
    def write(self, data: Any, /) -> int:
        self._outlet.write(bytes(data).decode("utf-8", "replace"))
        return len(data)

    @override
    def flush(self) -> None:
        self._outlet.flush()


@final
class _Closed(io.StringIO):
    """What stands for an output that was closed before we began."""

    @override
    def write(self, text: str, /) -> int:
        raise OSError(errno.EBADF, "it is closed")


def _unwritable(wrong: Exception) -> CliError:
    if isinstance(wrong, BrokenPipeError):
        return CliError("nobody reads the output any more", "", code=PIPE_CLOSED, of_output=True)
    said = getattr(wrong, "strerror", None) or str(wrong)
    return CliError(f"the output cannot be written: {said}", "make room, or write it elsewhere", of_output=True)


def _as_escapes(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeEncodeError):
        raise error
    return json.dumps(error.object[error.start : error.end])[1:-1], error.end


_ESCAPES: Final = "fxai.escapes"
codecs.register_error(_ESCAPES, _as_escapes)


def writable(stream: TextIO | None, *, forgiving: bool = False) -> TextIO:
    """The stream as an `Outlet` that no text is too odd for.

    Where there is none, as after `>&-`, what is written fails as on a full disk; with `forgiving` it goes nowhere. What
    its encoding lacks is written as the escapes of JSON, so that no data changes and no two names look the same.
    """
    there = cast(object, stream)
    if isinstance(there, Outlet):
        return cast(TextIO, there)
    if stream is None:
        return cast(TextIO, Outlet(_Closed(), forgiving=forgiving))
    reconfigure: Any = getattr(stream, "reconfigure", None)
    if reconfigure is not None:
        reconfigure(errors=_ESCAPES)
    return cast(TextIO, Outlet(stream, forgiving=forgiving))


def run_command(
    work: Callable[[TextIO, TextIO], bool],
    *,
    as_json: bool,
    debug: bool,
    closing: dict[str, str] | None = None,
    closes: bool = True,
) -> None:
    """Runs the work of a command and ends it with its exit code. What other code prints meanwhile goes to stderr.

    Args:
        work: is given the stream for results and the stream for all else; it gives whether all was well.
        as_json: whether an error is written as an object, too.
        debug: whether the traceback of an error is shown.
        closing: further members of that object.
        closes: whether the object is written here; else the work has written it.

    Raises:
        click.exceptions.Exit: the work failed; its code is the exit code.
    """
    stdout, stderr = writable(sys.stdout), writable(sys.stderr, forgiving=True)
    try:
        with redirect_stdout(stderr), redirect_stderr(stderr), warnings_on(stderr):
            well = work(stdout, stderr)
        stdout.flush()
    except click.exceptions.Exit:
        raise
    except (Exception, KeyboardInterrupt) as raised:
        trouble = error_from(raised)
        if as_json and closes and not trouble.of_output:
            error = {**(closing or {}), "ok": False, "error": trouble.to_data()}
            with suppress(CliError):
                stdout.write(json_line(error))
                stdout.flush()
        stop(trouble, stderr, debug=debug)
    if not well:
        click.get_current_context().exit(1)


def error_from(raised: BaseException) -> CliError:
    """The error for any exception that ended a command."""
    if isinstance(raised, CliError):
        return raised
    if isinstance(raised, KeyboardInterrupt | click.Abort):
        return CliError("interrupted", "", code=INTERRUPTED)
    if isinstance(raised, OSError) and raised.errno in (errno.ENOSPC, errno.EDQUOT, errno.EBADF):
        return _unwritable(raised)
    said = f"the program broke: {type(raised).__name__}: {raised}"
    return CliError(said, "--debug shows where", cause=raised)


@final
class _Line(logging.Formatter):
    @override
    def formatMessage(self, record: logging.LogRecord) -> str:
        """The message in one line, so that it cannot imitate a second one."""
        return one_line(super().formatMessage(record), 2000)

    @override
    def formatException(self, ei: Any) -> str:
        """Nothing: what is written is one line."""
        return ""


@contextmanager
def warnings_on(stderr: TextIO) -> Generator[None]:
    """Writes warnings and errors that fxai logs as lines on `stderr` while the block lasts."""
    log, handler = logging.getLogger("fxai"), logging.StreamHandler(stderr)
    handler.setFormatter(_Line("fxai: %(message)s"))
    before = log.propagate
    log.addHandler(handler)
    log.propagate = False
    try:
        yield
    finally:
        log.removeHandler(handler)
        log.propagate = before


@contextmanager
def errors_only(logger: str) -> Generator[None]:
    """Silences a logger below the level of errors while the block lasts."""
    log = logging.getLogger(logger)
    before = log.level
    log.setLevel(logging.ERROR)
    try:
        yield
    finally:
        log.setLevel(before)


def stop(trouble: CliError, stderr: TextIO, *, debug: bool) -> NoReturn:
    """Writes the error and ends the command. Raises `click.exceptions.Exit`: always, with the error's code."""
    if trouble.of_output:
        abandon(sys.stdout)
    if trouble.code != PIPE_CLOSED:
        if debug and trouble.cause is not None:
            traceback.print_exception(trouble.cause, file=stderr)
        stderr.write(f"fxai: {trouble}\n")
        stderr.flush()
    click.get_current_context().exit(trouble.code)


def abandon(stream: TextIO | None) -> None:
    """Points the stream's file at the null device, so that flushing it at the end of the process cannot fail."""
    with suppress(OSError, ValueError, AttributeError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), cast(TextIO, stream).fileno())


def write_obstacle(place: Path) -> str | None:
    """Why no such file can be written; None where it can."""
    folder = place.parent
    if not folder.is_dir():
        return f"there is no folder {folder}"
    if place.exists() and not place.is_file():
        return "it is no file"
    return None if os.access(place if place.exists() else folder, os.W_OK) else "it may not be written"
