"""The command `fxai chat`. Use it to send each line to an agent or to run it as a slash command.

>>> slash_command("/tools"), slash_command("/etc/hosts: what is it?")
('tools', None)

A turn can take several runs. If calls need approval, the chat asks the user and continues the turn. A draft stores the
messages of the turn until it ends. If the user stops a turn, the chat stores its messages and marks its open calls as
stopped. If a turn fails, the chat leaves the conversation unchanged.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Generator, Iterable
from contextlib import contextmanager
from difflib import get_close_matches
from threading import Lock
from typing import TYPE_CHECKING, Any, Final, TextIO, TypeAlias, final

import msgspec
from typing_extensions import override

from fxai.agents import Inbox, InboxMessage, Memory
from fxai.agents.draft import Draft
from fxai.cli.chat_keeper import (
    Keeper,
    StoreKeeper,
    choose_conversation,
    conversation_lines,
    list_conversations,
    store_at,
)
from fxai.cli.exit import HUNG_UP, INTERRUPTED, TERMINATED, WRONG_USE, CliError, interruption, wrong_use
from fxai.cli.input import Consent, LineInput, fill_form, open_input, read_entry, with_typing
from fxai.cli.prompt_view import FirstStep, first_step
from fxai.cli.run_program import BackgroundRunner
from fxai.cli.screen import JsonLines, LoadProgress, Presenter, Record, TerminalScreen, state_data
from fxai.cli.setting import OpenSetting, StateMemory, close_calls, closing_result, find_memory, open_setting, read_args
from fxai.effects import EffectOf, Gen, fx
from fxai.messages import Pending, Prompt, StreamPart, ToolMessage
from fxai.schema.display import in_line, indent_json, json_line, one_line, quote_name, squeeze
from fxai.tools import AnyTool
from fxai.ui.request import LATE_ANSWER

if TYPE_CHECKING:
    from fxai.agents.state import PromptState
    from fxai.mcp.settings import Elicit, ElicitAnswer, Elicitation

COMMANDS: Final = {
    "help": "show this help",
    "tools": "show the tools of the model",
    "history": "show the conversation",
    "state": "show the state of the agent's prompt",
    "clear": "delete the conversation and the state",
    "exit": "leave the chat; you can also press Ctrl-D, or Ctrl-C if no answer is running",
}
"""The slash commands, and their descriptions."""
WORDS: Final = tuple(f"/{name}" for name in COMMANDS)
"""The slash commands with their slash."""
HELP: Final = (
    *(f"/{name:<8} {states}" for name, states in COMMANDS.items()),
    "",
    "Ctrl-C stops an answer. The chat stores the messages so far and marks open calls as stopped.",
    'To continue a line, end it with \\. To write a block of lines, put """ on the line before and after it.',
    "To send a line that starts with a slash to the model, put a space before it.",
)
"""The output of `/help`."""

_TYPED: Final = re.compile(r"/([A-Za-z]+)(\s.*)?", re.DOTALL)
_OTHER_NAMES: Final = {"quit": "exit", "q": "exit", "h": "help"}
_FOR_MODEL: Final = "To send it to the model, put a space before it."


def slash_command(text: str) -> str | None:
    """Return the slash command, or None if the text is for the model. Raise `CliError` if the command is invalid."""
    found = _TYPED.fullmatch(text)
    if found is None:
        return None
    name, more = _OTHER_NAMES.get(found[1].lower(), found[1].lower()), (found[2] or "").strip()
    if name in ("approve", "deny", "answer"):
        raise wrong_use(f"no call is pending for /{name}", f"The model received nothing. {_FOR_MODEL}")
    if name in COMMANDS and not more:
        return name
    if name in COMMANDS:
        raise wrong_use(f"/{name} accepts no arguments", f"Type /{name} alone. {_FOR_MODEL}")
    if more:
        return None
    near = get_close_matches(name, COMMANDS, n=1)
    remedy = f"Did you mean /{near[0]}?" if near else "Type /help to see the commands."
    raise wrong_use(f"unknown command /{name}", f"{remedy} {_FOR_MODEL}")


_MOST_LINES: Final = 16


