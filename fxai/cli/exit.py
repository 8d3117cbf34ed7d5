"""Errors and exit codes of commands. Use `run_command` to run the work of a command and report its error.

An error is one line on stderr and an exit code. With `--json`, fxai also writes it as an object to stdout.

>>> print(CliError("file x.py does not exist", "Check the path."))
file x.py does not exist. Check the path.
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
from copy import copy
from typing import TYPE_CHECKING, Any, Final, TextIO, cast, final

import click
from typing_extensions import override

from fxai.schema.display import clean, json_line, one_line

if TYPE_CHECKING:
    from pathlib import Path

FAILED: Final = 1
HUNG_UP: Final = 129
"""The exit code that shells use for a program whose terminal closed."""
WRONG_USE: Final = 2
INTERRUPTED: Final = 130
"""The exit code that shells use for a program that Ctrl-C stopped."""
PIPE_CLOSED: Final = 141
"""The exit code that shells use for a program whose reader closed the pipe."""
TERMINATED: Final = 143
"""The exit code that shells use for a program that SIGTERM stopped."""

SHOW_TRACE: Final = "Run it again with --debug to see the traceback."
"""The remedy for an exception of the program."""


@final
class CliError(Exception):
    """An error that ends a command.

    `cause` is the original exception, which `--debug` shows. `data` is added to the error in JSON. `of_output` is True
    if fxai cannot write to the output. The message has no period. The remedy is a sentence or empty.
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
        """True if the process must end: a signal stopped it, its terminal closed, or its output is not writable."""
        return self.of_output or self.code in (HUNG_UP, TERMINATED)

    def to_data(self) -> dict[str, Any]:
        """Return the message and the remedy as JSON values."""
        return {"message": self.message, "remedy": self.remedy, **self.data}

    @override
    def __str__(self) -> str:
        if not self.remedy:
            return self.message
        return f"{self.message.rstrip('.')}{'' if self.message.endswith('?') else '.'} {self.remedy}"


def wrong_use(message: str, remedy: str, *, cause: BaseException | None = None) -> CliError:
    """Return the error for a command that the user must write in another way."""
    return CliError(message, remedy, code=WRONG_USE, cause=cause)


def interruption() -> CliError:
    """Return the error for a command that Ctrl-C stopped."""
    return CliError("interrupted", "", code=INTERRUPTED)


@contextmanager
def refusing(doing: str, remedy: str, *, code: int = WRONG_USE) -> Generator[None]:
    """Raise `CliError` if the system refuses a file inside the block, such as `cannot read FILE`."""
    try:
        yield
    except OSError as error:
        raise CliError(f"{doing}: {error.strerror or error}", remedy, code=code, cause=error) from None


@final
class Outlet:
    """A stream to a terminal, a file, or another program that cleans its output with `fxai.schema.display`.

    If a write fails (a full disk, a closed pipe), the outlet raises one `CliError`. If `forgiving` is true, the outlet
    ignores this error, because no other stream can report it.
    """

    def __init__(self, stream: TextIO, *, forgiving: bool = False) -> None:
        self._stream = stream
        self._raw = False
        self._ended = [forgiving]  # shared with `styled`
        self.encoding: str = getattr(stream, "encoding", None) or "utf-8"
        self.errors: str = getattr(stream, "errors", None) or "replace"
        self.closed = False

    @property
    def styled(self) -> TextIO:
        """An outlet to the same stream that keeps escape codes. Its writer must clean the strings of others."""
        same = copy(self)
        same._raw = True
        return cast(TextIO, same)

    def write(self, text: str, /) -> int:
        """Write the cleaned text and return the length of `text`."""
        if text != "":  # bytes raise a TypeError: libraries write b"" to test whether a stream accepts strings
            self._attempt(self._stream.write, text if self._raw else clean(text))
        return len(text)

    def flush(self) -> None:
        """Flush the stream."""
        self._attempt(self._stream.flush)

    def _attempt(self, act: Callable[..., object], *given: str) -> None:
        try:
            act(*given)
        except (OSError, ValueError) as wrong:  # a closed stream raises ValueError
            if not self._ended[0]:
                self._ended[0] = True
                raise _unwritable(wrong) from wrong

    def writelines(self, lines: Iterable[str], /) -> None:
        """Write each string."""
        for line in lines:
            self.write(line)

    @property
    def buffer(self) -> io.RawIOBase:
        """A stream of bytes. The outlet decodes the bytes as UTF-8."""
        return _Binary(self)

    def isatty(self) -> bool:
        """Return True for a terminal."""
        return self._stream.isatty()

    def fileno(self) -> int:
        """Return the file descriptor."""
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
    """A replacement for an output that was closed before the process started."""

    @override
    def write(self, text: str, /) -> int:
        raise OSError(errno.EBADF, "it is closed")


def _unwritable(wrong: Exception) -> CliError:
    if isinstance(wrong, BrokenPipeError):
        return CliError("the reader closed the output", "", code=PIPE_CLOSED, of_output=True)
    problem = getattr(wrong, "strerror", None) or str(wrong)
    return CliError(f"cannot write the output: {problem}", "Free space, or write to another file.", of_output=True)


