"""Connections to MCP servers. Use a connection to call tools, approve changed tools, and read the server's description.

`server.open()` returns a connection, which closes with the enclosing scope. Each time that the server lists its tools,
fxai compares them with the pins. If the server notifies of a change, `now` lists the tools again.

>>> Change("search", ("description",)).parts
('description',)
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Never, TypeAlias, cast, final

import msgspec
from anyio.lowlevel import checkpoint
from returns.result import Success
from typing_extensions import TypeVar, override

from fxai.effects.cause import Succeeded
from fxai.effects.concurrency import all_
from fxai.effects.constructor import annotate_span, attempt_async, fail, gen, sync
from fxai.effects.context import AnyContext, ContextOf
from fxai.effects.effect import EffectOf, Gen, Succeed, Suspend
from fxai.effects.layer import LayerOf, layer_from_context
from fxai.effects.pull import END, Channel
from fxai.effects.scope import NOTHING
from fxai.mcp.pin import Pins
from fxai.mcp.result import CallResult, LinkError, McpCallError, McpError, McpToolError, content_text, result_value
from fxai.mcp.settings import ServerSettings
from fxai.mcp.tool_definition import McpTool, Refused, ToolDefinition
from fxai.schema.data import JsonObject
from fxai.schema.fault import DecodeFailure, SchemaError
from fxai.schema.json_schema import JsonSchema
from fxai.schema.parsing import parse_json
from fxai.tools.handler import Given, Handler
from fxai.tools.handler_types import HandlerOf
from fxai.tools.tool_info import CallContext
from fxai.tools.toolkit import BoundToolkit, Toolkit

if TYPE_CHECKING:
    from fxai.mcp.link import Link

_UNREAD: Final = 64
_FLAWS: Final = 64
_FLAW: Final = 500  # characters of a flaw, which may quote the server


_A = TypeVar("_A")
_Made: TypeAlias = tuple[dict[str, McpTool], list[Refused], dict[str, dict[str, str]]]

_HELD: Final = "tool %r of the MCP server %r is blocked until you approve it again: %s"

_log = logging.getLogger("fxai.mcp")

McpHandler: TypeAlias = HandlerOf[object, object, McpCallError]
"""The requirement in `R` of a server's tools. Arguments and results are JSON values."""


@final
class Change(msgspec.Struct, frozen=True):
    """A blocked tool, with the parts that differ from the approved definition."""

    name: str
    """The name of the tool at the server."""
    parts: tuple[str, ...]
    """Some of `"title"`, `"description"`, `"inputSchema"`, `"outputSchema"`, `"annotations"`, `"_meta"`, and `"other"`;
    or `"new"`, with `"name"` if the name looks like another tool's name or contains invisible characters."""


@final
class Flaw(msgspec.Struct, frozen=True):
    """A difference from the protocol that fxai read nevertheless."""

    tool: str | None
    """The called tool. None for the list of tools."""
    problem: str
    """The difference."""


@final
class ServerInfo(msgspec.Struct, frozen=True):
    """An open server's description of itself."""

    name: str
    """The server's own name. It can be empty."""
    version: str
    """The server's own version. It can be empty."""
    protocol_version: str
    """The negotiated protocol version, such as `"2025-11-25"`."""
    instructions: str | None = None
    """The instructions for the model, or None."""
    capabilities: Mapping[str, Any] = {}
    """The capabilities with their names in the protocol."""

    @override
    def __hash__(self) -> int:
        return hash((ServerInfo, self.name, self.version))