@final
class ChatScreen(TerminalScreen):
    """A chat view for people."""

    def __init__(self, stdout: TextIO, *, color: bool | None = None, echo: bool = False) -> None:
        """Write to `stdout`. With `echo`, show prompts also, because the user did not type them in the terminal."""
        super().__init__(stdout, color=color, numbered=False)
        self._echo = echo

    @override
    def start(self, agent: str, prompt: str) -> None:
        if self._echo:
            super().start(agent, prompt)

    @override
    def part(self, part: StreamPart, turn: int) -> None:
        """Show a part of the answer. The chat asks for approvals after the end of the turn."""
        if part.type != "tool-approval-request":
            super().part(part, turn)

    def show_pending(self, waiting: Pending) -> None:
        """Show the call with all its arguments."""
        shown = "needs your approval" if waiting.approval_id is not None else "needs a result from you"
        self._print(f"  ? {quote_name(waiting.name)} ", style="bold yellow", end="")
        self._print(shown, style="yellow")
        lines = squeeze(indent_json(waiting.params)).splitlines()
        self._print("\n".join(f"    {line}" for line in lines))
        if len(lines) > _MOST_LINES or sum(map(len, lines)) > 1000:
            size = f"{len(lines)} lines" if len(lines) > _MOST_LINES else f"{sum(map(len, lines)):,} characters"
            self._print(f"    these are {size}. Make sure that you have seen the first of them.", style="yellow")

    def show_question(self, asked: Elicitation) -> None:
        """Show the server, its question, and the URL of the question, if it has one."""
        self.end_line()
        self._print(f"  ? server {quote_name(asked.server)} asks: ", style="bold yellow", end="")
        self._print(one_line(asked.message))
        if asked.url is not None:
            self._print(f"    {one_line(asked.url, 4000)}")

    def show(self, _: dict[str, Any], lines: Iterable[str], style: str = "dim", /) -> None:
        """Show the lines."""
        for line in lines:
            self._print(f"  {line}".rstrip(), style=style)


@final
class ChatLines(JsonLines):
    """A chat view for programs. It writes answers like `fxai run --json`, and one JSON object for each other event."""

    def show_pending(self, waiting: Pending) -> None:
        """Write a question. The next line of input answers it."""
        about = "result" if waiting.approval_id is None else "approval"
        asked = {"about": about, "id": waiting.id, "name": waiting.name, "params": waiting.params}
        self._write({"type": "question", **asked})

    def show_question(self, asked: Elicitation) -> None:
        """Write a question. The next lines of input answer it."""
        shown = {"server": asked.server, "message": asked.message, "schema": dict(asked.schema), "url": asked.url}
        self._write({"type": "question", "about": "form", **shown})

    def show(self, data: dict[str, Any], _: Iterable[str], _style: str = "", /) -> None:
        """Write the data."""
        self._write(data)


ChatView: TypeAlias = ChatScreen | ChatLines
"""A view of a chat. It shows answers as they arrive, questions, and the output of slash commands."""


def show_tools(view: ChatView, tools: tuple[AnyTool, ...]) -> None:
    """Show each tool on one line."""
    asks = {tool.name: tool.needs_approval is not False for tool in tools}
    data = [{"name": tool.name, "description": tool.description, "asks": asks[tool.name]} for tool in tools]
    wide = max((len(one_line(tool.name)) for tool in tools), default=0)
    lines = [
        f"{one_line(tool.name):<{wide}}  {'approval  ' * asks[tool.name]}{one_line(tool.description or '', 160)}"
        for tool in tools
    ]
    view.show({"type": "tools", "tools": data}, lines or ["no tools"], "")


def show_history(view: ChatView, history: Prompt) -> None:
    """Show the role of each message and its text, indented."""
    lines: list[str] = []
    for message in history:
        first, *rest = [one_line(line, 2000) for line in str(Prompt((message,))).splitlines()] or [""]
        lines += [first, *(f"  {line}" for line in rest)]
    view.show({"type": "history", "messages": history.to_data()}, lines or ["no messages"])


def show_state(view: ChatView, state: PromptState | None) -> None:
    """Show each value of the state on one line."""
    values = None if state is None else state_data(state)
    lines = [f"{one_line(key)}: {in_line(value)}" for key, value in (values or {}).items()]
    none = "the agent has no stateful prompt" if values is None else "no values"
    view.show({"type": "state", "state": values}, lines or [none])


_STOPPED: Final = "the user stopped it"
_CUT: Final = "The last answer is incomplete because its process ended. The chat stored your message."


