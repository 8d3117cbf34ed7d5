r'''Input: the text that is piped in, and lines from a terminal or a pipe with the entries that they make up.

>>> import io
>>> read_stdin(io.StringIO("Hello"), wait=True)
'Hello'

An entry is a line; one that ends with a backslash goes on in the next, and between two lines of `"""` there may be any
number.

>>> lines = PipedInput(io.StringIO('Hello\none \\\ntwo\n"""\na\nb\n"""\n'))
>>> [read_entry(lines), read_entry(lines), read_entry(lines), read_entry(lines)]
['Hello', 'one \ntwo', 'a\nb', None]

A line editor that waits is woken by a signal that arrived just before it began to wait:

>>> with wake_on_signal():
...     pass
'''

from __future__ import annotations

import os
import select
import signal
import sys
import threading
from collections.abc import Generator, Iterable
from contextlib import contextmanager, redirect_stdout, suppress
from importlib import import_module
from typing import Any, Final, Protocol, TextIO, final

from fxai.cli.exit import WRONG_USE, CliError
from fxai.schema.display import clean

_PATIENCE: Final = 0.5
_LARGEST: Final = 16 * 1024 * 1024


def read_stdin(stdin: TextIO | None, *, wait: bool) -> str | None:
    """The text on `stdin` where it is no terminal. Without `wait`, only if it comes soon: it may be open and never end.

    Bytes that are not UTF-8 become U+FFFD.
    """
    if stdin is None or (stdin.isatty() and not wait) or (not wait and not _comes_soon(stdin)):
        return None
    read = read_at_most(getattr(stdin, "buffer", stdin), "stdin")
    return read if isinstance(read, str) else read.decode("utf-8", "replace")


def read_at_most(file: Any, name: str, remedy: str = "give less") -> Any:
    """The bytes or the text of an open file, 16 MiB at most; `name` is what a message calls it."""
    read = file.read(_LARGEST + 1)
    if len(read) > _LARGEST:
        raise CliError(f"{name} is larger than {_LARGEST // 2**20} MiB", remedy, code=WRONG_USE)
    return read


def _comes_soon(stdin: TextIO) -> bool:
    try:
        return bool(select.select([stdin], [], [], _PATIENCE)[0])
    except (OSError, ValueError):  # no file at all; on Windows, no socket
        return not hasattr(stdin, "fileno") or sys.platform != "win32"


_FIRST: Final = "> "
_NEXT: Final = ". "
_BLOCK: Final = '"""'


class LineInput(Protocol):
    """A source of lines: a terminal or a pipe."""

    @property
    def by_person(self) -> bool:
        """Whether a user types the lines and sees the questions."""
        ...

    def line(self, prompt: str, /) -> str | None:
        """The next line, without its end; None where there are no more.

        Raises `KeyboardInterrupt`: Ctrl-C was typed in its place.
        """

    def answer(self, prompt: str, /) -> str | None:
        """The next line typed after the prompt is shown; what was typed before is discarded."""

    def back(self, line: str) -> None:
        """Puts a line back: it is the next line."""

    def keep(self, text: str) -> None:
        """Adds the text to the history of the line editor."""


def open_input(stdout: TextIO, stderr: TextIO, words: Iterable[str] = ()) -> LineInput:
    """The lines of stdin; in a terminal the tab key completes `words`."""
    stdin: Any = sys.stdin
    if stdin is None:
        return PipedInput(())
    if hasattr(stdin, "reconfigure"):
        stdin.reconfigure(errors="replace")
    return TerminalInput(stdin, stdout, stderr, words) if stdin.isatty() else PipedInput(stdin)


def read_entry(lines: LineInput) -> str | None:
    """The next entry; None where there are no more lines.

    Raises `KeyboardInterrupt`: Ctrl-C was typed before an entry began; within one it discards the entry.
    """
    while (first := lines.line(_FIRST)) is not None:
        try:
            return _rest(first, lines)
        except KeyboardInterrupt:
            continue
    return None


def _rest(line: str, lines: LineInput) -> str:
    read: list[str] = []
    if line.strip() == _BLOCK:
        while (following := lines.line(_NEXT)) is not None and following.strip() != _BLOCK:
            read.append(following)
        return "\n".join(read)
    while line.endswith("\\"):
        read.append(line[:-1])
        line = lines.line(_NEXT) or ""
    return "\n".join([*read, line])


