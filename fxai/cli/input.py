r'''Input of commands: prompts, entries, approvals, and forms. Use `read_entry` for entries, and `Consent` for calls.

An entry is one line. A line that ends with a backslash continues on the next line. Two lines of `"""` enclose an entry
of any number of lines.

>>> import io
>>> lines = PipedInput(io.StringIO('Hello\none \\\ntwo\n"""\na\nb\n"""\n'))
>>> [read_entry(lines), read_entry(lines), read_entry(lines), read_entry(lines)]
['Hello', 'one \ntwo', 'a\nb', None]
'''

from __future__ import annotations

import os
import select
import signal
import sys
import threading
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import contextmanager, redirect_stdout, suppress
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TextIO, final

import anyio
import click
from typing_extensions import override

from fxai.cli.exit import wrong_use
from fxai.effects import EffectOf, fx
from fxai.messages import Pending, ToolApprovalResponsePart, ToolResultPart
from fxai.schema import DecodeError, JsonSchema, SchemaError, parse_json_unsafe
from fxai.schema.data import is_array, is_listed, is_object
from fxai.schema.display import clean, in_line, one_line, quote_name

if TYPE_CHECKING:
    from fxai.mcp.settings import ElicitAnswer, Elicitation

_LARGEST: Final = 16 * 1024 * 1024


def read_stdin(stdin: TextIO | None, *, wait: bool) -> str | None:
    """Return the text on `stdin`, or None. A terminal provides text only if `wait` is true.

    Without `wait`, return None if nothing arrives within 0.5 seconds, because `stdin` can stay open forever. Bytes that
    are not valid UTF-8 become U+FFFD.
    """
    if stdin is None or (stdin.isatty() and not wait):
        return None
    if not wait:
        try:
            soon = bool(select.select([stdin], [], [], 0.5)[0])
        except (OSError, ValueError):  # `stdin` is not a file; on Windows, not a socket
            soon = not hasattr(stdin, "fileno") or sys.platform != "win32"
        if not soon:
            return None
    read = read_at_most(getattr(stdin, "buffer", stdin), "stdin")
    return read if isinstance(read, str) else read.decode("utf-8", "replace")


def read_at_most(file: Any, name: str, remedy: str = "Pass less data.") -> Any:
    """Return the bytes or the text of an open file, at most 16 MiB. Messages call the file `name`."""
    read = file.read(_LARGEST + 1)
    if len(read) > _LARGEST:
        raise wrong_use(f"{name} is larger than {_LARGEST // 2**20} MiB", remedy)
    return read


def read_source(location: str, remedy: str, less: str = "Pass less data.") -> Any:
    """Return the bytes or the text of a file, or of stdin if the location is `-`.

    `remedy` is the remedy for a location without data, and `less` the remedy for too much data.
    """
    if location == "-":
        stdin: Any = sys.stdin
        if stdin is None or stdin.isatty():
            raise wrong_use("stdin is empty", remedy)
        return read_at_most(getattr(stdin, "buffer", stdin), "stdin", less)
    try:
        with Path(location).open("rb") as file:
            return read_at_most(file, location, less)
    except (OSError, ValueError) as error:
        raise wrong_use(f"cannot read {location}: {getattr(error, 'strerror', None) or error}", remedy) from None


def read_prompt(given: str | None, command: str, *, optional: bool = False) -> str | None:
    """Return the prompt of a command, on stdin if `given` is None or `-`. None if it is missing and optional."""
    if given in (None, "-"):
        wait = given == "-" or not optional
        if sys.stdin is not None and sys.stdin.isatty() and wait:
            click.echo("Type the prompt and press Ctrl-D.", err=True)
        text = read_stdin(sys.stdin, wait=wait)
        if text is None or (given is None and not text.strip()):
            if optional:
                return None
            raise wrong_use("missing PROMPT", f"Write fxai {command} PROMPT, or pipe the prompt in.")
        given = text
    if not given.strip():
        raise wrong_use("PROMPT is empty", f"Write fxai {command} PROMPT.")
    return given.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


