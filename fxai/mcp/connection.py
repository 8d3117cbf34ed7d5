"""Connections: an open server with its description, its tools, and calls of them with their progress.

`server.open()` gives one into the scope around, with which it closes. Its tools are compared with the pins each
time they are listed; when the server notifies of a change, `now` lists them anew.

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
from fxai.effects.context import ContextOf
from fxai.effects.effect import EffectOf, Gen, Succeed, Suspend
from fxai.effects.layer import LayerOf
from fxai.effects.pull import END, Channel
from fxai.effects.scope import NOTHING
from fxai.mcp.pin import Pins
from fxai.mcp.result import CallResult, LinkError, McpCallError, McpError, McpToolError, content_text, result_value
from fxai.mcp.settings import ServerSettings
from fxai.mcp.tool_definition import McpTool, Refused, ToolDefinition
from fxai.schema.fault import DecodeFailure, SchemaError
from fxai.schema.json_schema import JsonSchema
from fxai.schema.parsing import parse_json
from fxai.tools.handler import Given, Handler, HandlerOf
from fxai.tools.tool_options import CallContext
from fxai.tools.toolkit import BoundToolkit, Toolkit

if TYPE_CHECKING:
    from fxai.mcp.link import Link

_UNREAD: Final = 64
_FLAWS: Final = 64
_FLAW: Final = 500  # characters of a flaw, which may quote the server


_A = TypeVar("_A")
_Made: TypeAlias = tuple[dict[str, McpTool], list[Refused], dict[str, dict[str, str]]]

_HELD: Final = "the tool %r of the MCP server %r is held back until it is approved again: %s"

_log = logging.getLogger("fxai.mcp")

McpHandler: TypeAlias = HandlerOf[object, object, McpCallError]
"""The member of `R` of a server's tools: arguments and results are plain JSON data."""


@final
class Change(msgspec.Struct, frozen=True):
    """A blocked tool, with the parts that differ from the approved definition."""

    name: str
    """The tool's name at the server."""
    parts: tuple[str, ...]
    """Among `"title"`, `"description"`, `"inputSchema"`, `"outputSchema"`, `"annotations"`, `"_meta"` and `"other"`; or
    `"new"`, with `"name"` if its name looks like another tool's or contains invisible characters."""


@final
class Flaw(msgspec.Struct, frozen=True):
    """A difference from the protocol that fxai read nevertheless."""

    tool: str | None
    """The tool that was called; None for the listing of the tools."""
    said: str
    """The difference."""


@final
class ServerInfo(msgspec.Struct, frozen=True):
    """The description that an open server gives of itself."""

    name: str
    """Its own name; may be empty."""
    version: str
    protocol_version: str
    """The version of the protocol that was agreed on, such as `"2025-11-25"`."""
    instructions: str | None = None
    capabilities: Mapping[str, Any] = {}
    """As the protocol spells them."""

    @override
    def __hash__(self) -> int:
        return hash((ServerInfo, self.name, self.version))


