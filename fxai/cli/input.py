r'''Input of commands. Use `read_stdin` for piped text, and `read_entry` for entries from a terminal or a pipe.

>>> import io
>>> read_stdin(io.StringIO("Hello"), wait=True)
'Hello'

An entry is one line. A line that ends with a backslash continues on the next line. Two lines of `"""` enclose an entry
of any number of lines.

>>> lines = PipedInput(io.StringIO('Hello\none \\\ntwo\n"""\na\nb\n"""\n'))
>>> [read_entry(lines), read_entry(lines), read_entry(lines), read_entry(lines)]
['Hello', 'one \ntwo', 'a\nb', None]

`wake_on_signal` wakes a waiting line editor if a signal arrived just before the wait:

>>> with wake_on_signal():
...     pass
'''

from __future__ import annotations

import os
import select
import signal
import sys
import threading
from collections.abc import Callable, Generator, Iterable
from contextlib import contextmanager, redirect_stdout, suppress
from importlib import import_module
from typing import Any, Final, Protocol, TextIO, final

import anyio

from fxai.cli.exit import WRONG_USE, CliError
from fxai.effects import fx
from fxai.effects.effect import EffectOf
from fxai.schema.display import clean

_PATIENCE: Final = 0.5
_GLANCE: Final = 0.1
_LARGEST: Final = 16 * 1024 * 1024


def read_stdin(stdin: TextIO | None, *, wait: bool) -> str | None:
    """Return the text on `stdin`, or None. A terminal provides text only if `wait` is true.

    Without `wait`, return None if nothing arrives within 0.5 seconds, because `stdin` can stay open forever. Bytes that
    are not valid UTF-8 become U+FFFD.
    """
    if stdin is None or (stdin.isatty() and not wait) or (not wait and not _comes_soon(stdin)):
        return None
    read = read_at_most(getattr(stdin, "buffer", stdin), "stdin")
    return read if isinstance(read, str) else read.decode("utf-8", "replace")


def read_at_most(file: Any, name: str, remedy: str = "Pass less data.") -> Any:
    """Return the bytes or the text of an open file, at most 16 MiB. Messages call the file `name`."""
    read = file.read(_LARGEST + 1)
    if len(read) > _LARGEST:
        raise CliError(f"{name} is larger than {_LARGEST // 2**20} MiB", remedy, code=WRONG_USE)
    return read


def _comes_soon(stdin: TextIO) -> bool:
    try:
        return bool(select.select([stdin], [], [], _PATIENCE)[0])
    except (OSError, ValueError):  # `stdin` is not a file; on Windows, not a socket
        return not hasattr(stdin, "fileno") or sys.platform != "win32"


def with_typing(
    running: EffectOf[None, Any, Any], heard: Callable[[str], None], is_paused: Callable[[], bool] = lambda: False
) -> EffectOf[None, Any, Any]:
    """Run an effect. While it runs, pass each line that a user types at a terminal to `heard`. Never on Windows.

    Args:
        running: The effect.
        heard: Receives each line without spaces around it, except blank lines.
        is_paused: Returns True if another reader needs the lines, such as a question.
    """
    if sys.platform == "win32" or sys.stdin is None or not sys.stdin.isatty():
        return running
    listening = fx.wait(lambda: _listen(sys.stdin.fileno(), heard, is_paused))
    return fx.scoped(fx.fork(listening).and_then(running))


async def _listen(file: int, heard: Callable[[str], None], is_paused: Callable[[], bool]) -> None:
    rest = b""
    while True:
        await anyio.wait_readable(file)
        if is_paused() or os.tcgetpgrp(file) != os.getpgrp():  # a background process must not read the terminal
            await anyio.sleep(_GLANCE)
            continue
        read = os.read(file, 4096)
        if not read:
            return
        *lines, rest = (rest + read).split(b"\n")
        for line in lines:
            if line.strip():
                heard(line.decode("utf-8", "replace").strip())


_FIRST: Final = "> "
_NEXT: Final = ". "
_BLOCK: Final = '"""'


class LineInput(Protocol):
    """A source of lines: a terminal or a pipe."""

    @property
    def by_person(self) -> bool:
        """True if a user types the lines and sees the questions."""
        ...

    def line(self, prompt: str, /) -> str | None:
        """Return the next line without its line end, or None at the end of the input.

        Raises:
            KeyboardInterrupt: If the user pressed Ctrl-C instead.
        """

    def answer(self, prompt: str, /) -> str | None:
        """Show the prompt, discard earlier typed input, and return the next line."""

    def back(self, line: str) -> None:
        """Put a line back, so that it becomes the next line."""

    def keep(self, text: str) -> None:
        """Add the text to the history of the line editor."""


