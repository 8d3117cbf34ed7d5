"""Toolkits: tools that are offered together, alone or with the handlers that answer them.

A `Toolkit` is a value; `merge` joins two, `pick`, `omit` and `filter` choose from one. Its handlers join it through
`to_layer`, which both checkers refuse when one is missing. A `BoundToolkit` is a toolkit with its layer.

>>> from fxai.effects import fx
>>> from fxai.tools.tool import Tool
>>> from returns.result import Success
>>> six = Tool.make("six", success=int)
>>> kit = Toolkit.make(six)
>>> fx.run_sync(kit.call("six", {}).provide(kit.to_layer(six.handler(lambda _: Success(6))))).result
6
"""

# pyright takes the overloads for hundreds of arguments for ones that also match a few, and reads what is for mypy.
# pyright: reportOverlappingOverload=false, reportRedeclaration=false

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Generic, Never, Protocol, Self, TypeAlias, cast, final, overload

import msgspec
from msgspec.structs import force_setattr
from typing_extensions import TypeVar, Unpack, override

from fxai.effects.effect import AnyEffect, EffectOf, Needs, Succeed
from fxai.effects.layer import AnyLayer, Dozens, Hundreds, LayerOf, Many, StillMissing
from fxai.effects.mistake import MYPY
from fxai.effects.pull import Channel
from fxai.effects.stream import StreamOf
from fxai.schema.fault import SchemaError
from fxai.schema.parsing import CALL_LIMITS, Limits
from fxai.tools.call import Call, OnInvalidCall, Outcome
from fxai.tools.function import tools_of
from fxai.tools.handler import Gives, MethodsOf, check_doubled, check_handlers
from fxai.tools.identity import Identity, OnConflict, join_by_name
from fxai.tools.live_tools import follow, merge_again
from fxai.tools.tool import AnyFunctionTool, AnyTool, FunctionTool, Tool
from fxai.tools.tool_error import ToolError, nearest_name
from fxai.tools.tool_options import Annotation, Annotations, ToolOptions

if TYPE_CHECKING:
    from fxai.tools.composite import Composite

_T = TypeVar("_T")
_E = TypeVar("_E")
_E2 = TypeVar("_E2")
_R = TypeVar("_R")
_R2 = TypeVar("_R2")
_T_co = TypeVar("_T_co", covariant=True)
_E_co = TypeVar("_E_co", covariant=True, default=Never)
_R_co = TypeVar("_R_co", covariant=True, default=None)
_1 = TypeVar("_1")
_2 = TypeVar("_2")
_3 = TypeVar("_3")
_4 = TypeVar("_4")
_5 = TypeVar("_5")
_6 = TypeVar("_6")
_7 = TypeVar("_7")
_8 = TypeVar("_8")
_R1 = TypeVar("_R1")
_R3 = TypeVar("_R3")
_R4 = TypeVar("_R4")
_R5 = TypeVar("_R5")
_R6 = TypeVar("_R6")

_T_contra = TypeVar("_T_contra", contravariant=True)
Missing = TypeVar("Missing", bound="Many | None")

AnyBound: TypeAlias = "BoundToolkit[Any, Any, Any]"
"""A bound toolkit whose types are looked at nowhere."""


class _N(Protocol[_T_co]):
    """A tool, seen as the handler that it needs."""

    def __fx_handler__(self) -> _T_co: ...


class _M(Protocol[_T_co]):
    """A tool of many, seen as the handler that it needs."""

    def __fx_handler_of_many__(self) -> _T_co: ...


class _Handlers(Protocol[_T_contra, _T_co, _E_co, _R_co]):
    """A layer, seen by what is still missing of what it is asked for."""

    @property
    def __fx_supply__(self) -> Callable[[_T_contra], StillMissing[_T_co, _E_co, _R_co]]: ...


class _Supplying(Protocol[_T_co]):
    """A layer, seen as a function of needs: mypy then solves the type variables of the other arguments first."""

    @property
    def __fx_supply__(self) -> _T_co: ...


class _B(Protocol[_T_co, _R_co]):
    """What comes with its handlers, and whose layer cannot fail: a function tool, a bound toolkit, a composite."""

    @property
    def layer(self) -> AnyLayer: ...

    def __fx_gives__(self) -> Gives[_T_co, Never, _R_co]: ...


