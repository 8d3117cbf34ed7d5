"""Approval over MCP: the person behind the client is asked before a call runs that needs it.

The protocols until 2025-11-25 let the server ask while the call waits (`elicitation/create`). Since 2026-07-28 the call
is answered with the question, and the client calls again with the answer. What it brings back with it is sealed, bound
to tool and arguments by the SDK, and opens one call, once. Whoever cannot be asked is refused.
"""

from __future__ import annotations

import secrets
from typing import Any, Final, TypeAlias, final

import anyio
from mcp.server.context import ServerRequestContext
from mcp.shared.exceptions import MCPError
from mcp_types import CallToolRequestParams, ElicitResult
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from pydantic import ValidationError

from fxai.schema.display import in_line
from fxai.tools.annotations import Title
from fxai.tools.failure import ApprovalExpired, ApprovalUnavailable, Denied
from fxai.tools.tool import AnyTool

__all__ = ["Approvals", "Refusal"]

Refusal: TypeAlias = Denied | ApprovalExpired | ApprovalUnavailable
"""Why a call is not run: somebody said no, nobody answered in time, or nobody could be asked."""

_KEY: Final = "approval"
_ANSWER: Final = "approve"
_MOST: Final = 4096  # questions that wait for answers; the oldest is given up for one more
_FORM: Final[dict[str, Any]] = {
    "type": "object",
    "properties": {_ANSWER: {"type": "boolean", "title": "Run it", "description": "Whether the call may run"}},
    "required": [_ANSWER],
}
_NOBODY: Final = "it needs a person's approval, and this client offers no way to ask one (elicitation by a form)"
_NO: Final = "it needs a person's approval, which was not given"
_LATE: Final = "it needs a person's approval, and nobody answered in time; nobody denied it either"


@final
class Approvals:
    """Asks for approval, and knows which questions are open."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._open: dict[str, None] = {}  # by what the question was sealed with, oldest first

    async def settle(
        self, ctx: ServerRequestContext[Any, Any], params: CallToolRequestParams, tool: AnyTool
    ) -> dict[str, Any] | Refusal | None:
        """None where the call is approved; else why it is not, or the answer by which the client is to ask."""
        is_modern = ctx.protocol_version in MODERN_PROTOCOL_VERSIONS
        if not _can_be_asked(ctx, is_modern=is_modern):
            return ApprovalUnavailable(tool.name, _NOBODY)
        question = _question(tool, params)
        if not is_modern:
            return await self._wait(ctx, tool, question)

        if params.request_state is not None and params.request_state in self._open:
            del self._open[params.request_state]
            return _verdict(tool, (params.input_responses or {}).get(_KEY))
        return self._ask(question)

    def _ask(self, question: str) -> dict[str, Any]:
        state = secrets.token_urlsafe(16)
        while len(self._open) >= _MOST:
            del self._open[next(iter(self._open))]
        self._open[state] = None
        asked = {"mode": "form", "message": question, "requestedSchema": _FORM}
        return {
            "resultType": "input_required",
            "inputRequests": {_KEY: {"method": "elicitation/create", "params": asked}},
            "requestState": state,
        }

    async def _wait(self, ctx: ServerRequestContext[Any, Any], tool: AnyTool, question: str) -> Refusal | None:
        answer: ElicitResult | None = None
        with anyio.move_on_after(self._seconds) as waited:
            try:
                answer = await ctx.session.elicit_form(question, _FORM, related_request_id=ctx.request_id)
            except (MCPError, ValidationError):
                return ApprovalUnavailable(tool.name, _NOBODY)
        return ApprovalExpired(tool.name, _LATE) if waited.cancelled_caught else _verdict(tool, answer)


def _can_be_asked(ctx: ServerRequestContext[Any, Any], *, is_modern: bool) -> bool:
    capabilities = ctx.session.client_capabilities
    elicitation = None if capabilities is None else capabilities.elicitation
    if elicitation is None or (elicitation.form is None and elicitation.url is not None):
        return False
    return is_modern or ctx.session.can_send_request


def _question(tool: AnyTool, params: CallToolRequestParams) -> str:
    title = tool.get(Title)
    called = f"{title} ({tool.name})" if title else tool.name
    return f"May the tool {called} run with these arguments? {in_line(params.arguments or {}, compact=True)}"


def _verdict(tool: AnyTool, answer: Any) -> Denied | None:
    is_yes = isinstance(answer, ElicitResult) and answer.action == "accept" and (answer.content or {}).get(_ANSWER)
    return None if is_yes is True else Denied(tool.name, _NO)