def open_input(stdout: TextIO, stderr: TextIO, words: Iterable[str] = ()) -> LineInput:
    """Return the lines of stdin. In a terminal, the tab key completes `words`."""
    stdin: Any = sys.stdin
    if stdin is None:
        return PipedInput(())
    if hasattr(stdin, "reconfigure"):
        stdin.reconfigure(errors="replace")
    return TerminalInput(stdin, stdout, stderr, words) if stdin.isatty() else PipedInput(stdin)


def read_entry(lines: LineInput) -> str | None:
    """Return the next entry, or None at the end of the input. Ctrl-C within an entry discards the entry.

    Raises:
        KeyboardInterrupt: If the user pressed Ctrl-C before an entry.
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
        """Return the next line without showing the prompt."""
        line = self._back.pop() if self._back else next(self._lines, None)
        return None if line is None else line.rstrip("\r\n")

    answer = line

    def back(self, line: str) -> None:
        """Put a line back, so that it becomes the next line."""
        self._back.append(line)

    def keep(self, text: str) -> None:
        """Do nothing."""


@final
class TerminalInput:
    """Lines from a terminal, with its line editor if it has one."""

    def __init__(self, stdin: TextIO, stdout: TextIO, stderr: TextIO, words: Iterable[str] = ()) -> None:
        self.by_person = True
        self._in = stdin
        self._out = stdout
        self._err = stderr
        self._back: list[str] = []
        self._editor: Any = None
        if stdout.isatty():
            with suppress(ImportError):  # Windows has its own editor
                self._editor = import_module("readline")
                _set_up(self._editor, tuple(words))

    def line(self, prompt: str, /) -> str | None:
        """Return the next line. Pasted lines can form one line."""
        if self._back:
            return self._back.pop()
        if not self._out.isatty():
            self._err.write(clean(prompt))
            self._err.flush()
            line = self._in.readline()
            return line.rstrip("\n") if line else None
        try:
            with redirect_stdout(self._out), wake_on_signal():  # `input` edits lines only on the terminal itself
                return input(clean(prompt))
        except EOFError:
            self._out.write("\n")
            return None
        except KeyboardInterrupt:
            self._out.write("\n")
            raise

    def answer(self, prompt: str, /) -> str | None:
        """Return the next line that the user types after this call. Lines that were put back stay for later."""
        _drop_typeahead(self._in)
        later, self._back = self._back, []
        try:
            return self.line(prompt)
        finally:
            self._back = later

    def back(self, line: str) -> None:
        """Put a line back, so that it becomes the next line."""
        self._back.append(line)

    def keep(self, text: str) -> None:
        """Add the text to the history of the line editor."""
        if self._editor is not None and text:
            self._editor.add_history(text)


def _set_up(editor: Any, words: tuple[str, ...]) -> None:
    def complete(begun: str, at: int) -> str | None:
        return ([word for word in words if word.startswith(begun)] + [None])[at] if begun else None

    editor.set_auto_history(False)  # the history must not contain answers to questions
    editor.set_completer_delims(" \t\n")
    editor.set_completer(complete)
    editor.parse_and_bind("set enable-bracketed-paste on")
    editor.parse_and_bind("tab: complete")


def _drop_typeahead(stdin: TextIO) -> None:
    """Discard the input that the user typed before a question."""
    if sys.platform == "win32":
        keys: Any = import_module("msvcrt")
        while keys.kbhit():
            keys.getwch()
        return
    import termios

    with suppress(termios.error, OSError, ValueError):
        termios.tcflush(stdin.fileno(), termios.TCIFLUSH)


_PAUSE: Final = 0.05  # seconds between the first two interruptions
_LONGEST_PAUSE: Final = 1.0


@contextmanager
def wake_on_signal() -> Generator[None]:
    """During the block, interrupt this thread repeatedly after Python receives a signal.

    GNU readline shows its prompt before it waits. A signal between these two steps only sets a flag, which Python reads
    after the next key. The interruptions use `SIGWINCH`, because an editor then only reads the size of the terminal.
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
    """Interrupt the thread `main` after the first signal, with growing pauses, until `over` is set.

    The number of interruptions has no limit, because on a busy machine the thread can start to wait at any time.
    """
    pause: float | None = None
    while not over.is_set():
        if select.select([reading], [], [], pause)[0]:
            received = set(os.read(reading, 4096)) - {signal.SIGWINCH}
            pause = _PAUSE if received else pause
        if pause is not None and not over.is_set():
            signal.pthread_kill(main, signal.SIGWINCH)
            pause = min(2 * pause, _LONGEST_PAUSE)