@final
class Toolkit(msgspec.Struct, Generic[_T_co], frozen=True):
    """Tools by name, in order. `T` is the union of the handlers that they need."""

    tools: Mapping[str, AnyTool]
    """The tools by name, in order."""
    left_out: frozenset[Identity] = frozenset()
    """The identities of the tools that were left out by name or by a function: types ask for their handlers still."""

    def __post_init__(self) -> None:
        if not isinstance(self.tools, MappingProxyType):
            force_setattr(self, "tools", MappingProxyType(dict(self.tools)))

    def __reduce__(self) -> tuple[type[Toolkit[Any]], tuple[dict[str, AnyTool], frozenset[Identity]]]:
        return (Toolkit, (dict(self.tools), self.left_out))

    @overload
    @staticmethod
    def make() -> Toolkit[Never]: ...
    @overload
    @staticmethod
    def make(a: _N[_1], /) -> Toolkit[_1]: ...
    @overload
    @staticmethod
    def make(a: _N[_1], b: _N[_2], /) -> Toolkit[_1 | _2]: ...
    @overload
    @staticmethod
    def make(a: _N[_1], b: _N[_2], c: _N[_3], /) -> Toolkit[_1 | _2 | _3]: ...
    @overload
    @staticmethod
    def make(a: _N[_1], b: _N[_2], c: _N[_3], d: _N[_4], /) -> Toolkit[_1 | _2 | _3 | _4]: ...
    @overload
    @staticmethod
    def make(a: _N[_1], b: _N[_2], c: _N[_3], d: _N[_4], e: _N[_5], /) -> Toolkit[_1 | _2 | _3 | _4 | _5]: ...
    @overload
    @staticmethod
    def make(
        a: _N[_1], b: _N[_2], c: _N[_3], d: _N[_4], e: _N[_5], f: _N[_6], /
    ) -> Toolkit[_1 | _2 | _3 | _4 | _5 | _6]: ...
    @overload
    @staticmethod
    def make(
        a: _N[_1], b: _N[_2], c: _N[_3], d: _N[_4], e: _N[_5], f: _N[_6], g: _N[_7], /
    ) -> Toolkit[_1 | _2 | _3 | _4 | _5 | _6 | _7]: ...
    @overload
    @staticmethod
    def make(
        a: _N[_1], b: _N[_2], c: _N[_3], d: _N[_4], e: _N[_5], f: _N[_6], g: _N[_7], h: _N[_8], /
    ) -> Toolkit[_1 | _2 | _3 | _4 | _5 | _6 | _7 | _8]: ...
    @overload
    @staticmethod
    def make(
        *tools: *Hundreds[_M[_1], _M[_2], _M[_3], _M[_4], _M[_T]],
    ) -> Toolkit[_1 | _2 | _3 | _4 | _T]: ...
    @overload
    @staticmethod
    def make(
        *tools: *Dozens[_M[_1], _M[_2], _M[_3], _M[_4], _M[_T]],
    ) -> Toolkit[_1 | _2 | _3 | _4 | _T]: ...
    @overload  # of nine at least: where this one and one above both fit, `Any` in a type makes mypy give up
    @staticmethod
    def make(
        a: _M[_T],
        b: _M[_T],
        c: _M[_T],
        d: _M[_T],
        e: _M[_T],
        f: _M[_T],
        g: _M[_T],
        h: _M[_T],
        i: _M[_T],
        /,
        *tools: _M[_T],
    ) -> Toolkit[_T]: ...
    @staticmethod
    def make(*tools: Any) -> Any:
        """The toolkit of `tools` and function tools, in their order. The same tool twice is one tool.

        For checkers, `T` of nine and more has the member `Many`, which `to_layer` supplies. If a handler of hundreds
        is missing, mypy needs minutes to name it. Toolkits of 50 tools take seconds.

        Raises:
            ToolConflictError: two different tools have one name.
        """
        return Toolkit.of(tools)

    @staticmethod
    def of(tools: Iterable[_N[_T]], *, on_conflict: OnConflict = "error") -> Toolkit[_T]:
        """The toolkit of an iterable of tools.

        Raises:
            ToolConflictError: two different tools have one name, unless `on_conflict` says which to keep.
        """
        return _join({}, tools, on_conflict)

    @staticmethod
    def empty() -> Toolkit[Never]:
        """The toolkit without tools: `kit.merge(Toolkit.empty())` is `kit`."""
        return Toolkit({})

    @staticmethod
    def from_object(
        obj: _T, *, name: str | None = None, only: Iterable[str] | None = None, **options: Unpack[ToolOptions]
    ) -> BoundToolkit[MethodsOf[_T], Never, None]:
        """The tools of an object's public methods that have a docstring, with their handlers: `.toolkit`, `.layer`.

        Args:
            obj: its methods are taken apart as functions are by `tool`; those without a docstring are not offered.
            name: what stands before the dot of each tool's name; by default the object's class, `""` for no dot.
            only: the methods to offer; by default each that is described.
            options: for each tool, see `ToolOptions`.

        What services such methods need is not seen by checkers. Raises `SchemaError` where no method is described, or
        one that is cannot be a tool.
        """
        tools = tools_of(obj, name, only, cast("dict[str, Any]", options), FunctionTool)
        made: BoundToolkit[Any, Never, Any] = BoundToolkit.make(*tools)
        return made

    @property
    def as_tuple(self) -> tuple[AnyTool, ...]:
        """The tools in order."""
        return tuple(self.tools.values())

    def __iter__(self) -> Iterator[AnyTool]:
        return iter(self.tools.values())

    def __len__(self) -> int:
        return len(self.tools)

    def __contains__(self, name: object) -> bool:
        return name in self.tools

    @override
    def __eq__(self, other: object) -> bool:
        return isinstance(other, Toolkit) and list(self) == list(cast(Any, other))

    @override
    def __hash__(self) -> int:
        return hash(tuple(self))

    @override
    def __repr__(self) -> str:
        return f"Toolkit({', '.join(self.tools)})"

    def __fx_gives__(self) -> Gives[Never, Never, _T_co]:
        """For checkers: it gives no handlers, and needs those of its tools."""
        raise NotImplementedError

    # -- toolkits from toolkits

    def merge(self, other: Toolkit[_T], *, on_conflict: OnConflict = "error") -> Toolkit[_T_co | _T]:
        """The tools of both, these first.

        Raises:
            ToolConflictError: two different tools have one name, unless `on_conflict` says which to keep.
        """
        joined = _join(self.tools, other, on_conflict)
        return _without(joined, self.left_out | other.left_out) if self.left_out or other.left_out else joined

    def pick(self, *names: str) -> Toolkit[_T_co]:
        """The tools of these names, in this toolkit's order.

        Names say nothing to checkers, so `to_layer` takes, as its type says, the handlers of all the tools. To need
        those of a few alone, make a toolkit of these: `Toolkit.make(add)`.

        Raises:
            KeyError: there is no tool of a name.
        """
        _require(self, names)
        return self.filter(lambda tool: tool.name in names)

    def omit(self, *names: str) -> Toolkit[_T_co]:
        """All tools but those of these names; as with `pick`, `to_layer` takes the handlers of all.

        Raises:
            KeyError: there is no tool of a name.
        """
        _require(self, names)
        return self.filter(lambda tool: tool.name not in names)

    def filter(self, keep: Callable[[AnyTool], bool]) -> Toolkit[_T_co]:
        """The tools for which `keep` is true; as with `pick`, `to_layer` takes the handlers of all."""
        chosen = {name: tool for name, tool in self.tools.items() if keep(tool)}
        dropped = (tool.identity for name, tool in self.tools.items() if name not in chosen)
        return _without(Toolkit(chosen), self.left_out.union(dropped))

    def map(self, f: Callable[[AnyTool], AnyTool]) -> Toolkit[_T_co]:
        """Each tool changed by `f`, which keeps its identity: `lambda tool: tool.annotate(…)`.

        Raises:
            ToolConflictError: two different tools have one name now.
        """
        return _without(cast("Toolkit[_T_co]", Toolkit.of(f(tool) for tool in self)), self.left_out)

    def prefix(self, prefix: str) -> Toolkit[_T_co]:
        """The same tools, with `prefix` before their names."""
        return self.map(lambda tool: tool.prefix(prefix))

    def rename(self, names: Mapping[str, str]) -> Toolkit[_T_co]:
        """The same tools, those in `names` under another name.

        Raises:
            KeyError: there is no tool of a name.
            ToolConflictError: two different tools have one name now.
        """
        _require(self, names)
        return self.map(lambda tool: tool.rename(names.get(tool.name, tool.name)))

    def annotate_all(self, annotations: Annotations | Mapping[Annotation[Any], Any]) -> Toolkit[_T_co]:
        """The same tools, each with `annotations`."""
        return self.map(lambda tool: tool.annotate_all(annotations))

    # -- handlers

    def to_layer(self, handlers: _Handlers[Needs[_T_co | None], Missing, _E, _R]) -> LayerOf[_T_co, _E, _R]:
        """The layer of this toolkit's handlers: `kit.to_layer(a.handler(f) | b.handler(g))`.

        Those of many tools are merged by `Layer.merge_all(…)`. A missing handler is a type error, which says that the
        type variable `Missing` cannot be that handler. What the checkers cannot see is a `HandlerError` when the layer
        is built: a missing handler among tools of one type, a second one for a tool, one for a tool of others.
        """
        return check_handlers(self.tools, cast(AnyLayer, handlers), self.left_out)

    def as_tool(self, name: str, *, concurrency: int | None = 1, **options: Unpack[ToolOptions]) -> Composite[_T_co]:
        """One tool that makes several calls of these in one: `.tool`, and its handler, `.layer`, which needs theirs.

        `concurrency` is how many run at once (None: all). The options are the new tool's; its description lists these
        tools, and it needs approval where a call inside does. Raises `SchemaError` for no tools, or external ones.
        """
        from fxai.tools.composite import composite_of  # few programs have one

        return composite_of(self, name, concurrency, options)

    # -- calls

    def call(
        self, name: str, params: object, *, call_id: str = "", on_invalid_call: OnInvalidCall = "return"
    ) -> EffectOf[Outcome, ToolError, _T_co | None]:
        """The final outcome of a call with plain JSON data: decoded, run and encoded.

        Fails with `HandlerFailed` (failure mode `"error"`) or `InvalidResult`; with `on_invalid_call="error"` also with
        `UnknownTool` and `InvalidParameters`, which are failed outcomes otherwise.
        """
        return Call(self.tools, name, params, False, call_id, on_invalid_call).effect

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
        return Call(self.tools, name, text, True, call_id, on_invalid_call, limits).effect

    def handle(
        self, name: str, params: object, *, call_id: str = "", on_invalid_call: OnInvalidCall = "return"
    ) -> StreamOf[Outcome, ToolError, _T_co | None]:
        """The outcomes of a call: the preliminary ones in order, as they come, then exactly one final.

        The handler waits until a preliminary outcome was read; leaving the stream early stops it.
        """

        def body(channel: Channel[Outcome]) -> EffectOf[None, ToolError, Any]:
            call = Call(self.tools, name, params, call_id=call_id, on_invalid_call=on_invalid_call, emit=channel.put)
            return call.effect.map(channel.offer)

        return StreamOf.from_channel(body)


