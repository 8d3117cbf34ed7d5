"""Calls of a server's tools: `fxai mcp call`. What the server asks in the middle of one is asked in a terminal.

Where nobody sits there it is refused, and so is a call that needs approval.

>>> from io import StringIO
>>> from fxai.cli.trouble import Trouble
>>> try:
...     call_server("no-such-program", "add", StringIO(), StringIO(), params=None, as_json=False, wish=ServerWish())
... except Trouble as trouble:
...     print(trouble.message)
the MCP server 'no-such-program': it cannot be started by 'no-such-program'...
"""

from __future__ import annotations

from typing import TextIO

import msgspec

from fxai.cli.background import Background
from fxai.cli.calling import call_offered
from fxai.cli.chat_view import ChatScreen
from fxai.cli.form import filled
from fxai.cli.mcp_view import plain_text
from fxai.cli.offer import of_server
from fxai.cli.server_named import ServerWish
from fxai.cli.typed import typed
from fxai.cli.waiting import Waiting
from fxai.effects.effect import EffectOf
from fxai.mcp.elicitation import ElicitAnswer, Elicitation

__all__ = ["call_server"]


def call_server(
    server: str, tool: str, out: TextIO, err: TextIO, *, params: str | None, as_json: bool, wish: ServerWish
) -> bool:
    """Calls a tool of a server once, and shows what it gave.

    Raises:
        Trouble: the server cannot be opened, the parameters cannot be had, or the call failed.
    """
    lines, waiting = typed(out, err), Waiting(err, f"calling {tool}")

    def answer(asked: Elicitation) -> ElicitAnswer:
        waiting.end()
        ChatScreen(err).elicits(asked)
        return filled(asked, lines)

    with Background() as background:

        def ask(asked: Elicitation) -> EffectOf[ElicitAnswer]:
            return background.here(lambda: answer(asked))

        if lines.by_person and err.isatty():  # else the question would be seen by nobody
            wish = msgspec.structs.replace(wish, elicit=ask)
        return call_offered(
            lambda: of_server(server, wish),
            tool,
            out,
            err,
            params=params,
            as_json=as_json,
            plain=plain_text,
            waiting=waiting,
            run=background.value_of,
        )