@final
class ChatSession:
    """A conversation with an agent, from its first to its last line. Its programs run in the background."""

    def __init__(self, background: BackgroundRunner, ready: OpenSetting, keeper: Keeper, calm: CalmView) -> None:
        self._value_of = background.value_of
        self._ready = ready
        self._keeper = keeper
        self._memory = keeper.memory
        self._calm = calm
        self._lines = calm.lines
        self._is_kept = False  # True if the chat stored messages of the turn that was stopped last
        self._consent = Consent(calm.lines, calm.view.show_pending, self._refuse)

    def _refuse(self, reason: str) -> None:
        self._calm.view.show({"type": "refused", "message": reason}, [f"! {one_line(reason)}"], "yellow")

    def greeting(self, where: str) -> str:
        """Return the first lines for the user. `where` names the store of the conversation."""
        tools, known = len(self._value_of(self.tools())), len(self._value_of(self._memory.load()))
        added = f"{self._ready.agent.name}: {tools} tool{'s' * (tools != 1)}. Type /help to see the commands."
        if not known:
            return f"{added}\n"
        is_cut = False
        if isinstance(self._keeper, StoreKeeper):
            where, is_cut = self._keeper.describe()
        return f"{added} Continuing from {known} messages in {where}.\n" + f"{_CUT}\n" * is_cut

    def take_up(self) -> bool:
        """Ask about the pending calls of earlier turns, and continue. Return True if everything succeeded.

        If the user does not answer an approval of an earlier turn, it stays open.
        """
        before = self._value_of(self._memory.load())
        trouble = self._answer("", lambda draft: self._ask(before.pending, draft)) if before.pending else None
        if trouble is None:
            self._is_kept = False
            try:
                answers = [self._consent.answer(one) for one in self._keeper.left_open]
            except KeyboardInterrupt:
                answers, trouble = [], interruption()
            given = [one for one in answers if one.type == "tool-approval-response" and one.unanswered is None]
            if given:
                late = Prompt((ToolMessage.make(*given),))
                trouble = self._answer("", lambda _: Prompt.make(LATE_ANSWER), late)
        if trouble is not None:
            self._report(trouble)
        return trouble is None

    def until_left(self) -> bool:
        """Read and answer entries until the input ends. Return True if every answer succeeded."""
        well = True
        while True:
            try:
                text = read_entry(self._lines)
            except KeyboardInterrupt:
                if not self._lines.by_person:
                    raise interruption() from None
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
        """Handle an entry and return its slash command, or None, and its error, or None."""
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
        view = self._calm.view
        try:
            match command:
                case "help":
                    view.show({"type": "help", "commands": COMMANDS}, HELP)
                case "tools":
                    show_tools(view, self._value_of(self.tools()))
                case "state":
                    first = self._value_of(self._first())
                    show_state(view, None if first is None else first[1])
                case "history":
                    show_history(view, self._value_of(self._memory.load()))
                case "clear":
                    self._value_of(self._memory.clear())
                    view.show({"type": "cleared"}, ["the conversation was deleted"])
                case _:
                    pass
        except CliError as trouble:
            if trouble.is_last or trouble.code == INTERRUPTED:
                raise
            return trouble
        return None

    @fx.gen
    def tools(self) -> Gen[tuple[AnyTool, ...], Any]:
        """Return the tools that the next request would offer to the model."""
        now = yield from self._ready.tools.now
        tools: tuple[AnyTool, ...] = now.toolkit.as_tuple
        first = yield from self._first()
        more = () if first is None else tuple(one.tool for one in first[0].tools.values())
        return (*tools, *(tool for tool in more if tool not in tools))

    @fx.gen
    def _first(self) -> Gen[FirstStep | None, Any]:
        """Return the first step of the next turn, or None for an agent without a stateful prompt."""
        return first_step(self._ready.agent, (yield from self._memory.load_state()))

    def _report(self, trouble: CliError) -> None:
        if trouble.code != INTERRUPTED:
            self._calm.err.write(f"fxai: {trouble}\n")
        elif self._lines.by_person:
            left = "The messages of this turn are stored." if self._is_kept else "The conversation is unchanged."
            self._calm.err.write(f"fxai: stopped. {left}\n")
        else:
            raise trouble

    def say(self, text: str) -> CliError | None:
        """Send a prompt and show the answer. Return its error, or None. Raise errors that end the process."""
        return self._answer(text, lambda _: Prompt.make(text))

    def _answer(self, text: str, first: Callable[[Draft], Prompt], late: Prompt = Prompt.empty) -> CliError | None:
        record = Record(self._calm)
        record.start(self._ready.agent.name, text)
        try:
            self._turn(first, record, late)
        except CliError as stopped:
            if stopped.is_last:
                raise
            record.end(stopped)
            return stopped
        record.end()
        return None

    def _turn(self, first: Callable[[Draft], Prompt], record: Record, late: Prompt) -> None:
        draft = Draft(self._value_of(self._memory.load()), self._value_of(self._memory.load_state()), late)
        added, waiting = first(draft), True
        while waiting:
            self._keeper.start(added, late)
            late = Prompt.empty
            try:
                self._value_of(self._run(added, draft, record))
            except CliError as trouble:
                self._stop(draft, trouble)
                raise
            pending = draft.messages.pending
            waiting = bool(pending)
            self._keeper.end(draft, "pending" if waiting else "done")
            if waiting:
                added = self._ask(pending, draft)
        record.state = draft.state

    def _ask(self, pending: tuple[Pending, ...], draft: Draft) -> Prompt:
        """Return the user's answers. If the user presses Ctrl-C instead, stop all these calls without running any."""
        try:
            return Prompt((ToolMessage.make(*map(self._consent.answer, pending)),))
        except (KeyboardInterrupt, CliError) as cut:
            trouble = cut if isinstance(cut, CliError) else interruption()
            if trouble.code == INTERRUPTED:  # otherwise the calls stay open, and a resumed chat asks again
                left = Prompt((ToolMessage.make(*[closing_result(one, _STOPPED) for one in pending]),))
                self._keeper.start(left)
                draft.start(left)
                self._stop(draft, trouble)
            raise trouble from None

    def _stop(self, draft: Draft, trouble: CliError) -> None:
        """End the turn early. Store it as stopped if it has messages of the agent and did not fail."""
        self._calm.close()
        draft.stop(_STOPPED)
        is_stop = trouble.code in (INTERRUPTED, TERMINATED, HUNG_UP)
        self._is_kept = is_stop and any(message.role != "user" for message in draft.messages)
        self._keeper.end(draft, "stopped" if self._is_kept else "failed")

    def _run(self, added: Prompt, draft: Draft, record: Record) -> EffectOf[None, Any, Any]:
        parts = draft.stream(self._ready.agent, added)
        shown: EffectOf[None, Any, Any] = parts.for_each(lambda part: fx.sync(lambda: record.part(part)))
        if not self._lines.by_person:
            return shown.provide_context(self._ready.services)
        later: list[str] = []

        def join(joined: tuple[InboxMessage, ...]) -> None:
            draft.join([message for one in joined for message in one.messages])

        def hear(line: str) -> None:
            if line.startswith("/"):
                later.append(line)
                return
            fx.run_sync(inbox.steer(line))
            self._calm.err.write("fxai: the next step reads this message.\n")

        def put_back() -> None:
            for line in reversed([*(message.text for one in inbox.clear() for message in one.messages), *later]):
                self._lines.back(line)

        inbox = Inbox.in_process(on_join=join)
        typed = with_typing(shown, hear, lambda: self._calm.is_asking).on_exit(lambda _: fx.sync(put_back))
        return typed.provide_context(self._ready.services.put(Inbox, inbox))


