r"""Views of a chat and its slash commands. Use `ChatScreen` for people and `ChatLines` for other programs.

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
from typing import TYPE_CHECKING, Any, Final, TextIO, TypeAlias, final

from typing_extensions import override

from fxai.cli.exit import wrong_use
from fxai.cli.output import JsonLines, state_data
from fxai.cli.screen import TerminalScreen
from fxai.messages import Pending, Prompt, StreamPart
from fxai.schema.display import in_line, indent_json, one_line, quote_name, squeeze
from fxai.tools import AnyTool

if TYPE_CHECKING:
    from fxai.agents.state import PromptState
    from fxai.mcp.settings import Elicitation

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
_ANSWERS: Final = ("approve", "deny", "answer")


def slash_command(text: str) -> str | None:
    """Return the slash command, or None if the text is for the model. Raise `CliError` if the command is invalid."""
    found = _TYPED.fullmatch(text)
    if found is None:
        return None
    name, more = _OTHER_NAMES.get(found[1].lower(), found[1].lower()), (found[2] or "").strip()
    if name in _ANSWERS:
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
_MOST_CHARACTERS: Final = 1000


@final
class ChatScreen(TerminalScreen):
    """A chat view for people."""

    def __init__(self, stdout: TextIO, *, color: bool | None = None, echo: bool = False) -> None:
        """Write to `stdout`. With `echo`, show prompts also, because the user did not type them in the terminal."""
        super().__init__(stdout, color=color, numbered=False)
        self._echo = echo

    @override
    def start(self, agent: str, prompt: str) -> None:
        """Show the prompt if `echo` is true."""
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
        if len(lines) > _MOST_LINES or sum(map(len, lines)) > _MOST_CHARACTERS:
            size = f"{len(lines)} lines" if len(lines) > _MOST_LINES else f"{sum(map(len, lines)):,} characters"
            self._print(f"    these are {size}. Make sure that you have seen the first of them.", style="yellow")

    def show_question(self, asked: Elicitation) -> None:
        """Show the server, its question, and the URL of the question, if it has one."""
        self.end_line()
        self._print(f"  ? server {quote_name(asked.server)} asks: ", style="bold yellow", end="")
        self._print(one_line(asked.message))
        if asked.url is not None:
            self._print(f"    {one_line(asked.url, 4000)}")

    def show_refusal(self, reason: str) -> None:
        """Show the reason."""
        self._print(f"  ! {one_line(reason)}", style="yellow")

    def show_help(self) -> None:
        """Show the slash commands."""
        self._lines(HELP)

    def show_tools(self, tools: tuple[AnyTool, ...]) -> None:
        """Show each tool on one line."""
        wide = max((len(one_line(tool.name)) for tool in tools), default=0)
        for tool in tools:
            self._print(f"  {one_line(tool.name):<{wide}}  ", style="bold", end="")
            self._print("approval  " if _asks(tool) else "", style="yellow", end="")
            self._print(one_line(tool.description or "", 160))
        self._lines(() if tools else ("no tools",))

    def show_history(self, history: Prompt) -> None:
        """Show the role of each message and its text, indented."""
        for message in history:
            first, *rest = [one_line(line, 2000) for line in str(Prompt((message,))).splitlines()] or [""]
            self._lines([first, *(f"  {line}" for line in rest)])
        self._lines(() if len(history) else ("no messages",))

    def show_state(self, state: PromptState | None) -> None:
        """Show each value on one line."""
        values = {} if state is None else state_data(state)
        self._lines(f"{one_line(key)}: {in_line(value)}" for key, value in values.items())
        self._lines(("the agent has no stateful prompt",) if state is None else () if values else ("no values",))

    def show_cleared(self) -> None:
        """Show that the conversation was deleted."""
        self._lines(("the conversation was deleted",))

    def _lines(self, lines: Any) -> None:
        for line in lines:
            self._print(f"  {line}".rstrip(), style="dim")


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

    def show_refusal(self, reason: str) -> None:
        """Write the reason, which contains the form of a valid reply."""
        self._write({"type": "refused", "message": reason})

    def show_help(self) -> None:
        """Write the slash commands."""
        self._write({"type": "help", "commands": COMMANDS})

    def show_tools(self, tools: tuple[AnyTool, ...]) -> None:
        """Write the tools."""
        shown = [{"name": tool.name, "description": tool.description, "asks": _asks(tool)} for tool in tools]
        self._write({"type": "tools", "tools": shown})

    def show_history(self, history: Prompt) -> None:
        """Write the messages."""
        self._write({"type": "history", "messages": history.to_data()})

    def show_state(self, state: PromptState | None) -> None:
        """Write the values."""
        self._write({"type": "state", "state": None if state is None else state_data(state)})

    def show_cleared(self) -> None:
        """Write that the conversation was deleted."""
        self._write({"type": "cleared"})


ChatView: TypeAlias = ChatScreen | ChatLines
"""A view of a chat. It shows answers as they arrive, questions, and the output of slash commands."""


def _asks(tool: AnyTool) -> bool:
    return tool.needs_approval is not False
