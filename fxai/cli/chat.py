"""The command `fxai chat`: each line goes to the agent or is a slash command, until the user leaves.

>>> import io
>>> chat(AgentArgs(system="Be brief.", memory="notes.txt"), io.StringIO(), io.StringIO())  # doctest: +ELLIPSIS
Traceback (most recent call last):
fxai.cli.cli_error.CliError: notes.txt does not say what kind of memory it is; ...
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TextIO, final

from fxai.agents.memory import Memory
from fxai.cli.agent_args import AgentArgs, read_args
from fxai.cli.background import Background
from fxai.cli.chat_view import ChatLines, ChatScreen, ChatView
from fxai.cli.cli_error import INTERRUPTED, WRONG_USE, CliError
from fxai.cli.conversation import Conversation
from fxai.cli.line_input import LineInput, open_input, read_entry
from fxai.cli.load_progress import LoadProgress
from fxai.cli.memory_option import memory_at
from fxai.cli.setting import OpenSetting, open_setting
from fxai.cli.slash_command import WORDS, slash_command

if TYPE_CHECKING:
    from fxai.mcp.elicitation import Elicit, ElicitAnswer, Elicitation

__all__ = ["chat"]


def chat(
    chosen: AgentArgs, stdout: TextIO, stderr: TextIO, *, as_json: bool = False, color: bool | None = None
) -> bool:
    """Talks until the user leaves; False where input was piped in and an answer failed.

    The conversation is kept in the chosen memory; else in the agent's own, if it has one.

    Raises:
        CliError: it cannot begin, or nothing more can be said.
    """
    kept = None if chosen.memory is None else memory_at(chosen.memory)
    lines = open_input(stdout, stderr, WORDS)
    view = ChatLines(stdout) if as_json else ChatScreen(stdout, color=color, echo=not lines.by_person)
    with Background() as background:
        setting, _ = read_args(chosen, _elicit_by(background, view, lines) if lines.by_person else None)
        with LoadProgress(stderr, color=color, quiet=not lines.by_person) as loading:
            ready = background.hold(open_setting(setting, loading))
        memory = _memory(kept, ready, background)
        conversation = Conversation(background, ready, memory, view, lines)
        known = conversation.resume()
        if lines.by_person:
            stderr.write(_greeting(ready, known, chosen.memory or "its memory"))
        return _Chat(conversation, view, lines, stderr).until_left()


def _elicit_by(background: Background, view: ChatView, lines: LineInput) -> Elicit:
    def ask(asked: Elicitation) -> ElicitAnswer:
        from fxai.cli.form import fill_form

        view.show_question(asked)
        return fill_form(asked, lines)

    return lambda asked: background.here(lambda: ask(asked))


def _memory(chosen: Memory | None, ready: OpenSetting, background: Background) -> Memory:
    own = ready.agent.remembering
    if chosen is not None or own is None:
        return Memory.in_process() if chosen is None else chosen
    memory = background.value_of(own.opened().provide_context(ready.services))
    if own.auto_append:
        return memory
    kept = Memory.in_process()  # it is read, and never written
    background.value_of(memory.load().flat_map(kept.commit))
    return kept


def _greeting(ready: OpenSetting, known: int, where: str) -> str:
    tools = len(ready.tools.toolkit)
    said = f"{ready.name}: {tools} tool{'s' * (tools != 1)}; /help shows what can be typed"
    return said + (f"; it goes on from {known} messages in {where}\n" if known else "\n")


@final
class _Chat:
    """One chat, from its first line to its last."""

    def __init__(self, conversation: Conversation, view: ChatView, lines: LineInput, stderr: TextIO) -> None:
        self._conversation = conversation
        self._view = view
        self._lines = lines
        self._err = stderr

    def until_left(self) -> bool:
        """Reads and answers until the end; whether all was well."""
        well = True
        while True:
            try:
                text = read_entry(self._lines)
            except KeyboardInterrupt:
                if not self._lines.by_person:
                    raise CliError("interrupted", "", code=INTERRUPTED) from None
                text = None
            if text is None:
                return well or self._lines.by_person
            if text.strip():
                self._lines.keep(text)
                command, trouble = self._handle(text)
                if command == "exit":
                    return well or self._lines.by_person
                well = well and trouble is None

    def _handle(self, text: str) -> tuple[str | None, CliError | None]:
        """Handles an entry; gives the slash command, if it was one, and the error, if there was one."""
        try:
            command = slash_command(text)
            trouble = self._conversation.say(text.strip()) if command is None else self._run_slash_command(command)
        except CliError as wrong:
            if wrong.code != WRONG_USE:
                raise
            command, trouble = None, wrong
        if trouble is not None:
            self._report(trouble)
        return command, trouble

    def _run_slash_command(self, command: str) -> CliError | None:
        try:
            match command:
                case "help":
                    self._view.show_help()
                case "tools":
                    self._view.show_tools(self._conversation.tools())
                case "history":
                    self._view.show_history(self._conversation.history())
                case "clear":
                    self._conversation.forget()
                    self._view.show_cleared()
                case _:
                    pass
        except CliError as trouble:
            if trouble.is_last or trouble.code == INTERRUPTED:
                raise
            return trouble
        return None

    def _report(self, trouble: CliError) -> None:
        if trouble.code != INTERRUPTED:
            self._err.write(f"fxai: {trouble}\n")
        elif self._lines.by_person:
            self._err.write("fxai: stopped; the conversation is as it was before\n")
        else:
            raise trouble
        self._err.flush()
