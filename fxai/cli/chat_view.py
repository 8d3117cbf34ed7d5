r"""Views of a chat: text for people, or JSON lines for programs; and the slash commands that can be typed in it.

>>> import io
>>> out = io.StringIO()
>>> view = ChatLines(out)
>>> view.show_pending(Pending("c1", "wipe", {"disk": "a"}, "a1"))
>>> print(out.getvalue(), end="")
{"type":"question","about":"approval","id":"c1","name":"wipe","params":{"disk":"a"}}
>>> slash_command("/tools"), slash_command("/etc/hosts: what is it?")
('tools', None)
"""

from __future__ import annotations

import re
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any, Final, Protocol, TextIO, final

from typing_extensions import override

from fxai.cli.exit import WRONG_USE, CliError
from fxai.cli.job import Presenter
from fxai.cli.output import JsonLines
from fxai.cli.screen import Screen
from fxai.cli.state_file import state_data
from fxai.messages.calls import Pending
from fxai.messages.part import StreamPart
from fxai.messages.prompt import Prompt
from fxai.schema.display import in_line, indent_json, one_line, quote_name, squeeze
from fxai.tools.tool import AnyTool

if TYPE_CHECKING:
    from fxai.agents.state import PromptState
    from fxai.mcp.settings import Elicitation

COMMANDS: Final = {
    "help": "show this",
    "tools": "show the tools that the model has",
    "history": "show what was said",
    "state": "show the state of the agent's prompt",
    "clear": "forget what was said, and the state",
    "exit": "leave; so do Ctrl-D, and Ctrl-C where nothing is being answered",
}
"""The commands, and what they do."""
WORDS: Final = tuple(f"/{name}" for name in COMMANDS)
"""The commands as they are typed."""
HELP: Final = (
    *(f"/{name:<8} {says}" for name, says in COMMANDS.items()),
    "",
    "Ctrl-C stops an answer: what came of it is kept, and its open calls as stopped.",
    'A line that ends with \\ goes on in the next; between two lines of """ there may be any number.',
    "A space before it sends a line that begins with a slash to the model.",
)
"""What `/help` shows."""

_TYPED: Final = re.compile(r"/([A-Za-z]+)(\s.*)?", re.DOTALL)
_OTHER_NAMES: Final = {"quit": "exit", "q": "exit", "h": "help"}
_FOR_MODEL: Final = "with a space before it, it is for the model"
_ANSWERS: Final = ("approve", "deny", "answer")


def slash_command(text: str) -> str | None:
    """The command that was typed; None where it is for the model. A misspelt or a misplaced command is an error."""
    found = _TYPED.fullmatch(text)
    if found is None:
        return None
    name, more = _OTHER_NAMES.get(found[1].lower(), found[1].lower()), (found[2] or "").strip()
    if name in _ANSWERS:
        raise CliError(f"no call waits for /{name}", f"nothing was said to the model; {_FOR_MODEL}", code=WRONG_USE)
    if name in COMMANDS and not more:
        return name
    if name in COMMANDS:
        raise CliError(f"/{name} takes nothing more", f"say /{name} alone; {_FOR_MODEL}", code=WRONG_USE)
    if more:
        return None
    near = get_close_matches(name, COMMANDS, n=1)
    remedy = f"did you mean /{near[0]}" if near else "/help shows what there is"
    raise CliError(f"there is no command /{name}", f"{remedy}; {_FOR_MODEL}", code=WRONG_USE)


_MOST_LINES: Final = 16
_MOST_CHARACTERS: Final = 1000


class ChatView(Presenter, Protocol):
    """Shows a chat: answers as they come, questions, and the output of slash commands."""

    def show_pending(self, waiting: Pending) -> None:
        """A call waits for approval or for a result."""

    def show_question(self, asked: Elicitation) -> None:
        """An MCP server asks the user a question."""

    def show_refusal(self, reason: str) -> None:
        """The reply to a question was not valid."""

    def show_help(self) -> None:
        """Shows the slash commands."""

    def show_tools(self, tools: tuple[AnyTool, ...]) -> None:
        """Shows the tools."""

    def show_history(self, history: Prompt) -> None:
        """Shows the conversation so far."""

    def show_state(self, state: PromptState | None) -> None:
        """Shows the state of a stateful prompt; None: the agent has no such prompt."""

    def show_cleared(self) -> None:
        """The conversation was cleared."""


