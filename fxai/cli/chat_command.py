"""The command `fxai chat`: each line goes to the agent or is a slash command, until the user leaves.

>>> import io
>>> chat(AgentArgs(system="Be brief.", memory="notes.txt"), io.StringIO(), io.StringIO())  # doctest: +ELLIPSIS
Traceback (most recent call last):
fxai.cli.exit.CliError: notes.txt does not say what kind of memory it is; ...

A turn may take several runs: where calls need approval the user is asked, and the turn goes on. A turn enters the
memory when it has ended; one that fails or is stopped leaves the conversation as it was before. Until then its messages
are in a draft.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TextIO, final

from fxai.agents.draft import Draft
from fxai.agents.memory import Memory
from fxai.cli.chat_view import WORDS, ChatLines, ChatScreen, ChatView, slash_command
from fxai.cli.exit import INTERRUPTED, WRONG_USE, CliError
from fxai.cli.input import LineInput, open_input, read_entry
from fxai.cli.job import AgentArgs, RunReport, read_args
from fxai.cli.progress import LoadProgress
from fxai.cli.prompt_view import FirstStep, first_step
from fxai.cli.question import Consent
from fxai.cli.run_program import Background
from fxai.cli.setting import OpenSetting, close_calls, find_memory, memory_at, open_setting
from fxai.cli.state_file import StateMemory
from fxai.effects import fx
from fxai.effects.effect import EffectOf, Gen
from fxai.messages.message import ToolMessage
from fxai.messages.prompt import Prompt
from fxai.tools.tool import AnyTool

if TYPE_CHECKING:
    from fxai.mcp.settings import Elicit, ElicitAnswer, Elicitation


@final
class Conversation:
    """A conversation with an agent, from its first line to its last; its programs run in the background."""

    def __init__(
        self,
        background: Background,
        ready: OpenSetting,
        memory: StateMemory,
        view: ChatView,
        lines: LineInput,
        stderr: TextIO,
    ) -> None:
        self._value_of = background.value_of
        self._ready = ready
        self._memory = memory
        self._view = view
        self._lines = lines
        self._err = stderr
        self._consent = Consent(lines, view.show_pending, view.show_refusal)

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
            trouble = self.say(text.strip()) if command is None else self._run_slash_command(command)
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
                    self._view.show_tools(self._value_of(self.tools()))
                case "state":
                    first = self._value_of(self._first())
                    self._view.show_state(None if first is None else first.state)
                case "history":
                    self._view.show_history(self._value_of(self._memory.load()))
                case "clear":
                    self._value_of(self._memory.clear())
                    self._view.show_cleared()
                case _:
                    pass
        except CliError as trouble:
            if trouble.is_last or trouble.code == INTERRUPTED:
                raise
            return trouble
        return None

    @fx.gen
    def tools(self) -> Gen[tuple[AnyTool, ...], Any]:
        """The tools that the model would be offered now."""
        now = yield from self._ready.tools.now
        tools: tuple[AnyTool, ...] = now.toolkit.as_tuple
        first = yield from self._first()
        more = () if first is None else tuple(one.tool for one in first.definitions.tools.values())
        return (*tools, *(tool for tool in more if tool not in tools))

    @fx.gen
    def _first(self) -> Gen[FirstStep | None, Any]:
        """The first step of the next turn; None for an agent without a stateful prompt."""
        return first_step(self._ready.agent, (yield from self._memory.load_state()))

    def _report(self, trouble: CliError) -> None:
        if trouble.code != INTERRUPTED:
            self._err.write(f"fxai: {trouble}\n")
        elif self._lines.by_person:
            self._err.write("fxai: stopped; the conversation is as it was before\n")
        else:
            raise trouble
        self._err.flush()

    def say(self, text: str) -> CliError | None:
        """Sends a prompt and shows the answer; gives the error that stopped it, unless it ends the process."""
        telling = RunReport(self._view)
        telling.begin(self._ready.agent.name, text)
        try:
            self._turn(text, telling)
        except KeyboardInterrupt:  # in place of an answer to a question
            trouble = CliError("interrupted", "", code=INTERRUPTED)
        except CliError as stopped:
            if stopped.is_last:
                raise
            trouble = stopped
        else:
            telling.end()
            return None
        telling.end(trouble)
        return trouble

    def _turn(self, text: str, telling: RunReport) -> None:
        draft = Draft(self._value_of(self._memory.load()), self._value_of(self._memory.load_state()))
        said = Prompt.make(text)
        while True:
            self._value_of(self._run(said, draft, telling))
            waiting = draft.messages.pending
            if not waiting:
                break
            said = Prompt((ToolMessage.make(*map(self._consent.answer, waiting)),))
        kept = self._memory.commit_with(draft.messages, draft.state).and_then(self._memory.save())
        self._value_of(kept.uninterruptible())
        telling.record.state = draft.state

    def _run(self, said: Prompt, draft: Draft, telling: RunReport) -> EffectOf[None, Any, Any]:
        parts = draft.stream(self._ready.agent, said)
        shown: EffectOf[None, Any, Any] = parts.for_each(lambda part: fx.sync(lambda: telling.part(part)))
        return shown.provide_context(self._ready.services)


def chat(
    chosen: AgentArgs, stdout: TextIO, stderr: TextIO, *, as_json: bool = False, color: bool | None = None
) -> bool:
    """Talks until the user leaves; False where input was piped in and an answer failed.

    The conversation is kept in the chosen memory; else in the agent's own, if it has one. The state of a stateful
    prompt is kept with it, and in the chosen file.
    """
    kept = None if chosen.memory is None else memory_at(chosen.memory)
    lines = open_input(stdout, stderr, WORDS)
    view = ChatLines(stdout) if as_json else ChatScreen(stdout, color=color, echo=not lines.by_person)
    with Background() as background:
        setting, _ = read_args(chosen, _elicit_by(background, view, lines) if lines.by_person else None)
        with LoadProgress(stderr, color=color, quiet=not lines.by_person) as loading:
            begun = background.value_of(StateMemory(kept or Memory.in_process(), setting.state).load_state())
            ready = background.hold(open_setting(setting, loading, begun))
        own = background.value_of(find_memory(ready, kept))
        memory = StateMemory(own or Memory.in_process(), setting.state)
        known = len(background.value_of(close_calls(memory)))
        talk = Conversation(background, ready, memory, view, lines, stderr)
        if lines.by_person:
            tools = len(background.value_of(talk.tools()))
            stderr.write(_greeting(ready.agent.name, tools, known, chosen.memory or "its memory"))
        return talk.until_left()


def _elicit_by(background: Background, view: ChatView, lines: LineInput) -> Elicit:
    def ask(asked: Elicitation) -> ElicitAnswer:
        from fxai.cli.question import fill_form

        view.show_question(asked)
        return fill_form(asked, lines)

    return lambda asked: background.here(lambda: ask(asked))


def _greeting(name: str, tools: int, known: int, where: str) -> str:
    said = f"{name}: {tools} tool{'s' * (tools != 1)}; /help shows what can be typed"
    return said + (f"; it goes on from {known} messages in {where}\n" if known else "\n")