@final
class PipedInput:
    """Lines from a pipe or a file."""

    def __init__(self, lines: Iterable[str]) -> None:
        self.by_person = False
        self._lines = iter(lines)
        self._back: list[str] = []

    def line(self, _prompt: str, /) -> str | None:
        """The next line; nothing is asked."""
        line = self._back.pop() if self._back else next(self._lines, None)
        return None if line is None else line.rstrip("\r\n")

    answer = line

    def back(self, line: str) -> None:
        """Makes this the next line."""
        self._back.append(line)

    def keep(self, text: str) -> None:
        """Nothing."""


@final
class TerminalInput:
    """Lines typed in a terminal, with its line editor where it has one."""

    def __init__(self, stdin: TextIO, stdout: TextIO, stderr: TextIO, words: Iterable[str] = ()) -> None:
        self.by_person = True
        self._in = stdin
        self._out = stdout
        self._err = stderr
        self._back: list[str] = []
        self._editor: Any = None
        if stdout.isatty():
            with suppress(ImportError):  # Windows has an editor of its own
                self._editor = import_module("readline")
                _set_up(self._editor, tuple(words))

    def line(self, prompt: str, /) -> str | None:
        """The next line; several where they were pasted at once."""
        if self._back:
            return self._back.pop()
        if not self._out.isatty():
            self._err.write(clean(prompt))
            self._err.flush()
            line = self._in.readline()
            return line.rstrip("\n") if line else None
        try:
            with redirect_stdout(self._out), wake_on_signal():  # `input` edits lines only where this is the terminal
                return input(clean(prompt))
        except EOFError:
            self._out.write("\n")
            return None
        except KeyboardInterrupt:
            self._out.write("\n")
            raise

    def answer(self, prompt: str, /) -> str | None:
        """The next line that is typed from now on."""
        _drop_typeahead(self._in)
        return self.line(prompt)

    def back(self, line: str) -> None:
        """Makes this the next line."""
        self._back.append(line)

    def keep(self, text: str) -> None:
        """Offers the text again."""
        if self._editor is not None and text:
            self._editor.add_history(text)


def _set_up(editor: Any, words: tuple[str, ...]) -> None:
    def complete(begun: str, at: int) -> str | None:
        return ([word for word in words if word.startswith(begun)] + [None])[at] if begun else None

    editor.set_auto_history(False)  # answers to questions do not belong into the history
    editor.set_completer_delims(" \t\n")
    editor.set_completer(complete)
    editor.parse_and_bind("set enable-bracketed-paste on")
    editor.parse_and_bind("tab: complete")


def _drop_typeahead(stdin: TextIO) -> None:
    """Discards what was typed before a question was shown."""
    if sys.platform == "win32":
        keys: Any = import_module("msvcrt")
        while keys.kbhit():
            keys.getwch()
        return
    import termios

    with suppress(termios.error, OSError, ValueError):
        termios.tcflush(stdin.fileno(), termios.TCIFLUSH)


_PAUSE: Final = 0.05  # seconds, between the first two interruptions
_LONGEST_PAUSE: Final = 1.0


@contextmanager
def wake_on_signal() -> Generator[None]:
    """While the block lasts, a signal that Python has received interrupts this thread again and again.

    GNU readline shows its prompt before it waits. A signal between the two only sets a flag, and Python would look at
    it after the next key. What interrupts is `SIGWINCH`, at which an editor looks at the size of the terminal.
    """
    if threading.current_thread() is not threading.main_thread() or not hasattr(signal, "pthread_kill"):
        yield
        return
    main, over = threading.get_ident(), threading.Event()
    reading, writing = os.pipe()
    os.set_blocking(writing, False)

    watching = threading.Thread(target=_watch, args=(reading, main, over), daemon=True)
    before = signal.set_wakeup_fd(writing, warn_on_full_buffer=False)
    watching.start()
    try:
        yield
    finally:
        over.set()
        signal.set_wakeup_fd(before)
        os.write(writing, b"\0")
        watching.join()
        os.close(reading)
        os.close(writing)


def _watch(reading: int, main: int, over: threading.Event) -> None:
    """Interrupts the thread `main` from the first signal on, less and less often, until `over`.

    There is no limit: on a busy machine the thread may take any time until it waits, and it sees only what comes then.
    """
    pause: float | None = None
    while not over.is_set():
        if select.select([reading], [], [], pause)[0]:
            received = set(os.read(reading, 4096)) - {signal.SIGWINCH}
            pause = _PAUSE if received else pause
        if pause is not None and not over.is_set():
            signal.pthread_kill(main, signal.SIGWINCH)
            pause = min(2 * pause, _LONGEST_PAUSE)
