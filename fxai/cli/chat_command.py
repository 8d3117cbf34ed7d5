"""The command `fxai chat`.

>>> chat_command.name
'chat'
"""

from __future__ import annotations

from typing import Any, Final

import click

from fxai.cli import option
from fxai.cli.ending import ended

__all__ = ["chat_command"]

_MORE: Final = """\b
Examples:
  fxai chat
  fxai chat --model openai:gpt-5.5 --memory notes.jsonl
  fxai chat --agent app.py:agent --layer app.py:live
  fxai chat --mcp "uvx mcp-server-git" --mcp "time=uvx mcp-server-time"
  printf 'Hello\\nWho are you?\\n' | fxai chat --json

In a terminal: /help shows what else can be typed. Ctrl-C stops an answer, and the conversation is as it was before;
where nothing is being answered it leaves, as Ctrl-D and /exit do. A call that asks for approval is shown with what it
would be run with, and runs only if you say so: an agent's own tools say themselves whether they ask, those of --mcp
ask unless their server marks them read-only, or --yes is given.

Piped in, each line is said in turn. Where a call asks for approval, the next line is /approve or /deny [REASON]; any
other line denies it, and is said next.

Exit codes: 0 it was left, 1 it could not begin, or an answer to a piped line failed, 2 wrong use, 130 stopped.
"""


@click.command("chat", cls=option.Command, epilog=_MORE)
@option.agent_options
@click.option("--json", "as_json", is_flag=True, help="One JSON object a line, as fxai run --json, for each answer.")
@option.color
@option.debug
def chat_command(as_json: bool, color: bool | None, debug: bool, **chosen: Any) -> None:
    """Talk with an agent: its answers, calls and results as they come.

    Without --agent it is the example agent; with --mcp or --system, an agent with nothing else.
    """

    def work(out: Any, err: Any) -> bool:
        from fxai.cli.asking import Chosen
        from fxai.cli.chatting import chat

        return chat(Chosen(**chosen), out, err, as_json=as_json, color=color)

    ended(work, as_json=as_json, debug=debug, closing={"type": "done"})