@final
class CalmView(Presenter):
    """A presenter that delays its output while the terminal asks the user a question."""

    def __init__(self, view: ChatView, lines: LineInput, err: TextIO) -> None:
        self.view = view
        self.lines = lines
        self.err = err
        self._lock = Lock()
        self.is_asking: bool = False
        """True if the terminal asks the user a question."""
        self._held: list[tuple[StreamPart, int]] = []
        self.is_open: bool = True
        """True if a server can ask questions. It is False after the end of a turn."""

    @override
    def start(self, agent: str, prompt: str) -> None:
        """Start a run and allow questions."""
        self.is_open = True
        self.view.start(agent, prompt)

    @override
    def part(self, part: StreamPart, turn: int) -> None:
        """Show a part of this turn, or keep it until the question is answered. Any thread can call this method."""
        with self._lock:
            if self.is_asking:
                self._held.append((part, turn))
            else:
                self.view.part(part, turn)

    @override
    def end(self, run: Record) -> None:
        """End the run and refuse further questions."""
        self.close()
        self.view.end(run)

    def close(self) -> None:
        """Refuse further questions of servers."""
        self.is_open = False

    @contextmanager
    def asking(self) -> Generator[None]:
        """Delay all output during the block, while the terminal asks the user."""
        with self._lock:
            self.is_asking = True
        try:
            yield
        finally:
            with self._lock:
                self.is_asking = False
                held, self._held = self._held, []
                for part, turn in held:
                    self.view.part(part, turn)


