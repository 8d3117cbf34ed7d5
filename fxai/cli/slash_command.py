"""Slash commands: what can be typed in a chat that is not for the model.

>>> slash_command("/tools"), slash_command("/etc/hosts: what is it?")
('tools', None)
>>> slash_command("/usr is full"), slash_command("What is /tools?")
(None, None)
"""

from __future__ import annotations

import re
from difflib import get_close_matches
from typing import Final

from fxai.cli.cli_error import WRONG_USE, CliError

__all__ = ["COMMANDS", "HELP", "WORDS", "slash_command"]

COMMANDS: Final = {
    "help": "show this",
    "tools": "show the tools that the model has",
    "history": "show what was said",
    "clear": "forget what was said",
    "exit": "leave; so do Ctrl-D, and Ctrl-C where nothing is being answered",
}
"""The commands, and what they do."""
WORDS: Final = tuple(f"/{name}" for name in COMMANDS)
"""The commands as they are typed."""
HELP: Final = (
    *(f"/{name:<8} {says}" for name, says in COMMANDS.items()),
    "",
    "Ctrl-C stops an answer: the conversation is then as it was before the question.",
    'A line that ends with \\ goes on in the next; between two lines of """ there may be any number.',
    "A space before it sends a line that begins with a slash to the model.",
)
"""What `/help` shows."""

_TYPED: Final = re.compile(r"/([A-Za-z]+)(\s.*)?", re.DOTALL)
_OTHER_NAMES: Final = {"quit": "exit", "q": "exit", "h": "help"}
_FOR_MODEL: Final = "with a space before it, it is for the model"
_ANSWERS: Final = ("approve", "deny", "answer")


def slash_command(text: str) -> str | None:
    """The command that was typed; None where it is for the model.

    Raises:
        CliError: there is no such command, it says which is near; more stands behind one; or it answers a question,
            and there is none.
    """
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