def with_typing(
    running: EffectOf[None, Any, Any], heard: Callable[[str], None], is_paused: Callable[[], bool] = lambda: False
) -> EffectOf[None, Any, Any]:
    """Run an effect. While it runs, pass each line that a user types at a terminal to `heard`. Never on Windows.

    `is_paused` returns True if another reader needs the lines, such as a question.
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
            await anyio.sleep(0.1)
            continue
        read = os.read(file, 4096)
        if not read:
            return
        *lines, rest = (rest + read).split(b"\n")
        for line in lines:
            if line.strip():
                heard(line.decode("utf-8", "replace").strip())


_NEXT: Final = ". "
_BLOCK: Final = '"""'


class LineInput:
    """A source of lines: a terminal or a pipe."""

    by_person: bool = False
    """True if a user types the lines and sees the questions."""

    def __init__(self) -> None:
        self._back: list[str] = []

    def line(self, prompt: str, /) -> str | None:
        """Return the next line without its line end, or None at the end. Ctrl-C raises `KeyboardInterrupt`."""
        raise NotImplementedError

    def answer(self, prompt: str, /) -> str | None:
        """Show the prompt, discard earlier typed input, and return the next line."""
        return self.line(prompt)

    def back(self, line: str) -> None:
        """Put a line back, so that it becomes the next line."""
        self._back.append(line)

    def keep(self, text: str) -> None:
        """Add the text to the history of the line editor, if there is one."""


@final
class PipedInput(LineInput):
    """Lines from a pipe or a file."""

    def __init__(self, lines: Iterable[str]) -> None:
        super().__init__()
        self._lines = iter(lines)

    @override
    def line(self, _prompt: str, /) -> str | None:
        line = self._back.pop() if self._back else next(self._lines, None)
        return None if line is None else line.rstrip("\r\n")


@final
class TerminalInput(LineInput):
    """Lines from a terminal, with its line editor if it has one."""

    by_person = True

    def __init__(self, stdin: TextIO, stdout: TextIO, stderr: TextIO, words: Iterable[str] = ()) -> None:
        """Read from `stdin`. In a terminal, the tab key completes `words`."""
        super().__init__()
        self._in = stdin
        self._out = stdout
        self._err = stderr
        self._editor: Any = None
        if stdout.isatty():
            with suppress(ImportError):  # Windows has its own editor
                self._set_up(import_module("readline"), tuple(words))

    def _set_up(self, editor: Any, words: tuple[str, ...]) -> None:
        def complete(begun: str, at: int) -> str | None:
            return ([word for word in words if word.startswith(begun)] + [None])[at] if begun else None

        editor.set_auto_history(False)  # the history must not contain answers to questions
        editor.set_completer_delims(" \t\n")
        editor.set_completer(complete)
        editor.parse_and_bind("set enable-bracketed-paste on")
        editor.parse_and_bind("tab: complete")
        self._editor = editor

    @override
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

    @override
    def answer(self, prompt: str, /) -> str | None:
        """Return the next line that the user types after this call. Lines that were put back stay for later."""
        _drop_typeahead(self._in)
        later, self._back = self._back, []
        try:
            return self.line(prompt)
        finally:
            self._back = later

    @override
    def keep(self, text: str) -> None:
        if self._editor is not None and text:
            self._editor.add_history(text)


def open_input(stdout: TextIO, stderr: TextIO, words: Iterable[str] = ()) -> LineInput:
    """Return the lines of stdin. In a terminal, the tab key completes `words`."""
    stdin: Any = sys.stdin
    if stdin is None:
        return PipedInput(())
    if hasattr(stdin, "reconfigure"):
        stdin.reconfigure(errors="replace")
    return TerminalInput(stdin, stdout, stderr, words) if stdin.isatty() else PipedInput(stdin)


def read_entry(lines: LineInput) -> str | None:
    """Return the next entry, or None at the end of the input. Ctrl-C within an entry discards the entry."""
    while (line := lines.line("> ")) is not None:
        read: list[str] = []
        try:
            if line.strip() == _BLOCK:
                while (following := lines.line(_NEXT)) is not None and following.strip() != _BLOCK:
                    read.append(following)
                return "\n".join(read)
            while line.endswith("\\"):
                read.append(line[:-1])
                line = lines.line(_NEXT) or ""
            return "\n".join([*read, line])
        except KeyboardInterrupt:
            continue
    return None


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
            pause = 0.05 if received else pause
        if pause is not None and not over.is_set():
            signal.pthread_kill(main, signal.SIGWINCH)
            pause = min(2 * pause, _LONGEST_PAUSE)


