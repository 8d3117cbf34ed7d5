"""What a server answers: the list of its tools, and calls of them.

Every way a call can end has one form. A success or a typed failure is a result; so are arguments that do not fit and an
approval that was not given, as a model can read results and mend its call (SEP-1303). What a client got wrong, such as
a tool that is not there, is a JSON-RPC error that says what, and a bug is an internal error that says nothing, while
`on_defect` is told of it.

A call that needs approval runs only after the user of the client has been asked.

The protocols until 2025-11-25 let the server ask while the call waits (`elicitation/create`). Since 2026-07-28 the call
is answered with the question, and the client calls again with the answer. What it brings back with it is sealed, bound
to tool and arguments by the SDK, and opens one call, once. Whoever cannot be asked is refused.
"""

from __future__ import annotations

import logging
import secrets
from collections.abc import Awaitable, Callable, Generator
from contextlib import contextmanager, suppress
from typing import Any, Final, TypeAlias, cast, final

import anyio
from mcp.server.context import ServerRequestContext
from mcp.shared.exceptions import MCPError
from mcp_types import INTERNAL_ERROR, INVALID_PARAMS, CallToolRequestParams, ElicitResult, PaginatedRequestParams
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from pydantic import ValidationError

from fxai.effects.cause import Cause, Die, Exit, Fail, Failed
from fxai.effects.context import ContextOf
from fxai.effects.effect import Await, EffectOf, Timeout, Within
from fxai.effects.fiber import run_fiber
from fxai.effects.service import LIVE, Clock
from fxai.mcp.server.offer import Offer
from fxai.mcp.server.option import Defect, ToolServerSettings
from fxai.mcp.server.result import failed, result_of, text_of
from fxai.mcp.server.tool import ServedTool, titled_by_hint
from fxai.schema.display import in_line
from fxai.tools.annotations import Title
from fxai.tools.call import Call, Outcome
from fxai.tools.failure import (
    ApprovalExpired,
    ApprovalUnavailable,
    Denied,
    HandlerFailed,
    Interrupted,
    InvalidParameters,
    UnknownTool,
    encode_failure,
)
from fxai.tools.tool import AnyTool

__all__ = ["Approvals", "Exchange", "Refusal", "report"]

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


_BUSY: Final = -32000  # the first of the codes that JSON-RPC leaves to servers

_COMPLETE: Final = {"resultType": "complete"}
_GONE: Final = (anyio.ClosedResourceError, anyio.BrokenResourceError)  # what telling a client raises that has left
_TITLED_BY_HINT: Final = ("2024-11-05", "2025-03-26")  # the protocols in which a tool has no `title` of its own

_Context = ServerRequestContext[Any, Any]