def _join(chosen: Mapping[str, AnyTool], tools: Iterable[object], on_conflict: OnConflict) -> Toolkit[Any]:
    """The toolkit of some tools and of more, function tools among them."""
    more: list[AnyTool] = []
    for each in cast("Iterable[Any]", tools):
        tool = cast("AnyFunctionTool", each).tool if isinstance(each, FunctionTool) else each
        if not isinstance(tool, Tool):
            raise SchemaError(f"a toolkit is made of tools, not of {each!r}")
        more.append(cast("AnyTool", tool))
    joined: Toolkit[Any] = Toolkit(join_by_name(chosen, more, on_conflict))
    if on_conflict == "error":
        return joined
    return _without(joined, frozenset(tool.identity for tool in (*chosen.values(), *more)))


def _without(kit: Toolkit[_T], left_out: frozenset[Identity]) -> Toolkit[_T]:
    """The toolkit, with these among the tools that were left out, but for those that are there."""
    return Toolkit(kit.tools, left_out - {tool.identity for tool in kit}) if left_out else kit


def _require(kit: Toolkit[Any], names: Iterable[str]) -> None:
    for name in names:
        if name not in kit.tools:
            near = nearest_name(name, kit.tools)
            raise KeyError(f"there is no tool {name!r}{near}; the tools are: {', '.join(kit.tools) or 'none'}")