@final
class Connection:
    """An open server. It is made by `server.open()` and closes with the scope that it was opened into."""

    def __init__(self, settings: ServerSettings, link: Link, origin: str) -> None:
        self._settings = settings
        self._link = link
        self._origin = origin
        self._reached = settings.endpoint.attributes
        self._pins = settings.pins or Pins.in_process(unseen="trust-all")  # nobody has approved anything
        self._tools: dict[str, McpTool] = {}
        self._held: dict[str, tuple[ToolDefinition, tuple[str, ...]]] = {}
        self._refused: tuple[Refused, ...] = ()
        self._names: tuple[str, ...] = ()
        self._bound: BoundToolkit[McpHandler]  # from the first listing on, which opening waits for
        self._stale: bool
        self._flaws: dict[Flaw, None] = {}
        link.on_changed = self.mark_stale
        link.on_flaw = partial(self._note, None)

    # -- its description

    @property
    def name(self) -> str:
        """The server's name here."""
        return self._settings.name

    @property
    def info(self) -> ServerInfo:
        """The server's description of itself."""
        name, version, protocol, instructions, capabilities = self._link.about
        return ServerInfo(name, version, protocol, instructions, capabilities)

    @property
    def stderr(self) -> str:
        """The end of the server's standard error; empty for one at an address."""
        return self._link.stderr

    @property
    def tools(self) -> tuple[ToolDefinition, ...]:
        """The definitions of the offered tools, in the server's order."""
        return tuple(tool.definition for tool in self._tools.values())

    @property
    def held_back(self) -> tuple[Change, ...]:
        """The tools that are not offered because they are not as approved; `approve` offers them again."""
        return tuple(Change(name, parts) for name, (_, parts) in self._held.items())

    @property
    def refused(self) -> tuple[Refused, ...]:
        """The tools that it lists and that cannot be offered, with the reason."""
        return self._refused

    @property
    def flaws(self) -> tuple[Flaw, ...]:
        """The differences from the protocol in listings and results, without repetitions; at most 64."""
        return tuple(self._flaws)

    @property
    def known_names(self) -> tuple[str, ...]:
        """The names of all tools that it lists, offered or not."""
        return self._names

    @property
    def bound(self) -> BoundToolkit[McpHandler]:
        """The tools that are offered, with their handlers; live, so that `bound.now` follows the server."""
        return self._bound

    # -- its tools

    @property
    def now(self) -> EffectOf[BoundToolkit[McpHandler]]:
        """The tools as they are now: listed anew where the server notified of a change.

        Where that fails, they stay as they were, and a warning is logged; the next call fails with the reason.
        """
        return Suspend(lambda: self._renew() if self._stale else Succeed(self._bound))

    def refresh(self) -> EffectOf[BoundToolkit[McpHandler], McpError]:
        """The tools, listed anew and reviewed; fails where they are not listed, or the pins cannot be used."""
        stale = sync(self.mark_stale)
        return self._list().on_exit(lambda end: NOTHING if isinstance(end, Succeeded) else stale)

    def approve(self, *names: str) -> EffectOf[None, McpError]:
        """Approves tools that are held back, as they are now; without names all of them. `now` offers them.

        Fails with an `McpError` of the kind `"pins"` where the pins cannot be written, or of `"held-back"` where a tool
        of that name is not held back.
        """

        def start() -> EffectOf[None, McpError]:
            wrong = [name for name in names if name not in self._held]
            if wrong:
                held = ", ".join(self._held) or "none"
                said = f"no tool {wrong[0]!r} is held back; those that are: {held}"
                return fail(McpError(self.name, "held-back", said))
            chosen = {name: self._held[name][0].digests() for name in names or self._held}
            return self._pins.approve(self.name, chosen).and_then(sync(self.mark_stale))

        return Suspend(start)

    def mark_stale(self) -> None:
        """Marks the tools to be listed anew on their next use."""
        self._stale = True

    def _renew(self) -> EffectOf[BoundToolkit[McpHandler]]:
        def keep(error: McpError) -> EffectOf[BoundToolkit[McpHandler]]:
            _log.warning("the tools stay as they were: %s", error)
            return Succeed(self._bound)

        return self.refresh().catch_all(keep)

    @gen
    def _list(self) -> Gen[BoundToolkit[McpHandler], McpError]:
        self._stale = False  # a change from here on is for the next listing
        listed, unsound = yield from over_link(self._link.listing)
        self._names = (*(definition.name for definition in listed), *unsound)
        offered, refused, digests = yield from over_link(lambda: self._make_tools(listed, unsound))
        held = yield from self._pins.review(self.name, digests)
        return self._take(offered, refused, {name: parts for name, parts in held.items() if name in offered})

    async def _make_tools(self, listed: list[ToolDefinition], unsound: dict[str, str]) -> _Made:
        """The tools that can be offered, by name, those that cannot, and the digests; other tasks run in between."""
        settings = self._settings
        refused = [Refused(name, reason) for name, reason in unsound.items() if self._is_wanted(name)]
        made: dict[str, McpTool] = {}
        seen: dict[str, dict[str, str]] = {}
        for definition in listed:
            await checkpoint()  # each tool may take a while: other tasks run between two of them
            name = definition.name
            if not self._is_wanted(name):
                with suppress(RecursionError, ValueError):  # too deep; nobody wants it
                    seen.setdefault(name, definition.digests())
                continue
            if name in made:
                refused.append(Refused(name, "it is listed twice; the first one is offered"))
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

    def _take(
        self, offered: dict[str, McpTool], refused: list[Refused], held: dict[str, tuple[str, ...]]
    ) -> BoundToolkit[McpHandler]:
        """Takes over a reviewed listing; logs a warning for each tool that is newly left out."""
        for name, parts in held.items():
            if self._held.get(name, ((), ()))[1] != parts:
                _log.warning(_HELD, name, self.name, _parts(parts))
        for one in refused:
            if one not in self._refused:
                _log.warning("the tool %r of the MCP server %r is left out: %s", one.name, self.name, one.reason)
        self._held = {name: (offered[name].definition, parts) for name, parts in held.items()}
        self._refused = tuple(refused)
        self._tools = {name: tool for name, tool in offered.items() if name not in held}
        toolkit: Toolkit[McpHandler] = Toolkit.of(cast(Any, [tool.tool for tool in self._tools.values()]))
        self._bound = BoundToolkit.of(toolkit, self._layer(), origin=self._origin, now=self.now)
        return self._bound

    def _layer(self) -> LayerOf[McpHandler, Never, None]:
        answering = {tool.tool.identity: partial(self._call_with_progress, tool) for tool in self._tools.values()}

        def build(context: ContextOf[Any]) -> ContextOf[Any]:
            handlers: dict[Any, Any] = {}
            for identity, f in answering.items():
                handlers[identity] = Handler(f, context, wants_context=True, blocking=None)
                handlers[Given(identity, id(f))] = True
            return ContextOf(handlers)

        return LayerOf.of(build)

    # -- calls

    def call(self, name: str, arguments: Mapping[str, Any] | None = None) -> EffectOf[object, McpCallError]:
        """Calls a tool of the server by its name there; arguments are sent as they are.

        The value is the structured content where the result has any, else `{"content": […]}`. Fails with
        `McpToolError` for a failure of the tool, with `McpError` for one of the server.
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
        progress: Callable[[dict[str, Any]], None] | None,
        tool: McpTool | None = None,
    ) -> EffectOf[object, McpCallError]:
        if name in self._held:
            said = f"it is held back: {_parts(self._held[name][1])}"
            return fail(McpError(self.name, "held-back", said, "approve it again", name))
        known = tool or self._tools.get(name)
        version = self._link.about[2]
        told = annotate_span({"mcp.method.name": "tools/call", "mcp.protocol.version": version, **self._reached})
        answer = told.and_then(over_link(lambda: self._link.call(name, arguments, progress)))
        return answer.flat_map(lambda got: self._value(name, known, got))

    def _value(self, name: str, tool: McpTool | None, answer: CallResult) -> EffectOf[object, McpCallError]:
        """The value of a result. A result that breaks the protocol is kept, because the tool ran, and is noted."""
        for said in answer.flaws:
            self._note(name, said)
        content, structured, is_structured = answer.content, answer.structured, answer.is_structured
        if answer.is_error:
            text = content_text(content)
            blocks = () if len(content) <= 1 and (not content or content[0].get("type") == "text") else content
            return fail(McpToolError(name, text, blocks, structured))
        if tool is not None and tool.output is not None:
            if not is_structured:
                structured, is_structured, said = _from_text(content, tool.output)
                self._note(name, said)
            elif faults := tool.output.validate(structured):
                self._note(name, f"the result does not fit the output schema of the tool: {DecodeFailure(faults)}")
        return Succeed(result_value(content, structured, is_structured=is_structured))

    def _note(self, tool: str | None, said: str) -> None:
        flaw = Flaw(tool, said[:_FLAW])
        if flaw not in self._flaws and len(self._flaws) < _FLAWS:
            self._flaws[flaw] = None
            calling = "" if tool is None else f", called for {tool!r}"
            _log.warning("the MCP server %r%s: %s", self.name, calling, flaw.said)


def progress_channel() -> Channel[dict[str, Any]]:
    """The notifications of one call's progress that are not shown yet: the latest 64."""
    return Channel(_UNREAD, deque(maxlen=_UNREAD))