@final
class Exchange:
    """Answers `tools/list` and `tools/call` out of what is offered at the time."""

    def __init__(self, settings: ToolServerSettings, current: Callable[[], Awaitable[Offer]]) -> None:
        """Answer by these settings, with what `current` gives for each request."""
        self._settings = settings
        self._current = current
        self._approvals = Approvals(settings.approval_timeout)
        self._turns = anyio.Semaphore(settings.concurrency)
        self._calls = 0
        self._ended: anyio.Event  # of the calls that run or wait, where there are any

    async def idle(self) -> None:
        """Waits until no call runs or waits."""
        if self._calls:
            await self._ended.wait()

    async def list_tools(self, ctx: _Context, params: PaginatedRequestParams | None) -> dict[str, Any]:
        """The answer to `tools/list`, in pages where the settings say so."""
        documents = (await self._current()).documents
        if ctx.protocol_version in _TITLED_BY_HINT:
            documents = [titled_by_hint(document) for document in documents]
        size = self._settings.page_size
        cursor = None if params is None else params.cursor
        starts = {str(at): at for at in range(size, len(documents), size)} if size else {}
        if cursor is not None and cursor not in starts:
            raise MCPError(INVALID_PARAMS, "no such cursor: list the tools again from the first page")
        start = 0 if cursor is None else starts[cursor]
        end = len(documents) if size is None else start + size
        more = {"nextCursor": str(end)} if end < len(documents) else {}
        return {"tools": documents[start:end], **more, **_COMPLETE, "ttlMs": 0, "cacheScope": "private"}

    async def call_tool(self, ctx: _Context, params: CallToolRequestParams) -> dict[str, Any]:
        """The answer to `tools/call`."""
        if self._calls >= self._settings.concurrency + self._settings.waiting:
            raise MCPError(_BUSY, "too many calls wait here already: call again later")
        offer = await self._current()
        tool = offer.tools.get(params.name)
        if tool is None:
            unknown = UnknownTool(params.name, tuple(offer.tools))
            raise MCPError(INVALID_PARAMS, str(unknown), encode_failure(unknown))
        offer.entered()
        with self._counted():
            try:
                return _COMPLETE | await self._called(offer, tool, ctx, params)
            except MCPError:
                raise
            except Exception as bug:
                raise self._broken(tool, Cause((Die(bug),))) from None
            finally:
                await offer.left()

    @contextmanager
    def _counted(self) -> Generator[None]:
        self._calls += 1
        if self._calls == 1:
            self._ended = anyio.Event()
        try:
            yield
        finally:
            self._calls -= 1
            if not self._calls:
                self._ended.set()

    async def _called(
        self, offer: Offer, tool: ServedTool, ctx: _Context, params: CallToolRequestParams
    ) -> dict[str, Any]:
        arguments = params.arguments or {}
        call = offer.call(tool, arguments, str(ctx.request_id), emit=_progress(ctx))
        asks = await run_fiber(call.needs_approval(), offer.services)
        if isinstance(asks, Failed):
            raise self._broken(tool, asks.cause)
        if asks.value:
            settled = await self._approvals.settle(ctx, params, tool.tool)
            if isinstance(settled, Refusal):
                return failed(encode_failure(settled), structured=not tool.gives_objects)
            if settled is not None:
                return settled

        async with self._turns:
            return self._answer(tool, await run_fiber(self._program(call), offer.services))

    def _program(self, call: Call) -> EffectOf[Outcome, Any, Any]:
        seconds = self._settings.timeout
        if seconds is None:
            return call.effect

        def begin(services: ContextOf[Any]) -> EffectOf[Outcome, Any, Any]:
            clock: Clock = services.find(Clock, LIVE)
            call.deadline = clock.monotonic() + seconds
            return call.effect.timeout(seconds)

        return Within(begin)

    # -- how a call ended

    def _answer(self, tool: ServedTool, ended: Exit[Outcome, Any]) -> dict[str, Any]:
        outcome = self._value(tool, ended)
        if not isinstance(outcome, Outcome):
            told: dict[str, Any] = outcome
            return told
        if outcome.is_failure:
            return failed(outcome.encoded_result, structured=not tool.gives_objects)
        show = tool.tool.to_model_output
        return result_of(outcome.encoded_result, outcome.encoded_result if show is None else show(outcome.result))

    def _value(self, tool: ServedTool, ended: Exit[Any, Any]) -> Any:
        """What the program gave, or the result that tells its typed failure.

        Raises:
            MCPError: there is a bug.
        """
        if not isinstance(ended, Failed):
            return ended.value
        cause = ended.cause
        if len(cause.reasons) != 1 or not isinstance(cause.reasons[0], Fail):
            raise self._broken(tool, cause)
        return self._failure(tool, cause.reasons[0].error, cause)

    def _failure(self, tool: ServedTool, failure: Any, cause: Cause[Any]) -> dict[str, Any]:
        if isinstance(failure, HandlerFailed):
            error: Any = cast(Any, failure).error
            encoded = tool.tool.failure.encode_unsafe(error)
        elif isinstance(failure, Timeout):
            late = Interrupted(tool.tool.name, f"it took longer than {failure.seconds:g} seconds")
            encoded = encode_failure(late)
        elif isinstance(failure, InvalidParameters | Denied | Interrupted):
            encoded = encode_failure(failure)
        else:
            raise self._broken(tool, cause)
        return failed(encoded, structured=not tool.gives_objects)

    def _broken(self, tool: ServedTool, cause: Cause[Any]) -> MCPError:
        """Tells of a bug, and gives the error that says nothing of it."""
        report(self._settings, Defect(tool.tool.name, cause))
        return MCPError(INTERNAL_ERROR, f"internal error in the tool {tool.tool.name!r}: the server's log says more")


def report(settings: ToolServerSettings, defect: Defect) -> None:
    """Tells `on_defect`; where that breaks too, the log."""
    try:
        settings.on_defect(defect)
    except Exception:
        logging.getLogger("fxai.mcp").exception("on_defect broke, told of a bug in %r", defect.tool)


def _progress(ctx: _Context) -> Callable[[Outcome], EffectOf[None]]:
    """What tells the client of preliminary outcomes; nothing is sent to one that does not want to know."""
    count = 0

    async def tell(outcome: Outcome) -> None:
        nonlocal count
        count += 1
        with suppress(*_GONE):
            await ctx.session.report_progress(count, None, text_of(outcome.encoded_result))

    return lambda outcome: Await(lambda _: tell(outcome))