@final
class Connection:
    """An open server. Create it with `server.open()`. It closes with the enclosing scope."""

    def __init__(self, settings: ServerSettings, link: Link, origin: str) -> None:
        self._settings = settings
        self._link = link
        self._origin = origin
        self._reached = settings.endpoint.attributes
        self._pins = settings.pins or Pins.in_process(unseen="trust-all")  # without pins, the first list is approved
        self._tools: dict[str, McpTool] = {}
        self._held: dict[str, tuple[ToolDefinition, tuple[str, ...]]] = {}
        self._refused: tuple[Refused, ...] = ()
        self._names: tuple[str, ...] = ()
        self._bound: BoundToolkit[McpHandler]  # set by the first listing, before opening returns
        self._stale: bool
        self._flaws: dict[Flaw, None] = {}
        link.on_changed = self.mark_stale
        link.on_flaw = partial(self._note, None)

    # -- the description of the server

    @property
    def name(self) -> str:
        """The name of the server in this program."""
        return self._settings.name

    @property
    def info(self) -> ServerInfo:
        """The server's description of itself."""
        name, version, protocol, instructions, capabilities = self._link.session.about
        return ServerInfo(name, version, protocol, instructions, capabilities)

    @property
    def stderr(self) -> str:
        """The end of the server's standard error. Empty for a server at a URL."""
        return self._link.session.watch.stderr

    @property
    def tools(self) -> tuple[ToolDefinition, ...]:
        """The definitions of the offered tools, in the order of the server."""
        return tuple(tool.definition for tool in self._tools.values())

    @property
    def held_back(self) -> tuple[Change, ...]:
        """The blocked tools, which differ from their approved definitions. To offer them again, call `approve`."""
        return tuple(Change(name, parts) for name, (_, parts) in self._held.items())

    @property
    def refused(self) -> tuple[Refused, ...]:
        """The invalid tools that the server lists, each with the reason."""
        return self._refused

    @property
    def flaws(self) -> tuple[Flaw, ...]:
        """The differences from the protocol in listings and results, without repetitions. At most 64."""
        return tuple(self._flaws)

    @property
    def known_names(self) -> tuple[str, ...]:
        """The names of all tools that the server lists, including blocked and invalid tools."""
        return self._names

    @property
    def bound(self) -> BoundToolkit[McpHandler]:
        """The offered tools with their handlers. It is live, so `bound.now` follows the server."""
        return self._bound

    # -- the tools of the server

    @property
    def now(self) -> EffectOf[BoundToolkit[McpHandler]]:
        """An effect that returns the current tools. If the server notified of a change, it lists the tools again.

        If listing fails, the previous tools stay and fxai logs a warning. The next call fails with the reason.
        """

        def keep(error: McpError) -> EffectOf[BoundToolkit[McpHandler]]:
            _log.warning("cannot list the tools again, so the previous tools stay: %s", error)
            return Succeed(self._bound)

        return Suspend(lambda: self.refresh().catch_all(keep) if self._stale else Succeed(self._bound))

    def refresh(self) -> EffectOf[BoundToolkit[McpHandler], McpError]:
        """List and review the tools again. The effect fails if the listing fails or fxai cannot use the pins."""
        stale = sync(self.mark_stale)
        return self._list().on_exit(lambda end: NOTHING if isinstance(end, Succeeded) else stale)

    def approve(self, *names: str) -> EffectOf[None, McpError]:
        """Approve the current definitions of blocked tools. Without names, approve all of them. `now` then offers them.

        The effect fails with an `McpError` of the kind `"pins"` if fxai cannot write the pins, or of the kind
        `"held-back"` if a name does not belong to a blocked tool.
        """

        def start() -> EffectOf[None, McpError]:
            wrong = [name for name in names if name not in self._held]
            if wrong:
                held = ", ".join(self._held) or "none"
                problem = f"tool {wrong[0]!r} is not blocked. Blocked tools: {held}"
                return fail(McpError(self.name, "held-back", problem))
            chosen = {name: self._held[name][0].digests() for name in names or self._held}
            return self._pins.approve(self.name, chosen).and_then(sync(self.mark_stale))

        return Suspend(start)

    def mark_stale(self) -> None:
        """Mark the tools as outdated, so that their next use lists them again."""
        self._stale = True

    @gen
    def _list(self) -> Gen[BoundToolkit[McpHandler], McpError]:
        self._stale = False  # the next listing covers changes from here on
        listed, unsound = yield from over_link(self._link.listing)
        self._names = (*(definition.name for definition in listed), *unsound)
        offered, refused, digests = yield from over_link(lambda: self._make_tools(listed, unsound))
        held = yield from self._pins.review(self.name, digests)
        held = {name: parts for name, parts in held.items() if name in offered}
        for name, parts in held.items():
            if self._held.get(name, ((), ()))[1] != parts:
                _log.warning(_HELD, name, self.name, _parts(parts))
        for one in refused:
            if one not in self._refused:
                _log.warning(
                    "tool %r of the MCP server %r is invalid and not offered: %s", one.name, self.name, one.reason
                )
        self._held = {name: (offered[name].definition, parts) for name, parts in held.items()}
        self._refused = tuple(refused)
        self._tools = {name: tool for name, tool in offered.items() if name not in held}
        toolkit: Toolkit[McpHandler] = Toolkit.of(cast(Any, [tool.tool for tool in self._tools.values()]))
        self._bound = BoundToolkit.of(toolkit, self._layer(), origin=self._origin, now=self.now)
        return self._bound

    async def _make_tools(self, listed: list[ToolDefinition], unsound: dict[str, str]) -> _Made:
        """Return the valid tools by name, the invalid tools, and the digests. Other tasks can run in between."""
        settings = self._settings
        refused = [Refused(name, reason) for name, reason in unsound.items() if self._is_wanted(name)]
        made: dict[str, McpTool] = {}
        seen: dict[str, dict[str, str]] = {}
        for definition in listed:
            await checkpoint()  # one tool can take long, so let other tasks run
            name = definition.name
            if not self._is_wanted(name):
                with suppress(RecursionError, ValueError):  # the schema is too deep, but the tool is not offered
                    seen.setdefault(name, definition.digests())
                continue
            if name in made:
                refused.append(Refused(name, "the server lists it twice, and fxai offers the first one"))
                continue
            try:
                known = self._tools.get(name)
                if known is None or known.definition != definition:
                    known = McpTool.make(definition, self._origin, settings)
                made[name] = known
                seen[name] = definition.digests()
            except SchemaError as error:
                refused.append(Refused(name, str(error)))
        return made, refused, seen

    def _is_wanted(self, name: str) -> bool:
        only = self._settings.only
        return (only is None or name in only) and name not in self._settings.without

    def _layer(self) -> LayerOf[McpHandler, Never, None]:
        answering = {tool.tool.identity: partial(self._call_with_progress, tool) for tool in self._tools.values()}

        def build(context: AnyContext) -> AnyContext:
            handlers: dict[Any, Any] = {}
            for identity, f in answering.items():
                handlers[identity] = Handler(f, context, wants_context=True)
                handlers[Given(identity, id(f))] = True
            return ContextOf(handlers)

        return layer_from_context(build)

    # -- calls

    def call(self, name: str, arguments: Mapping[str, Any] | None = None) -> EffectOf[object, McpCallError]:
        """Call a tool by its name at the server. fxai sends the arguments unchanged.

        The value is the structured content of the result, or `{"content": […]}` without structured content. The effect
        fails with `McpToolError` for a failure of the tool and with `McpError` for a failure of the server.
        """
        return Suspend(lambda: self._call_tool(name, arguments or {}, None))

    def _call_with_progress(
        self, tool: McpTool, arguments: Any, context: CallContext
    ) -> EffectOf[object, McpCallError]:
        progress = progress_channel()
        called = self._call_tool(tool.definition.name, arguments, progress.offer, tool).on_exit(
            lambda _: progress.end(Succeeded(None))
        )
        return all_(called, show_progress(progress, context)).map(lambda both: both[0])

    def _call_tool(
        self,
        name: str,
        arguments: Mapping[str, Any],
        progress: Callable[[JsonObject], None] | None,
        tool: McpTool | None = None,
    ) -> EffectOf[object, McpCallError]:
        if name in self._held:
            problem = f"blocked tool: {_parts(self._held[name][1])}"
            return fail(McpError(self.name, "held-back", problem, "Approve it again", name))
        known = tool or self._tools.get(name)
        version = self._link.session.about[2]
        reported = annotate_span({"mcp.method.name": "tools/call", "mcp.protocol.version": version, **self._reached})
        answer = reported.and_then(over_link(lambda: self._link.call(name, arguments, progress)))
        return answer.flat_map(lambda got: self._value(name, known, got))

    def _value(self, name: str, tool: McpTool | None, answer: CallResult) -> EffectOf[object, McpCallError]:
        """Return the value of a result. If the result breaks the protocol, the tool still ran, so note a flaw."""
        for problem in answer.flaws:
            self._note(name, problem)
        content, structured, is_structured = answer.content, answer.structured, answer.is_structured
        if answer.is_error:
            text = content_text(content)
            blocks = () if len(content) <= 1 and (not content or content[0].get("type") == "text") else content
            return fail(McpToolError(name, text, blocks, structured))
        if tool is not None and tool.output is not None:
            if not is_structured:
                structured, is_structured, problem = _from_text(content, tool.output)
                self._note(name, problem)
            elif faults := tool.output.validate(structured):
                self._note(name, f"the result does not match the output schema of the tool: {DecodeFailure(faults)}")
        return Succeed(result_value(content, structured, is_structured=is_structured))

    def _note(self, tool: str | None, problem: str) -> None:
        flaw = Flaw(tool, problem[:_FLAW])
        if flaw not in self._flaws and len(self._flaws) < _FLAWS:
            self._flaws[flaw] = None
            calling = "" if tool is None else f", call of {tool!r}"
            _log.warning("MCP server %r%s: %s", self.name, calling, flaw.problem)