@final
class ChatScreen(Screen):
    """A chat for people."""

    def __init__(self, stdout: TextIO, *, color: bool | None = None, echo: bool = False) -> None:
        """Writes to `stdout`; with `echo` it shows prompts too, for input that was not typed in the terminal."""
        super().__init__(stdout, color=color, numbered=False)
        self._echo = echo

    @override
    def begin(self, agent: str, prompt: str) -> None:
        """Shows the prompt, with `echo`."""
        if self._echo:
            super().begin(agent, prompt)

    @override
    def part(self, part: StreamPart, turn: int) -> None:
        """Shows a part of the answer; approvals are asked for when the turn has ended."""
        if part.type != "tool-approval-request":
            super().part(part, turn)

    def show_pending(self, waiting: Pending) -> None:
        """Shows the call with all its parameters."""
        said = "waits to be approved" if waiting.approval_id is not None else "is for you to run"
        self._print(f"  ? {quote_name(waiting.name)} ", style="bold yellow", end="")
        self._print(said, style="yellow")
        lines = squeeze(indent_json(waiting.params)).splitlines()
        self._print("\n".join(f"    {line}" for line in lines))
        if len(lines) > _MOST_LINES or sum(map(len, lines)) > _MOST_CHARACTERS:
            size = f"{len(lines)} lines" if len(lines) > _MOST_LINES else f"{sum(map(len, lines)):,} characters"
            self._print(f"    this was {size}: see that you have seen the first of them", style="yellow")

    def show_question(self, asked: Elicitation) -> None:
        """Shows the server, its question, and its address, if it gives one."""
        self.end_line()
        self._print(f"  ? the server {quote_name(asked.server)} asks: ", style="bold yellow", end="")
        self._print(one_line(asked.message))
        if asked.url is not None:
            self._print(f"    {one_line(asked.url, 4000)}")

    def show_refusal(self, reason: str) -> None:
        """Shows the reason."""
        self._print(f"  ! {one_line(reason)}", style="yellow")

    def show_help(self) -> None:
        """Shows the commands."""
        self._lines(HELP)

    def show_tools(self, tools: tuple[AnyTool, ...]) -> None:
        """Shows each tool in a line."""
        wide = max((len(one_line(tool.name)) for tool in tools), default=0)
        for tool in tools:
            self._print(f"  {one_line(tool.name):<{wide}}  ", style="bold", end="")
            self._print("asks first  " if _asks(tool) else "", style="yellow", end="")
            self._print(one_line(tool.description or "", 160))
        self._lines(() if tools else ("there are no tools",))

    def show_history(self, history: Prompt) -> None:
        """Shows each message: its role, and its text, indented."""
        for message in history:
            first, *rest = [one_line(line, 2000) for line in str(Prompt((message,))).splitlines()] or [""]
            self._lines([first, *(f"  {line}" for line in rest)])
        self._lines(() if len(history) else ("nothing was said yet",))

    def show_state(self, state: PromptState | None) -> None:
        """Shows each value in a line."""
        values = {} if state is None else state_data(state)
        self._lines(f"{one_line(key)}: {in_line(value)}" for key, value in values.items())
        self._lines(("the agent has no stateful prompt",) if state is None else () if values else ("it is empty",))

    def show_cleared(self) -> None:
        """Says that the conversation was cleared."""
        self._lines(("what was said is forgotten",))

    def _lines(self, lines: Any) -> None:
        for line in lines:
            self._print(f"  {line}".rstrip(), style="dim")


@final
class ChatLines(JsonLines):
    """A chat for programs: what `fxai run --json` writes for each answer, and an object for everything else."""

    def show_pending(self, waiting: Pending) -> None:
        """Writes a question; the next line of input answers it."""
        about = "result" if waiting.approval_id is None else "approval"
        asked = {"about": about, "id": waiting.id, "name": waiting.name, "params": waiting.params}
        self._write({"type": "question", **asked})

    def show_question(self, asked: Elicitation) -> None:
        """Writes a question; the next lines of input answer it."""
        said = {"server": asked.server, "message": asked.message, "schema": dict(asked.schema), "url": asked.url}
        self._write({"type": "question", "about": "form", **said})

    def show_refusal(self, reason: str) -> None:
        """Writes the reason, with the form of a valid reply."""
        self._write({"type": "refused", "message": reason})

    def show_help(self) -> None:
        """Writes the commands."""
        self._write({"type": "help", "commands": COMMANDS})

    def show_tools(self, tools: tuple[AnyTool, ...]) -> None:
        """Writes the tools."""
        said = [{"name": tool.name, "description": tool.description, "asks": _asks(tool)} for tool in tools]
        self._write({"type": "tools", "tools": said})

    def show_history(self, history: Prompt) -> None:
        """Writes the messages."""
        self._write({"type": "history", "messages": history.to_data()})

    def show_state(self, state: PromptState | None) -> None:
        """Writes the values."""
        self._write({"type": "state", "state": None if state is None else state_data(state)})

    def show_cleared(self) -> None:
        """Writes that the conversation was cleared."""
        self._write({"type": "cleared"})


def _asks(tool: AnyTool) -> bool:
    return tool.needs_approval is not False