def chat(
    out: TextIO,
    err: TextIO,
    *,
    store: str | None = None,
    resume: str | None = None,
    as_json: bool = False,
    color: bool | None = None,
    memory: str | None = None,
    **chosen: Any,
) -> bool:
    """Run a chat until the user leaves. Return False if an answer to piped input failed.

    The chat stores the conversation in the chosen memory, otherwise in the memory of the agent, otherwise in a store.
    In a terminal, the store has a default. The chat stores the state of a stateful prompt with the conversation, and
    also in the chosen file. `chosen` are parameters of `read_args`.
    """
    wants_store = store is not None or resume is not None
    if memory is not None and wants_store:
        raise wrong_use("--memory cannot be used with --store or --resume", "Remove one of them.")
    lines = open_input(out, err, WORDS)
    view = ChatLines(out) if as_json else ChatScreen(out, color=color, echo=not lines.by_person)
    calm = CalmView(view, lines, err)
    with BackgroundRunner() as background:
        elicit = _elicit_by(background, calm) if lines.by_person else None
        setting, _ = read_args(memory=memory, elicit=elicit, **chosen)
        kept = setting.memory
        stores = wants_store or (lines.by_person and kept is None)
        stored: StoreKeeper | None = None
        if stores:
            conversations, found = store_at(store), None
            if resume is not None:
                found = choose_conversation(list_conversations(background, conversations), resume.strip())
            stored = StoreKeeper(background, conversations, found, setting.state)
        source = StateMemory(kept or Memory.in_process(), setting.state) if stored is None else stored.memory
        with LoadProgress(err, color=color, quiet=not lines.by_person) as loading:
            ready = background.hold(open_setting(setting, loading, background.value_of(source.load_state())))
        own = background.value_of(find_memory(ready, kept))
        keeper: Keeper
        if own is None and stored is not None:
            keeper, ready = stored, background.value_of(stored.with_key(ready))
        elif wants_store:
            added = f"agent {ready.agent.name!r} stores the conversation in its own memory"
            raise wrong_use(added, "Remove --store and --resume.")
        else:
            keeper = Keeper(background, StateMemory(own or Memory.in_process(), setting.state))
            background.value_of(close_calls(keeper.memory))
        talk = ChatSession(background, ready, keeper, calm)
        if lines.by_person:
            err.write(talk.greeting(memory or "its memory"))
        well = talk.take_up()
        return talk.until_left() and (well or lines.by_person)


def list_chats(out: TextIO, store: str | None, *, as_json: bool) -> bool:
    """Write the stored conversations, most recently changed first."""
    with BackgroundRunner() as background:
        known = list_conversations(background, store_at(store))
    if as_json:
        out.write(json_line({"conversations": msgspec.to_builtins(known)}))
    else:
        out.writelines(f"{line}\n" for line in conversation_lines(known) or ["no conversations"])
    return True


def _elicit_by(background: BackgroundRunner, calm: CalmView) -> Elicit:
    """Return a function that asks the user the questions of servers, one at a time."""

    def cancel() -> ElicitAnswer:
        from fxai.mcp.settings import ElicitAnswer

        return ElicitAnswer("cancel")

    def ask(asked: Elicitation) -> ElicitAnswer:
        if not calm.is_open:
            return cancel()
        with calm.asking():
            calm.view.show_question(asked)
            return fill_form(asked, calm.lines)

    def elicit(asked: Elicitation) -> EffectOf[ElicitAnswer]:
        return background.here(lambda: ask(asked), cancel) if calm.is_open else fx.succeed(cancel())

    return elicit