@gen
def show_progress(progress: Channel[dict[str, Any]], context: CallContext) -> Gen[None]:
    """Gives each notification as a preliminary result, until the end."""
    while (told := (yield from progress.take())) is not END:
        yield from context.preliminary(told)


def over_link(ask: Callable[[], Awaitable[_A]]) -> EffectOf[_A, McpError]:
    """The effect of a request over a link; a `LinkError` becomes its `McpError`."""
    return attempt_async(ask, lambda raised: raised.failure if isinstance(raised, LinkError) else None)


def _from_text(content: Sequence[Mapping[str, Any]], output: JsonSchema) -> tuple[Any, bool, str]:
    """The structured content that a server sent as text, if it fits; whether it fits; and the flaw."""
    said = "the tool has an output schema, and its result has no structured content"
    text = content_text(content[:1])
    parsed = parse_json(text) if text.strip() else None  # no text is no object either
    if not isinstance(parsed, Success):
        return None, False, said
    value = parsed.unwrap()
    if faults := output.validate(value):
        return None, False, f"{said}; its text does not fit: {DecodeFailure(faults)}"
    return value, True, f"{said}; fxai read the JSON of its text"


def _parts(parts: tuple[str, ...]) -> str:
    if "name" in parts:
        return "it was never approved, and its name looks like another's or contains invisible characters"
    if parts == ("new",):
        return "it was never approved"
    return f"not as it was approved: {', '.join(parts)}"
