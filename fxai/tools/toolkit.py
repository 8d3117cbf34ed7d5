"""Toolkits: tools that are offered together.

A toolkit is a value; `merge` joins two, `pick`, `omit` and `filter` choose from one. Its handlers join it through
`to_layer`, which both checkers refuse when one is missing.

>>> from fxai.effects import fx
>>> from fxai.tools.tool import Tool
>>> from returns.result import Success
>>> six = Tool.make("six", success=int)
>>> kit = Toolkit.make(six)
>>> fx.run_sync(kit.call("six", {}).provide(kit.to_layer(six.handler(lambda _: Success(6))))).result
6
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Generic, Literal, Never, Protocol, TypeAlias, cast, final, overload

from typing_extensions import TypeVar, Unpack, override

from fxai.effects.context import ContextOf, MissingServiceError
from fxai.effects.effect import EffectOf
from fxai.effects.layer import LayerOf
from fxai.effects.pull import Channel
from fxai.effects.stream import StreamOf
from fxai.schema.fault import SchemaError
from fxai.schema.parsing import CALL_LIMITS, Limits
from fxai.tools.annotations import Annotation, Annotations
from fxai.tools.call import Call, OnInvalidCall, Outcome
from fxai.tools.failure import ToolError
from fxai.tools.handler import Answering, Given
from fxai.tools.identity import Identity
from fxai.tools.options import ToolOptions
from fxai.tools.tool import AnyTool

if TYPE_CHECKING:
    from fxai.tools.composite import Composite
    from fxai.tools.function import MethodsOf
    from fxai.tools.handler import Gives
    from fxai.tools.source import BoundToolkit

__all__ = ["HandlerError", "OnConflict", "ToolConflictError", "Toolkit", "missing_services"]

_T = TypeVar("_T")
_U = TypeVar("_U")
_E = TypeVar("_E")
_R = TypeVar("_R")
_O = TypeVar("_O")
_T_co = TypeVar("_T_co", covariant=True)
_1 = TypeVar("_1")
_2 = TypeVar("_2")
_3 = TypeVar("_3")
_4 = TypeVar("_4")
_5 = TypeVar("_5")
_6 = TypeVar("_6")
_7 = TypeVar("_7")
_8 = TypeVar("_8")

OnConflict: TypeAlias = Literal["error", "first", "last"]
"""What to do with two different tools of one name: refuse (the default), keep the first, or keep the last."""


class _Needs(Protocol[_T_co]):
    """A tool, seen as the handler that it needs."""

    def __fx_handler__(self) -> _T_co: ...


class ToolConflictError(ValueError):
    """Two different tools have one name."""


class HandlerError(TypeError):
    """Handlers and tools do not match: a handler is missing, there are two for one tool, or one is for no tool."""


@final
class Toolkit(Generic[_T_co]):
    """Tools by name, in order. `T` is the union of the handlers that they need."""

    __slots__ = ("_listed", "_shown", "_tools")

    def __init__(self, tools: Mapping[str, AnyTool]) -> None:
        self._tools = dict(tools)
        self._shown: Mapping[str, AnyTool] = MappingProxyType(self._tools)
        self._listed = tuple(self._tools.values())

    def __reduce__(self) -> tuple[type[Toolkit[Any]], tuple[dict[str, AnyTool]]]:
        return (Toolkit, (self._tools,))

    # -- constructors

    @overload
    @staticmethod
    def make() -> Toolkit[Never]: ...
    @overload
    @staticmethod
    def make(a: _Needs[_1], /) -> Toolkit[_1]: ...
    @overload
    @staticmethod
    def make(a: _Needs[_1], b: _Needs[_2], /) -> Toolkit[_1 | _2]: ...
    @overload
    @staticmethod
    def make(a: _Needs[_1], b: _Needs[_2], c: _Needs[_3], /) -> Toolkit[_1 | _2 | _3]: ...
    @overload
    @staticmethod
    def make(a: _Needs[_1], b: _Needs[_2], c: _Needs[_3], d: _Needs[_4], /) -> Toolkit[_1 | _2 | _3 | _4]: ...
    @overload
    @staticmethod
    def make(
        a: _Needs[_1], b: _Needs[_2], c: _Needs[_3], d: _Needs[_4], e: _Needs[_5], /
    ) -> Toolkit[_1 | _2 | _3 | _4 | _5]: ...
    @overload
    @staticmethod
    def make(
        a: _Needs[_1], b: _Needs[_2], c: _Needs[_3], d: _Needs[_4], e: _Needs[_5], f: _Needs[_6], /
    ) -> Toolkit[_1 | _2 | _3 | _4 | _5 | _6]: ...
    @overload
    @staticmethod
    def make(
        a: _Needs[_1], b: _Needs[_2], c: _Needs[_3], d: _Needs[_4], e: _Needs[_5], f: _Needs[_6], g: _Needs[_7], /
    ) -> Toolkit[_1 | _2 | _3 | _4 | _5 | _6 | _7]: ...
    @overload
    @staticmethod
    def make(
        a: _Needs[_1],
        b: _Needs[_2],
        c: _Needs[_3],
        d: _Needs[_4],
        e: _Needs[_5],
        f: _Needs[_6],
        g: _Needs[_7],
        h: _Needs[_8],
        /,
    ) -> Toolkit[_1 | _2 | _3 | _4 | _5 | _6 | _7 | _8]: ...
    @overload  # of nine at least: where this one and one above both fit, `Any` in a type makes mypy give up
    @staticmethod
    def make(
        a: _Needs[_T],
        b: _Needs[_T],
        c: _Needs[_T],
        d: _Needs[_T],
        e: _Needs[_T],
        f: _Needs[_T],
        g: _Needs[_T],
        h: _Needs[_T],
        i: _Needs[_T],
        /,
        *tools: _Needs[_T],
    ) -> Toolkit[_T]: ...
    @staticmethod
    def make(*tools: Any) -> Any:
        """The toolkit of `tools` and function tools, in their order; up to eight of different types, more of one type.

        More of different types: `Toolkit.make(…).merge(Toolkit.make(…))`. The same tool twice is one tool.

        Raises:
            ToolConflictError: two different tools have one name.
        """
        return Toolkit.of(tools)

    @staticmethod
    def of(tools: Iterable[_Needs[_T]], *, on_conflict: OnConflict = "error") -> Toolkit[_T]:
        """The toolkit of an iterable of tools.

        Raises:
            ToolConflictError: two different tools have one name, unless `on_conflict` says which to keep.
        """
        kept: dict[str, AnyTool] = {}
        for tool in cast("Iterable[AnyTool]", tools):
            _add(kept, tool, on_conflict)
        return Toolkit(kept)

    @staticmethod
    def empty() -> Toolkit[Never]:
        """The toolkit without tools: `kit.merge(Toolkit.empty())` is `kit`."""
        return Toolkit({})

    @staticmethod
    def from_object(
        obj: _O, *, name: str | None = None, only: Iterable[str] | None = None, **options: Unpack[ToolOptions]
    ) -> BoundToolkit[MethodsOf[_O], Never, None]:
        """The tools of an object's public methods that have a docstring, with their handlers: `.toolkit`, `.layer`.

        Args:
            obj: its methods are taken apart as functions are by `tool`; those without a docstring are not offered.
            name: what stands before the dot of each tool's name; by default the object's class, `""` for no dot.
            only: the methods to offer; by default each that is described.
            options: for each tool, see `ToolOptions`.

        What services such methods need is not seen by checkers. Raises `SchemaError` where no method is described, or
        one that is cannot be a tool.
        """
        from fxai.tools.function import tools_of  # it imports this module

        return tools_of(obj, name=name, only=only, **options)

    # -- what it holds

    @property
    def tools(self) -> Mapping[str, AnyTool]:
        """The tools by name, in order."""
        return self._shown

    @property
    def as_tuple(self) -> tuple[AnyTool, ...]:
        """The tools in order."""
        return self._listed

    def __iter__(self) -> Iterator[AnyTool]:
        return iter(self._listed)

    def __len__(self) -> int:
        return len(self._tools)

    def __contains__(self, name: object) -> bool:
        return name in self._tools

    @override
    def __eq__(self, other: object) -> bool:
        return isinstance(other, Toolkit) and list(self) == list(cast(Any, other))

    @override
    def __hash__(self) -> int:
        return hash(self._listed)

    @override
    def __repr__(self) -> str:
        return f"Toolkit({', '.join(self._tools)})"

    def __fx_gives__(self) -> Gives[Never, Never, _T_co]:
        """For checkers: it gives no handlers, and needs those of its tools."""
        raise NotImplementedError

    # -- toolkits from toolkits

    def merge(self, other: Toolkit[_U], *, on_conflict: OnConflict = "error") -> Toolkit[_T_co | _U]:
        """The tools of both, these first.

        Raises:
            ToolConflictError: two different tools have one name, unless `on_conflict` says which to keep.
        """
        kept = dict(self._tools)
        for tool in other:
            _add(kept, tool, on_conflict)
        return Toolkit(kept)

    def pick(self, *names: str) -> Toolkit[_T_co]:
        """The tools of these names, in this toolkit's order.

        Raises:
            KeyError: there is no tool of a name.
        """
        self._require(names)
        return self.filter(lambda tool: tool.name in names)

    def omit(self, *names: str) -> Toolkit[_T_co]:
        """All tools but those of these names.

        Raises:
            KeyError: there is no tool of a name.
        """
        self._require(names)
        return self.filter(lambda tool: tool.name not in names)

    def filter(self, keep: Callable[[AnyTool], bool]) -> Toolkit[_T_co]:
        """The tools for which `keep` is true."""
        return Toolkit({name: tool for name, tool in self._tools.items() if keep(tool)})

    def map(self, f: Callable[[AnyTool], AnyTool]) -> Toolkit[_T_co]:
        """Each tool changed by `f`, which keeps its identity: `lambda tool: tool.annotate(…)`.

        Raises:
            ToolConflictError: two different tools have one name now.
        """
        return cast("Toolkit[_T_co]", Toolkit.of(f(tool) for tool in self))

    def prefix(self, prefix: str) -> Toolkit[_T_co]:
        """The same tools, with `prefix` before their names."""
        return self.map(lambda tool: tool.prefix(prefix))

    def rename(self, names: Mapping[str, str]) -> Toolkit[_T_co]:
        """The same tools, those in `names` under another name.

        Raises:
            KeyError: there is no tool of a name.
            ToolConflictError: two different tools have one name now.
        """
        self._require(names)
        return self.map(lambda tool: tool.rename(names.get(tool.name, tool.name)))

    def annotate_all(self, annotations: Annotations | Mapping[Annotation[Any], Any]) -> Toolkit[_T_co]:
        """The same tools, each with `annotations`."""
        return self.map(lambda tool: tool.annotate_all(annotations))

    def _require(self, names: Iterable[str]) -> None:
        for name in names:
            if name not in self._tools:
                raise KeyError(f"there is no tool {name!r}; the tools are: {', '.join(self._tools) or 'none'}")

    # -- handlers

    def to_layer(self, handlers: LayerOf[_T_co, _E, _R]) -> LayerOf[_T_co, _E, _R]:
        """The layer of this toolkit's handlers: `kit.to_layer(a.handler(f) | b.handler(g))`.

        A missing handler is a type error. What the checkers cannot see is a `HandlerError` when the layer is built: a
        missing handler among tools of one type, a second handler for a tool, one for a tool that is not here.
        """
        needed = {tool.identity: tool.name for tool in self if tool.requires_handler}

        def check(context: ContextOf[Any]) -> ContextOf[Any]:
            givers: list[Identity] = []
            services: dict[Any, Any] = {}
            for key, service in context.services.items():
                if isinstance(key, Given):
                    givers.append(key.identity)
                else:
                    services[key] = service
            if services.keys() != needed.keys() or len(set(givers)) < len(givers):
                _require_match(self, needed, givers, services)
            return ContextOf(services)

        return handlers.map_context(check)

    def as_tool(self, name: str, *, concurrency: int | None = 1, **options: Unpack[ToolOptions]) -> Composite[_T_co]:
        """One tool that makes several calls of these in one: `.tool`, and its handler, `.layer`, which needs theirs.

        `concurrency` is how many run at once (None: all). The options are the new tool's; its description lists these
        tools, and it needs approval where a call inside does. Raises `SchemaError` for no tools, or external ones.
        """
        from fxai.tools.composite import composite_of  # it imports this module

        return composite_of(self, name, concurrency, options)

    # -- calls

    def call(
        self, name: str, params: object, *, call_id: str = "", on_invalid_call: OnInvalidCall = "return"
    ) -> EffectOf[Outcome, ToolError, _T_co | None]:
        """The final outcome of a call with plain JSON data: decoded, run and encoded.

        Fails with `HandlerFailed` (failure mode `"error"`) or `InvalidResult`; with `on_invalid_call="error"` also with
        `UnknownTool` and `InvalidParameters`, which are failed outcomes otherwise.
        """
        return Call(self._tools, name, params, False, call_id, on_invalid_call).effect

    def call_json(
        self,
        name: str,
        text: bytes | str,
        *,
        call_id: str = "",
        on_invalid_call: OnInvalidCall = "return",
        limits: Limits = CALL_LIMITS,
    ) -> EffectOf[Outcome, ToolError, _T_co | None]:
        """The final outcome of a call with JSON text, as a model writes it; blank text is an empty object.

        `limits` bounds size, depth and number of values of the text, and may refuse duplicate keys. Fails as `call`.
        """
        return Call(self._tools, name, text, True, call_id, on_invalid_call, limits).effect

    def handle(
        self, name: str, params: object, *, call_id: str = "", on_invalid_call: OnInvalidCall = "return"
    ) -> StreamOf[Outcome, ToolError, _T_co | None]:
        """The outcomes of a call: the preliminary ones in order, as they come, then exactly one final.

        The handler waits until a preliminary outcome was read; leaving the stream early stops it.
        """

        def body(channel: Channel[Outcome]) -> EffectOf[None, ToolError, Any]:
            call = Call(self._tools, name, params, call_id=call_id, on_invalid_call=on_invalid_call, emit=channel.put)
            return call.effect.map(channel.offer)

        return StreamOf.from_channel(body)


def _require_match(
    toolkit: Toolkit[Any], needed: Mapping[Identity, str], givers: list[Identity], services: Mapping[Any, Any]
) -> None:
    missing = [name for identity, name in needed.items() if services.get(identity) is None]
    doubled = [identity.name for identity, number in Counter(givers).items() if number > 1]
    extra = [key.name for key in services if isinstance(key, Identity) and key not in needed]
    problems = (("no handler for", missing), ("two handlers for", doubled), ("no such tool here", extra))
    said = "; ".join(f"{what}: {', '.join(names)}" for what, names in problems if names)
    if said:
        raise HandlerError(f"the handlers do not match {toolkit!r}: {said}")


def missing_services(tools: Iterable[AnyTool], services: ContextOf[Any]) -> tuple[tuple[str, str], ...]:
    """The services that handlers of these tools say they need and that are missing here, as (tool, service) names."""
    handlers: Iterable[tuple[str, Answering | None]] = ((tool.name, services.find(tool.identity)) for tool in tools)
    found = ((name, handler) for name, handler in handlers if handler is not None)
    return tuple(
        (name, MissingServiceError(key).service) for name, handler in found for key in handler.missing(services)
    )


def _add(kept: dict[str, AnyTool], tool: Any, on_conflict: OnConflict) -> None:
    if hasattr(tool, "__fx_tool__"):  # a function tool
        tool = tool.__fx_tool__()
    if not hasattr(tool, "__fx_handler__"):
        raise SchemaError(f"a toolkit is made of tools, not of {tool!r}")
    before = kept.get(tool.name)
    if before is None or on_conflict == "last":
        kept[tool.name] = tool
    elif on_conflict == "error" and before != tool:
        raise ToolConflictError(
            f"two different tools are called {tool.name!r}: {_about(before)} and {_about(tool)}; rename or prefix one, "
            'or say on_conflict="first" or "last"'
        )


def _about(tool: AnyTool) -> str:
    made = f", made as {tool.identity.name!r}" if tool.identity.name != tool.name else ""
    return f"a {tool.kind} one ({tool.description or 'no description'}{made})"