_VISITED: Final = "did you open the page and finish? [y]es, [n]o: "
_YES_NO: Final = {"y": True, "yes": True, "true": True, "n": False, "no": False, "false": False}
_LONGEST: Final = 160


def fill_form(asked: Elicitation, lines: LineInput) -> ElicitAnswer:
    """Return the user's answer, or `cancel` if the input ended.

    The function asks for one field at a time, and sends only values that the user typed. An empty answer to a required
    field declines the form. A form with only empty answers also declines. Ctrl-C raises `KeyboardInterrupt`.
    """
    from fxai.mcp.settings import ElicitAnswer  # imported only if a server asks a question

    declined = ElicitAnswer("decline")
    if asked.url is not None or not asked.fields:
        typed = lines.answer("do you agree? [y]es, [n]o: " if asked.url is None else _VISITED)
        agreed = ElicitAnswer("accept", {} if asked.url is None else None)
        return agreed if (typed or "").strip().lower() in ("y", "yes") else declined
    content: dict[str, Any] = {}
    required: Any = asked.schema.get("required", ())
    for name, field in asked.schema["properties"].items():
        try:
            value = _value(_prompt(name, field, needed=name in required), field, lines)
        except EOFError:
            return ElicitAnswer("cancel")
        if value is not None:
            content[name] = value
        elif name in required:
            return declined
    return ElicitAnswer("accept", content) if content else declined


def _value(prompt: str, field: Any, lines: LineInput) -> Any:
    """Return the value of a field, or None for an empty answer. Ask again until the value is valid."""
    typed = lines.answer(prompt)
    while typed is not None and typed.strip():
        value = _read(typed.strip(), field)
        try:
            faults = JsonSchema.of(field).validate(value)
        except SchemaError:  # the server checks a field whose schema is invalid
            return value
        if not faults:
            return value
        typed = lines.answer(f"    {one_line(str(faults[0]), _LONGEST)}\n{prompt}")
    if typed is None:
        raise EOFError
    return None


def _read(text: str, field: Any) -> Any:
    match field.get("type") if is_object(field) else None:
        case "boolean":
            return _YES_NO.get(text.lower(), text)
        case "number" | "integer":
            try:
                return parse_json_unsafe(text)
            except DecodeError:
                return text
        case "array":
            return [part.strip() for part in text.split(",") if part.strip()]
        case _:
            return text


def _prompt(name: str, field: Any, *, needed: bool) -> str:
    typed = field if is_object(field) else {}
    type_ = typed.get("type", "string")
    choices = _choices(typed) or _choices(typed.get("items"))
    kind = " | ".join(choices) or ("yes | no" if type_ == "boolean" else str(type_))
    if type_ == "array":
        kind += "; separate values with commas"
    shown = one_line(f"{name} ({kind}{'' if needed else '; optional'})", _LONGEST)
    about = typed.get("description") or typed.get("title")
    return f"    {shown}{f', {one_line(str(about), _LONGEST)}' if about else ''}: "


def _choices(field: Any) -> list[str]:
    if not is_object(field):
        return []
    values = field.get("enum")
    if is_listed(values):
        return [value if isinstance(value, str) else in_line(value) for value in values]
    named = field.get("oneOf", field.get("anyOf"))
    branches = [each for each in named if is_object(each) and "const" in each] if is_listed(named) else []
    return [f"{each['const']} = {each['title']}" if each.get("title") else str(each["const"]) for each in branches]


_QUESTION: Final = "run {}? [y]es, [n]o, [a]lways this tool in this chat: "
_CHOICES: Final = "y runs the call, n denies it (text after n is the reason), a always runs this tool"
_WANTED: Final = "result of the call, JSON or text (empty if it failed): "
_NOBODY: Final = "no user was available to approve it"
_NO: Final = "the user denied it"