def progress_channel() -> Channel[JsonObject]:
    """Return a channel of one call's progress notifications. It keeps the latest 64 unread notifications."""
    return Channel(_UNREAD, deque(maxlen=_UNREAD))


@gen
def show_progress(progress: Channel[JsonObject], context: CallContext) -> Gen[None]:
    """Emit each notification as a preliminary result until the channel ends."""
    while (reported := (yield from progress.take())) is not END:
        yield from context.preliminary(reported)


def over_link(ask: Callable[[], Awaitable[_A]]) -> EffectOf[_A, McpError]:
    """Return the effect of a request over a link. It fails with the `McpError` of a `LinkError`."""
    return attempt_async(ask, lambda raised: raised.failure if isinstance(raised, LinkError) else None)


def _from_text(content: Sequence[Mapping[str, Any]], output: JsonSchema) -> tuple[Any, bool, str]:
    """Read the structured content from the text of a result. Return the value, True if it is valid, and the flaw."""
    problem = "the tool has an output schema, but its result has no structured content"
    text = content_text(content[:1])
    parsed = parse_json(text) if text.strip() else None  # a blank string is not an empty object here
    if not isinstance(parsed, Success):
        return None, False, problem
    value = parsed.unwrap()
    if faults := output.validate(value):
        return None, False, f"{problem}, and its text does not match: {DecodeFailure(faults)}"
    return value, True, f"{problem}, so fxai read the JSON of its text"


def _parts(parts: tuple[str, ...]) -> str:
    if "name" in parts:
        return "never approved, and the name looks like another tool's name or contains invisible characters"
    if parts == ("new",):
        return "never approved"
    return f"differs from the approved definition: {', '.join(parts)}"