@final
class BoundToolkit(msgspec.Struct, Generic[_T_co, _E_co, _R_co], frozen=True):
    """A toolkit with the layer of its handlers: an immutable value, equal to one of the same tools and handlers.

    `T` is the union of the handlers, `E` what building them fails with, `R` what they need. One that is live comes
    from where tools come and go, such as a server: `now` gives it as it is then.
    """

    toolkit: Toolkit[_T_co]
    """The tools."""
    parts: tuple[tuple[object, AnyLayer], ...] = ()
    """The layers of the handlers, each with its origin."""
    renewal: EffectOf[Any] | None = None
    """Gives it as it is then, where its tools may change."""

    if MYPY:  # which cannot solve a type variable that a toolkit bounds from below, and a layer from above

        @staticmethod
        def of(  # noqa: D102
            toolkit: Toolkit[_T],
            layer: _Supplying[Callable[[Needs[_T | None]], StillMissing[Missing, _E, _R]]],
            *,
            origin: object = None,
            now: EffectOf[BoundToolkit[_T, _E, _R]] | None = None,
        ) -> BoundToolkit[_T, _E, _R]:
            raise NotImplementedError

    else:

        @staticmethod
        def of(
            toolkit: Toolkit[_T],
            layer: LayerOf[_T, _E, _R],
            *,
            origin: object = None,
            now: EffectOf[BoundToolkit[_T, _E, _R]] | None = None,
        ) -> BoundToolkit[_T, _E, _R]:
            """Return a toolkit with the layer of its handlers. A missing handler is a type error, as in `to_layer`.

            Args:
                toolkit: the tools.
                layer: the layer of their handlers.
                origin: where those are from, by default the layer: bound toolkits of one origin are not merged twice.
                now: gives it as it is when it is asked, where its tools may change; by default they do not.
            """
            return BoundToolkit(toolkit, ((layer if origin is None else origin, layer),), now)

    @overload
    @staticmethod
    def make() -> BoundToolkit[Never]: ...
    @overload
    @staticmethod
    def make(a: _B[_1, _R1], /) -> BoundToolkit[_1, Never, _R1]: ...
    @overload
    @staticmethod
    def make(a: _B[_1, _R1], b: _B[_2, _R2], /) -> BoundToolkit[_1 | _2, Never, _R1 | _R2]: ...
    @overload
    @staticmethod
    def make(
        a: _B[_1, _R1], b: _B[_2, _R2], c: _B[_3, _R3], /
    ) -> BoundToolkit[_1 | _2 | _3, Never, _R1 | _R2 | _R3]: ...
    @overload
    @staticmethod
    def make(
        a: _B[_1, _R1], b: _B[_2, _R2], c: _B[_3, _R3], d: _B[_4, _R4], /
    ) -> BoundToolkit[_1 | _2 | _3 | _4, Never, _R1 | _R2 | _R3 | _R4]: ...
    @overload
    @staticmethod
    def make(
        a: _B[_1, _R1], b: _B[_2, _R2], c: _B[_3, _R3], d: _B[_4, _R4], e: _B[_5, _R5], /
    ) -> BoundToolkit[_1 | _2 | _3 | _4 | _5, Never, _R1 | _R2 | _R3 | _R4 | _R5]: ...
    @overload
    @staticmethod
    def make(
        a: _B[_1, _R1], b: _B[_2, _R2], c: _B[_3, _R3], d: _B[_4, _R4], e: _B[_5, _R5], f: _B[_6, _R6], /
    ) -> BoundToolkit[_1 | _2 | _3 | _4 | _5 | _6, Never, _R1 | _R2 | _R3 | _R4 | _R5 | _R6]: ...
    @overload  # of seven at least: where both this one and one above fit, `Any` in a type makes mypy give up
    @staticmethod
    def make(
        a: _B[_T, _R],
        b: _B[_T, _R],
        c: _B[_T, _R],
        d: _B[_T, _R],
        e: _B[_T, _R],
        f: _B[_T, _R],
        g: _B[_T, _R],
        /,
        *tools: _B[_T, _R],
    ) -> BoundToolkit[_T, Never, _R]: ...
    @staticmethod
    def make(*tools: Any) -> Any:
        """Function tools and bound toolkits as one; up to six of different types, any number of one type.

        Raises:
            ToolConflictError: two different tools have one name.
        """
        made: AnyBound = BoundToolkit(Toolkit.empty())
        for each in tools:
            made = made.merge(cast("AnyBound", bound_of(each)))
        return made

    @property
    def layer(self) -> LayerOf[_T_co, _E_co, _R_co]:
        """The layer of their handlers.

        Building it raises `HandlerError` where one tool has two different handlers.
        """
        merged: AnyLayer = LayerOf.empty()
        for _, layer in self.parts:
            merged = merged | layer
        return merged.map_context(check_doubled)

    @property
    def is_live(self) -> bool:
        """True where its tools may change while it is open."""
        return self.renewal is not None

    @property
    def now(self) -> EffectOf[BoundToolkit[_T_co, _E_co, _R_co]]:
        """The bound toolkit as it is when the effect runs: itself, unless it is live."""
        return Succeed(self) if self.renewal is None else self.renewal

    def call(
        self, name: str, params: object, *, call_id: str = "", on_invalid_call: OnInvalidCall = "return"
    ) -> EffectOf[Outcome, ToolError | _E_co, _R_co | None]:
        """The final outcome of a call with plain JSON data, by its own handlers, which are built for the call.

        Fails as `Toolkit.call` does, and with what building the handlers fails with. A live one is
        what it is then.
        """

        def call_now(kit: AnyBound) -> AnyEffect:
            return kit.layer(kit.toolkit.call(name, params, call_id=call_id, on_invalid_call=on_invalid_call))

        made: EffectOf[Any, Any, Any] = call_now(self) if self.renewal is None else self.renewal.flat_map(call_now)
        return made

    def __fx_gives__(self) -> Gives[_T_co, _E_co, _R_co]:
        """For checkers: what it gives."""
        raise NotImplementedError

    def __fx_bound__(self) -> Self:
        """Itself."""
        return self

    # -- bound toolkits from bound toolkits

    def merge(
        self, other: BoundToolkit[_T, _E2, _R2], *, on_conflict: OnConflict = "error"
    ) -> BoundToolkit[_T_co | _T, _E_co | _E2, _R_co | _R2]:
        """The tools of both, these first, with the handlers of both; handlers of one origin are taken once.

        Where one is live and gets a tool whose name another one has, the newcomer is left out and that is logged.

        Raises:
            ToolConflictError: two different tools have one name, unless `on_conflict` says which to keep.
        """
        origins = [origin for origin, _ in self.parts]
        parts = (*self.parts, *(part for part in other.parts if part[0] not in origins))
        toolkit = self.toolkit.merge(other.toolkit, on_conflict=on_conflict)
        made: AnyBound = BoundToolkit(toolkit, parts)
        follow(made, (self, other), lambda now, was, made: merge_again(now, was, made, on_conflict))
        return made

    def without_handlers_of(self, other: AnyBound) -> Self:
        """The same tools, with those handlers whose origin is none of `other`'s; a live one is itself."""
        theirs = [origin for origin, _ in other.parts]
        parts = tuple(part for part in self.parts if part[0] not in theirs)
        return self if self.is_live else type(self)(self.toolkit, parts)

    def with_toolkit(self, f: Callable[[Toolkit[_T_co]], Toolkit[_T_co]]) -> Self:
        """The same handlers, with what `f` makes of the tools: `lambda kit: kit.omit("reset").prefix("calc.")`.

        Of live ones it is asked again when they have changed. Where it raises then, they stay as they were, and that is
        logged.
        """
        made = type(self)(f(self.toolkit), self.parts)
        follow(made, (self,), lambda now, _before, _made: now[0].with_toolkit(f))
        return made

    def prefix(self, prefix: str) -> Self:
        """The same, with `prefix` before the tools' names."""
        return self.with_toolkit(lambda kit: kit.prefix(prefix))

    # -- as a value

    @override
    def __eq__(self, other: object) -> bool:
        if not isinstance(other, BoundToolkit):
            return NotImplemented
        theirs: AnyBound = cast(Any, other)
        return self.toolkit == theirs.toolkit and [p[0] for p in self.parts] == [p[0] for p in theirs.parts]

    @override
    def __hash__(self) -> int:
        return hash((BoundToolkit, self.toolkit))

    @override
    def __repr__(self) -> str:
        return f"BoundToolkit({', '.join(self.toolkit.tools)})"


def bound_of(origin: object) -> AnyBound | None:
    """A function tool, a composite or a bound toolkit as a bound toolkit; None of what has to be opened first."""
    given: Any = cast(Any, origin).__fx_bound__()
    if isinstance(given, tuple):
        tool, layer = cast("tuple[AnyTool, AnyLayer]", given)
        return BoundToolkit.of(Toolkit.of((tool,)), layer, origin=origin)
    bound: AnyBound | None = given if isinstance(cast(object, given), BoundToolkit) else None
    return bound