@final
class Consent:
    """A dialog that approves calls and remembers the tools that can always run.

    A user must approve a call explicitly. An empty line, a line typed before the question, or the end of input never
    approves it. Piped input answers with `/approve`, `/deny`, or `/answer`. Any other line leaves the call unanswered,
    so that the call does not run, and becomes the next prompt.

    >>> call = Pending("c1", "wipe", {"disk": "a"}, "a1")
    >>> Consent(PipedInput(["/approve"]), lambda waiting: None).answer(call).approved
    True
    """

    def __init__(
        self, lines: LineInput, show: Callable[[Pending], None], refuse: Callable[[str], None] = lambda _: None
    ) -> None:
        """Read answers from `lines`. `show` displays a call, and `refuse` reports an invalid answer."""
        self._lines = lines
        self._show = show
        self._refuse = refuse
        self._always: set[tuple[str, ...]] = set()

    def answer(self, waiting: Pending) -> ToolApprovalResponsePart | ToolResultPart:
        """Return the answer for a call: an approval, a denial, or a result. Ctrl-C raises `KeyboardInterrupt`."""
        if waiting.approval_id is not None and self._always.issuperset(_runs((), waiting.name, waiting.params)):
            return waiting.approve()
        self._show(waiting)
        if not self._lines.by_person:
            return self._from_program(waiting)
        if waiting.approval_id is None:
            return _result_part(waiting, (self._lines.answer(_WANTED) or "").strip())
        return self._approval(waiting)

    def _approval(self, waiting: Pending) -> ToolApprovalResponsePart:
        question = _QUESTION.format(quote_name(waiting.name))
        asked = question
        while True:
            typed = self._lines.answer(asked)
            if typed is None:
                return waiting.abandon(_NOBODY)
            word, _, reason = typed.strip().partition(" ")
            match word.lower():
                case "y" | "yes" if not reason:
                    return waiting.approve()
                case "a" | "always" if not reason:
                    self._always.update(_runs((), waiting.name, waiting.params))
                    return waiting.approve()
                case "n" | "no" | "n," | "no,":
                    return waiting.deny(reason.strip() or _NO)
                case _:
                    asked = f"    {_misunderstanding(typed)}{_CHOICES}\n{question}"

    def _from_program(self, waiting: Pending) -> ToolApprovalResponsePart | ToolResultPart:
        """Return the answer from piped input."""
        line = self._lines.answer("")
        word, _, rest = (line or "").strip().partition(" ")
        if waiting.approval_id is None:
            if word == "/answer":
                return _result_part(waiting, rest.strip())
        elif word == "/deny" or (word == "/approve" and not rest.strip()):
            return waiting.approve() if word == "/approve" else waiting.deny(rest.strip() or _NO)
        if line is not None:
            wanted = "/answer JSON" if waiting.approval_id is None else "/approve or /deny [REASON]"
            self._refuse(f"{_misunderstanding(line)}{quote_name(waiting.name)} does not run. Answer with {wanted}.")
        if line is not None and word != "/approve":
            self._lines.back(line)
        return _result_part(waiting, "") if waiting.approval_id is None else waiting.abandon(_NOBODY)


def _runs(path: tuple[str, ...], name: str, params: Any) -> Iterator[tuple[str, ...]]:
    """Yield the tools that a call runs, each as its path.

    A composite runs the tools in its calls. A server of a provider runs the tool that its arguments name. If other
    arguments look like these, the user must approve the tool more often.
    """
    here = (*path, name)
    calls: object = params.get("calls") if is_object(params) else None
    if is_array(calls) and calls:
        for one in calls:
            called = one if is_object(one) else {}
            yield from _runs(here, str(called.get("name", one)), called.get("args"))
    elif is_object(params) and "name" in params and "arguments" in params:
        yield (*here, str(params["name"]))
    elif path and isinstance(params, str):  # a string can contain calls
        yield (*here, params)
    else:
        yield here


def _misunderstanding(typed: str) -> str:
    return f"{one_line(repr(typed.strip()), 60)} is not a valid answer. " if typed.strip() else ""


def _result_part(waiting: Pending, text: str) -> ToolResultPart:
    if not text:
        return waiting.answer({"error": "no user ran it"}, is_failure=True)
    try:
        result: Any = parse_json_unsafe(text)
    except DecodeError:
        result = text
    return waiting.answer(result)