def _as_escapes(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeEncodeError):
        raise error
    return json.dumps(error.object[error.start : error.end])[1:-1], error.end


_ESCAPES: Final = "fxai.escapes"
codecs.register_error(_ESCAPES, _as_escapes)


def writable(stream: TextIO | None, *, forgiving: bool = False) -> TextIO:
    """Return the stream as an `Outlet` that can write any string.

    If the stream is None (after `>&-`), each write fails like a write to a full disk. With `forgiving`, the outlet
    discards it. If the encoding lacks a character, the outlet writes its JSON escape. Data therefore stays exact, and
    two different names never look the same.
    """
    there = cast(object, stream)
    if isinstance(there, Outlet):
        return cast(TextIO, there)
    if stream is None:
        return cast(TextIO, Outlet(_Closed(), forgiving=forgiving))
    reconfigure: Any = getattr(stream, "reconfigure", None)
    if reconfigure is not None:
        reconfigure(errors=_ESCAPES, line_buffering=True)
    return cast(TextIO, Outlet(stream, forgiving=forgiving))


def run_command(
    work: Callable[[TextIO, TextIO], bool],
    *,
    as_json: bool,
    debug: bool,
    closing: str | None = None,
    failed: int = FAILED,
) -> None:
    """Run the work of a command and end the command with its exit code. Redirect the output of other code to stderr.

    `work` receives the stream for results and the stream for other output, and returns True on success. With `as_json`,
    an error is also a JSON object of the type `closing`. With `debug`, its traceback follows. `failed` is the exit code
    of an error without its own exit code.
    """
    stdout, stderr = writable(sys.stdout), writable(sys.stderr, forgiving=True)
    try:
        with redirect_stdout(stderr), redirect_stderr(stderr), warnings_on(stderr):
            well = work(stdout, stderr)
        stdout.flush()
    except (click.exceptions.Exit, click.ClickException):
        raise
    except (Exception, KeyboardInterrupt) as raised:
        trouble = error_from(raised)
        if debug and trouble.cause is not None:
            traceback.print_exception(trouble.cause, file=stderr)
        report(trouble, stdout, stderr, as_json=as_json, closing=closing)
        click.get_current_context().exit(failed if trouble.code == FAILED else trouble.code)
    if not well:
        click.get_current_context().exit(FAILED)


def report(trouble: CliError, stdout: TextIO, stderr: TextIO, *, as_json: bool, closing: str | None = None) -> None:
    """Write an error as one line, and with `as_json` also as an object of the type `closing`."""
    if as_json and not trouble.of_output:
        kind = {} if closing is None else {"type": closing}
        with suppress(CliError):
            stdout.write(json_line({**kind, "ok": False, "error": trouble.to_data()}))
            stdout.flush()
    if trouble.of_output:  # the flush at the end of the process must not fail
        with suppress(OSError, ValueError, AttributeError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), cast(TextIO, sys.stdout).fileno())
    if trouble.code != PIPE_CLOSED:
        stderr.write(f"fxai: {trouble}\n")


def error_from(raised: BaseException) -> CliError:
    """Return the error for an exception that ended a command."""
    if isinstance(raised, CliError):
        return raised
    if isinstance(raised, KeyboardInterrupt | click.Abort):
        return interruption()
    if isinstance(raised, OSError) and raised.errno in (errno.ENOSPC, errno.EDQUOT, errno.EBADF):
        return _unwritable(raised)
    problem = f"the program raised {type(raised).__name__}: {raised}"
    return CliError(problem, SHOW_TRACE, cause=raised)


@final
class _Line(logging.Formatter):
    @override
    def formatMessage(self, record: logging.LogRecord) -> str:
        """Return the message as one line, so that it cannot imitate a second message."""
        return one_line(super().formatMessage(record), 2000)

    @override
    def formatException(self, ei: Any) -> str:
        """Return an empty string, because the handler writes one line only."""
        return ""


@contextmanager
def warnings_on(stderr: TextIO) -> Generator[None]:
    """Write the warnings and errors that fxai logs to `stderr` during the block, one line each."""
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
    """Discard messages of a logger below the level ERROR during the block."""
    log = logging.getLogger(logger)
    before = log.level
    log.setLevel(logging.ERROR)
    try:
        yield
    finally:
        log.setLevel(before)


def why_unwritable(location: Path) -> str | None:
    """Return the reason why fxai cannot write this file, or None if it can."""
    folder = location.parent
    if not folder.is_dir():
        return f"directory {folder} does not exist"
    if location.exists() and not location.is_file():
        return "not a regular file"
    return None if os.access(location if location.exists() else folder, os.W_OK) else "no permission to write"


def require_writable(location: Path, what: str, path: str) -> None:
    """Raise `CliError` if fxai cannot write a file. The message contains the data `what` and the option's `path`."""
    problem = why_unwritable(location)
    if problem is not None:
        raise wrong_use(f"cannot store {what} in {path}: {problem}", "Name a file that you can write.")
