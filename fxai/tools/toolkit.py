"""Toolkits. Use a toolkit to offer a group of tools to a model.

A `Toolkit` is an immutable group of tools. `merge` joins two toolkits. `pick`, `omit`, and `filter` select tools from
a toolkit. `to_layer` combines the handlers of a toolkit into one layer. If a handler is missing, mypy and pyright
report it. A `BoundToolkit` is a toolkit together with the layer of its handlers.

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

from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from functools import cached_property
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Generic, Never, Protocol, Self, TypeAlias, cast, final, overload

import msgspec
from msgspec.structs import force_setattr
from typing_extensions import TypeVar, Unpack, override

from fxai.effects.effect import AnyEffect, EffectOf, Enter, Generate, Succeed
from fxai.effects.layer import AnyLayer, LayerOf, map_layer_context
from fxai.effects.mistake import MYPY
from fxai.effects.pull import Channel
from fxai.effects.stream import StreamOf
from fxai.schema.fault import SchemaError
from fxai.schema.parsing import CALL_LIMITS, Limits
from fxai.tools.annotation import Annotation, Annotations
from fxai.tools.call import Call, OnInvalidCall, Outcome
from fxai.tools.handler import check_doubled, check_handlers, check_names
from fxai.tools.identity import Identity, OnConflict, join_by_name, newcomers
from fxai.tools.tool import AnyFunctionTool, AnyTool, FunctionTool, Tool, tools_of
from fxai.tools.tool_error import ToolError, nearest_name
from fxai.tools.tool_info import CallContext
from fxai.tools.tool_options import ToolOptions

if TYPE_CHECKING:
    from fxai.effects.effect import Needs
    from fxai.effects.layer import Many, Over60, Over120, Over180, Over240, StillMissing
    from fxai.tools.aspects.aspect import Aspect
    from fxai.tools.composite import Composite
    from fxai.tools.handler_types import Gives, HandlerOf, HandlerReturn, Handling, MethodsOf

    _P = TypeVar("_P")
    _S = TypeVar("_S")
    _F = TypeVar("_F")
    _T = TypeVar("_T")
    _E = TypeVar("_E")
    _E2 = TypeVar("_E2")
    _R = TypeVar("_R", default=None)
    _R2 = TypeVar("_R2")
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
    _Missing = TypeVar("_Missing")

_T_co = TypeVar("_T_co", covariant=True)
_E_co = TypeVar("_E_co", covariant=True, default=Never)
_R_co = TypeVar("_R_co", covariant=True, default=None)


AnyBound: TypeAlias = "BoundToolkit[Any, Any, Any]"
"""A bound toolkit with unchecked types."""

_Bounds: TypeAlias = "tuple[AnyBound, ...]"


if TYPE_CHECKING:

    class _N(Protocol[_T_co]):
        """A tool, reduced to the handler that the tool needs."""

        def __fx_handler__(self) -> _T_co: ...

    class _M(Protocol[_T_co]):
        """A tool in a group of nine or more, reduced to the handler that the tool needs."""

        def __fx_handler_of_many__(self) -> _T_co: ...

    class _Handlers(Protocol[_T_contra, _T, _E_co, _R_co]):
        """A layer, reduced to the handlers that it does not supply."""

        @property
        def __fx_supply__(self) -> Callable[[_T_contra], StillMissing[_T, _E_co, _R_co]]: ...

    class _Supplying(Protocol[_T_co]):
        """A layer, seen as a function of needs: mypy then solves the type variables of the other arguments first."""

        @property
        def __fx_supply__(self) -> _T_co: ...

    class _B(Protocol[_T_co, _R_co]):
        """A function tool, a bound toolkit, or a composite, whose layer cannot fail."""

        @property
        def layer(self) -> AnyLayer: ...

        def __fx_gives__(self) -> Gives[_T_co, Never, _R_co]: ...


@final
class Toolkit(msgspec.Struct, Generic[_T_co], frozen=True, dict=True):
    """An ordered group of tools with unique names. `T` is the union of the handlers that the tools need."""

    tools: Mapping[str, AnyTool]
    """The tools by name, in order."""
    left_out: frozenset[Identity] = frozenset()
    """The identities of removed tools (`omit`, `pick`, `filter`). Type checkers still require their handlers."""

    def __post_init__(self) -> None:
        if not isinstance(self.tools, MappingProxyType):
            force_setattr(self, "tools", MappingProxyType(dict(self.tools)))

    def __reduce__(self) -> tuple[type[AnyToolkit], tuple[dict[str, AnyTool], frozenset[Identity]]]:
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
        *tools: *Over240[_M[_1], _M[_2], _M[_3], _M[_4], _M[_T]],
    ) -> Toolkit[_1 | _2 | _3 | _4 | _T]: ...
    @overload
    @staticmethod
    def make(
        *tools: *Over180[_M[_1], _M[_2], _M[_3], _M[_4], _M[_T]],
    ) -> Toolkit[_1 | _2 | _3 | _4 | _T]: ...
    @overload
    @staticmethod
    def make(
        *tools: *Over120[_M[_1], _M[_2], _M[_3], _M[_4], _M[_T]],
    ) -> Toolkit[_1 | _2 | _3 | _4 | _T]: ...
    @overload
    @staticmethod
    def make(
        *tools: *Over60[_M[_1], _M[_2], _M[_3], _M[_4], _M[_T]],
    ) -> Toolkit[_1 | _2 | _3 | _4 | _T]: ...
    @overload  # nine or more tools: if overloads overlap, `Any` in a type makes mypy give up
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
        """Return a toolkit of tools and function tools, in order. A duplicate of the same tool is ignored.

        From nine tools on, type checkers add the member `Many` to `T`, and `to_layer` supplies `Many`. If a handler of
        hundreds is missing, mypy needs minutes to name it. In toolkits of 50 tools, mypy needs seconds.

        Raises:
            ToolConflictError: If two different tools have the same name.
        """
        return Toolkit.of(tools)

    @staticmethod
    def of(tools: Iterable[_N[_T]], *, on_conflict: OnConflict = "error") -> Toolkit[_T]:
        """Return a toolkit of the tools in an iterable.

        Raises:
            ToolConflictError: If two different tools have the same name and `on_conflict` is `"error"`.
        """
        return _join({}, tools, on_conflict)

    @staticmethod
    def empty() -> Toolkit[Never]:
        """Return a toolkit without tools. `kit.merge(Toolkit.empty())` equals `kit`."""
        return Toolkit({})

    @staticmethod
    def from_object(
        obj: _T, *, name: str | None = None, only: Iterable[str] | None = None, **options: Unpack[ToolOptions]
    ) -> BoundToolkit[MethodsOf[_T], Never, None]:
        """Return the tools of an object's documented public methods, with their handlers.

        The result has the attributes `.toolkit` and `.layer`. Type checkers cannot see the services that the methods
        need.

        Args:
            obj: An object. fxai reads its methods as `tool` reads functions, and ignores methods without a docstring.
            name: Prefix of the tool names, before a dot. Default: the class name of the object. `""` omits the dot.
            only: Names of the methods to offer. Default: all public methods with a docstring.
            options: Options for each tool, see `ToolOptions`.

        Raises:
            SchemaError: If no public method has a docstring, or if fxai cannot create a tool from a method.
        """
        tools = tools_of(obj, name, only, cast("dict[str, Any]", options))
        made: BoundToolkit[Any, Never, Any] = BoundToolkit.make(*tools)
        return made

    @cached_property
    def as_tuple(self) -> tuple[AnyTool, ...]:
        """The tools in order."""
        return tuple(self.tools.values())

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The names of the tools in order."""
        return tuple(self.tools)

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
        """Tell type checkers that a toolkit supplies no handlers and needs the handlers of its tools."""
        raise NotImplementedError

    # -- toolkits from toolkits

    def merge(self, other: Toolkit[_T], *, on_conflict: OnConflict = "error") -> Toolkit[_T_co | _T]:
        """Return the tools of both toolkits, with the tools of this toolkit first.

        Raises:
            ToolConflictError: If two different tools have the same name and `on_conflict` is `"error"`.
        """
        joined = _join(self.tools, other, on_conflict)
        return _without(joined, self.left_out | other.left_out) if self.left_out or other.left_out else joined

    def pick(self, *names: str) -> Toolkit[_T_co]:
        """Return the tools with these names, in the order of this toolkit.

        Type checkers do not see names. The type of `to_layer` therefore still requires the handlers of all tools. To
        require only some handlers, create a toolkit of those tools, such as `Toolkit.make(add)`.

        Raises:
            KeyError: If no tool has one of the names.
        """
        _require(self, names)
        return self.filter(lambda tool: tool.name in names)

    def omit(self, *names: str) -> Toolkit[_T_co]:
        """Return all tools except the tools with these names. As with `pick`, `to_layer` requires all handlers.

        Raises:
            KeyError: If no tool has one of the names.
        """
        _require(self, names)
        return self.filter(lambda tool: tool.name not in names)

    def filter(self, keep: Callable[[AnyTool], bool]) -> Toolkit[_T_co]:
        """Return the tools for which `keep` returns True. As with `pick`, `to_layer` requires all handlers."""
        chosen = {name: tool for name, tool in self.tools.items() if keep(tool)}
        dropped = (tool.identity for name, tool in self.tools.items() if name not in chosen)
        return _without(Toolkit(chosen), self.left_out.union(dropped))

    def map(self, f: Callable[[AnyTool], AnyTool]) -> Toolkit[_T_co]:
        """Return the results of `f` for all tools. `f` must keep the identity: `lambda tool: tool.annotate(…)`.

        Raises:
            ToolConflictError: If two different tools then have the same name.
        """
        return _without(cast("Toolkit[_T_co]", Toolkit.of(f(tool) for tool in self)), self.left_out)

    def prefix(self, prefix: str) -> Toolkit[_T_co]:
        """Return the tools with `prefix` before their names."""
        return self.map(lambda tool: tool.prefix(prefix))

    def rename(self, names: Mapping[str, str]) -> Toolkit[_T_co]:
        """Return the tools with the new names from `names`. Other tools keep their names.

        Raises:
            KeyError: If no tool has one of the old names.
            ToolConflictError: If two different tools then have the same name.
        """
        _require(self, names)
        return self.map(lambda tool: tool.rename(names.get(tool.name, tool.name)))

    def annotate_all(self, annotations: Annotations | Mapping[Annotation[Any], Any]) -> Toolkit[_T_co]:
        """Return the tools with `annotations` added to each tool."""
        return self.map(lambda tool: tool.annotate_all(annotations))

    # -- handlers

    if MYPY:

        def to_layer(  # noqa: D102
            self, handlers: _Handlers[Needs[_T_co | None], Missing, _E, _R]
        ) -> LayerOf[_T_co, _E, _R]:
            raise NotImplementedError

    else:  # pyright checks a default in each call, and its message about a short type names the handler early

        def to_layer(
            self,
            handlers: _Handlers[Needs[_T_co | None], _Missing, _E, _R],
            *,
            missing: _Missing = None,  # noqa: ARG002
        ) -> LayerOf[_T_co, _E, _R]:
            """Return the layer of this toolkit's handlers: `kit.to_layer(a.handler(f) | b.handler(g))`.

            To merge the handlers of many tools, use `Layer.merge_all(…)`. If a handler is missing, type checkers report
            that the type variable `Missing` cannot be this handler. Type checkers cannot detect a missing handler if
            another tool has the same type, two handlers for one tool, or a handler for a tool outside this toolkit. In
            these cases, building the layer raises `HandlerError`.

            Args:
                handlers: The layer of the handlers.
                missing: For type checkers only.
            """
            return check_handlers(self.tools, cast(AnyLayer, handlers), self.left_out)

    @overload  # without a type variable for services, mypy checks each value of the mapping by itself
    def to_layer_by_name(
        self: Toolkit[HandlerOf[_P, _S, _F] | Many], handlers: Mapping[str, Handling[_P, _S, _F]]
    ) -> LayerOf[HandlerOf[_P, _S, _F] | Many]: ...
    @overload
    def to_layer_by_name(
        self: Toolkit[HandlerOf[_P, _S, _F] | Many], handlers: Mapping[str, Handling[_P, _S, _F, _R]]
    ) -> LayerOf[HandlerOf[_P, _S, _F] | Many, Never, _R | None]: ...
    def to_layer_by_name(self, handlers: Mapping[str, Any]) -> Any:
        """Return the layer of this toolkit's handlers by tool name: `kit.to_layer_by_name({"search": on_search})`.

        Use this method for tools that you know at run time, such as the tools of a plugin. All tools must have the same
        types, as dynamic tools from JSON Schemas do. Type checkers then check each handler. For tools of different
        types, use `to_layer`. If handlers of different forms need services, declare the mapping for mypy:
        `handlers: dict[str, Handling[object, object, Never, Files]]`.

        Args:
            handlers: The handler of each tool. A handler is a function as in `tool.handler`.

        Raises:
            HandlerError: If a tool has no handler, or a name is not the name of a tool that needs a handler.
        """
        check_names(self.tools, handlers)
        layers: Iterator[AnyLayer] = (self.tools[name].handler(f) for name, f in handlers.items())
        return check_handlers(self.tools, LayerOf.merge_all(*layers))

    def as_tool(self, name: str, *, concurrency: int | None = 1, **options: Unpack[ToolOptions]) -> Composite[_T_co]:
        """Return one tool that runs several calls of these tools. `.tool` is the tool, and `.layer` is its handler.

        The handler needs the handlers of this toolkit. The description of the tool lists the tools of this toolkit. A
        call needs approval if one of its inner calls needs approval.

        Args:
            name: Name of the new tool.
            concurrency: Maximum number of inner calls that run at the same time. Default: 1. None means no maximum.
            options: Options of the new tool, see `ToolOptions`.

        Raises:
            SchemaError: If the toolkit is empty or contains an external tool.
        """
        from fxai.tools.composite import composite_of  # few programs have one

        return composite_of(self, name, concurrency, options)

    # -- calls

    def call(
        self, name: str, params: object, *, call_id: str = "", on_invalid_call: OnInvalidCall = "return"
    ) -> EffectOf[Outcome, ToolError, _T_co | None]:
        """Call a tool with a JSON value and return the final outcome. fxai decodes, runs, and encodes the call.

        The effect fails with `HandlerFailed` (failure mode `"error"`) or `InvalidResult`. If `on_invalid_call` is
        `"error"`, it also fails with `UnknownTool` and `InvalidParameters`. By default, these two are failed outcomes.
        """
        return Enter(Call(self.tools, name, params, False, call_id, on_invalid_call).start)

    def call_json(
        self,
        name: str,
        text: bytes | str,
        *,
        call_id: str = "",
        on_invalid_call: OnInvalidCall = "return",
        limits: Limits = CALL_LIMITS,
    ) -> EffectOf[Outcome, ToolError, _T_co | None]:
        """Call a tool with a JSON string from a model and return the final outcome. A blank string is an empty object.

        `limits` bounds the size, depth, and number of values of the string, and can reject duplicate keys. The effect
        fails like `call`.
        """
        return Enter(Call(self.tools, name, text, True, call_id, on_invalid_call, limits).start)

    def handle(
        self, name: str, params: object, *, call_id: str = "", on_invalid_call: OnInvalidCall = "return"
    ) -> StreamOf[Outcome, ToolError, _T_co | None]:
        """Call a tool and return a stream of its outcomes: preliminary outcomes in order, then one final outcome.

        The handler waits until you read a preliminary outcome. If you close the stream early, fxai stops the handler.
        """

        def body(channel: Channel[Outcome]) -> EffectOf[None, ToolError, Any]:
            call = Call(self.tools, name, params, call_id=call_id, on_invalid_call=on_invalid_call, emit=channel.put)
            return call.effect.map(channel.offer)

        return StreamOf.from_channel(body)


AnyToolkit: TypeAlias = Toolkit[Any]
"""A toolkit of any tools."""


def _join(chosen: Mapping[str, AnyTool], tools: Iterable[object], on_conflict: OnConflict) -> AnyToolkit:
    """Return the toolkit of the tools in `chosen` and the tools and function tools in `tools`."""
    more = [_tool_of(each) for each in tools]
    joined: AnyToolkit = Toolkit(join_by_name(chosen, more, on_conflict))
    if on_conflict == "error":
        return joined
    return _without(joined, frozenset(tool.identity for tool in (*chosen.values(), *more)))


def _tool_of(member: Any) -> AnyTool:
    tool = cast("AnyFunctionTool", member).tool if isinstance(member, FunctionTool) else member
    if not isinstance(tool, Tool):
        raise SchemaError(f"toolkit members must be tools, got {member!r}. Decorate a function with @tool.")
    return cast("AnyTool", tool)


def _without(kit: Toolkit[_T], left_out: frozenset[Identity]) -> Toolkit[_T]:
    """Return the toolkit with `left_out` as its removed tools. Tools in the toolkit do not count as removed."""
    return Toolkit(kit.tools, left_out - {tool.identity for tool in kit}) if left_out else kit


def _require(kit: AnyToolkit, names: Iterable[str]) -> None:
    for name in names:
        if name not in kit.tools:
            near = nearest_name(name, kit.tools)
            raise KeyError(f"unknown tool {name!r}{near}. Use one of: {', '.join(kit.tools) or 'no tools'}")


@final
class BoundToolkit(msgspec.Struct, Generic[_T_co, _E_co, _R_co], frozen=True):
    """A toolkit with the layer of its handlers. Two bound toolkits are equal if their tools and handlers are equal.

    `T` is the union of the handlers. `E` is the failure of building the handlers. `R` is the set of services that the
    handlers need. The tools of a *live* bound toolkit can change, for example the tools of a server. To read the
    current tools, use `now`.
    """

    toolkit: Toolkit[_T_co]
    """The tools."""
    parts: tuple[tuple[object, AnyLayer], ...] = ()
    """The layers of the handlers, each with its origin."""
    renewal: EffectOf[Any] | None = None
    """An effect that returns the current tools and handlers. None if the tools cannot change."""

    if MYPY:  # mypy cannot solve a type variable with a lower bound of a toolkit and an upper bound of a layer

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
            """Return a bound toolkit of a toolkit and the layer of its handlers. A missing handler is a type error.

            Args:
                toolkit: The tools.
                layer: The layer of the handlers, such as the result of `toolkit.to_layer`.
                origin: Origin of the handlers. Merging two bound toolkits with the same origin adds its handlers once.
                    Default: the layer.
                now: An effect that returns the current tools and handlers. Default: the tools never change.
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
    @overload  # seven or more tools: if overloads overlap, `Any` in a type makes mypy give up
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
        """Combine up to six function tools and bound toolkits of different types, or any number of equal types.

        Raises:
            ToolConflictError: If two different tools have the same name.
            TypeError: If a value does not include its handlers. The message states the remedy.
        """
        made: AnyBound = BoundToolkit(Toolkit.empty())
        for each in tools:
            bound = bound_of(each)
            if bound is None:
                raise not_tools(_BOUND, each)
            made = made.merge(bound)
        return made

    @property
    def layer(self) -> LayerOf[_T_co, _E_co, _R_co]:
        """The layer of the handlers.

        If a tool has two different handlers, building the layer raises `HandlerError`.
        """
        merged: AnyLayer = LayerOf.empty()
        for _, layer in self.parts:
            merged = merged | layer
        return map_layer_context(merged, check_doubled)

    @property
    def is_live(self) -> bool:
        """True if the tools can change while the toolkit is open."""
        return self.renewal is not None

    @property
    def now(self) -> EffectOf[BoundToolkit[_T_co, _E_co, _R_co]]:
        """An effect that returns the current bound toolkit. If the toolkit is not live, it never changes."""
        return Succeed(self) if self.renewal is None else self.renewal

    def call(
        self, name: str, params: object, *, call_id: str = "", on_invalid_call: OnInvalidCall = "return"
    ) -> EffectOf[Outcome, ToolError | _E_co, _R_co | None]:
        """Call a tool with a JSON value and return the final outcome. fxai builds the handlers for this call.

        The effect fails like `Toolkit.call`, or with a failure of building the handlers. If the toolkit is live, fxai
        uses the current tools.
        """

        def call_now(kit: AnyBound) -> AnyEffect:
            return kit.layer(kit.toolkit.call(name, params, call_id=call_id, on_invalid_call=on_invalid_call))

        made: AnyEffect = call_now(self) if self.renewal is None else self.renewal.flat_map(call_now)
        return made

    def __fx_gives__(self) -> Gives[_T_co, _E_co, _R_co]:
        """Tell type checkers the handlers, their failures, and the services that they need."""
        raise NotImplementedError

    def __fx_bound__(self) -> Self:
        """Return this bound toolkit."""
        return self

    # -- bound toolkits from bound toolkits

    def merge(
        self, other: BoundToolkit[_T, _E2, _R2], *, on_conflict: OnConflict = "error"
    ) -> BoundToolkit[_T_co | _T, _E_co | _E2, _R_co | _R2]:
        """Return the tools and handlers of both, with the tools of this toolkit first.

        Handlers with the same origin are added once. If a live toolkit later adds a tool whose name is taken, fxai
        ignores the new tool and logs a warning.

        Raises:
            ToolConflictError: If two different tools have the same name and `on_conflict` is `"error"`.
        """
        origins = [origin for origin, _ in self.parts]
        parts = (*self.parts, *(part for part in other.parts if part[0] not in origins))
        toolkit = self.toolkit.merge(other.toolkit, on_conflict=on_conflict)
        made: AnyBound = BoundToolkit(toolkit, parts)
        _follow(made, (self, other), lambda now, was, made: _merge_again(now, was, made, on_conflict))
        return made

    def without_handlers_of(self, other: AnyBound) -> Self:
        """Return the same tools without the handlers from `other`'s origins. A live bound toolkit stays unchanged."""
        theirs = [origin for origin, _ in other.parts]
        parts = tuple(part for part in self.parts if part[0] not in theirs)
        return self if self.is_live else type(self)(self.toolkit, parts)

    def with_toolkit(self, f: Callable[[Toolkit[_T_co]], Toolkit[_T_co]]) -> Self:
        """Return the handlers with the toolkit that `f` returns: `lambda kit: kit.omit("reset").prefix("calc.")`.

        If the toolkit is live, fxai calls `f` again after each change. If `f` raises then, fxai keeps the previous
        tools and logs the error.
        """
        made = type(self)(f(self.toolkit), self.parts)
        _follow(made, (self,), lambda now, _before, _made: now[0].with_toolkit(f))
        return made

    def prefix(self, prefix: str) -> Self:
        """Return this bound toolkit with `prefix` before the names of its tools."""
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


# -- live toolkits: a change of the tools must not end a run


def _follow(made: AnyBound, of: _Bounds, make: Callable[[_Bounds, _Bounds, AnyBound], AnyBound]) -> None:
    """Make `made`, a combination of `of`, follow later changes of `of`.

    `make` combines the current bound toolkits, from their previous state and the previous combination. If it raises,
    the previous tools stay.
    """
    if not any(bound.is_live for bound in of):
        return
    last = of, made  # one variable, so that other threads see a consistent pair

    def renew() -> Generator[EffectOf[Any], Any, AnyBound]:
        nonlocal last
        now: _Bounds = ()
        for bound in of:
            now = (*now, (yield bound.now))
        before, latest = last
        if any(each is not then for each, then in zip(now, before, strict=True)):
            try:
                latest = make(now, before, latest)
            except Exception as error:  # from a function for the previous tools
                _warn("cannot apply the change of the tools, so the previous tools stay: %s", error)
            last = now, latest
        return latest

    force_setattr(made, "renewal", Generate(renew, (), {}))


def _merge_again(now: _Bounds, before: _Bounds, made: AnyBound, on_conflict: OnConflict) -> AnyBound:
    """Merge two bound toolkits again. If two tools now have the same name, remove one instead of raising an error."""
    first, second = now
    if on_conflict != "error":
        return first.merge(second, on_conflict=on_conflict)
    then = [bound.toolkit.tools for bound in before]
    left_out, new = newcomers((first.toolkit.tools, second.toolkit.tools), (then[0], then[1]), made.toolkit.tools)
    for name in new:
        _warn("ignored the new tool %r, because another tool has this name. Add a prefix to one source.", name)
    return _omit(first, left_out[0]).merge(_omit(second, left_out[1]))


def _omit(bound: AnyBound, names: set[str]) -> AnyBound:
    return bound.with_toolkit(lambda kit: kit.omit(*names)) if names else bound


def _warn(message: str, *about: object) -> None:
    import logging  # only live tools need it

    logging.getLogger("fxai.tools").warning(message, *about)


@overload  # repeated below, because mypy reports the first overload and pyright reports the last
def bind(
    tool: Tool[_P, _S, _F], f: Callable[[_P], HandlerReturn[_S, _F, _R]], /, *, aspect: Aspect[_R] | None = ...
) -> BoundToolkit[HandlerOf[_P, _S, _F], Never, _R | None]: ...
@overload
def bind(
    tool: Tool[_P, _S, _F],
    f: Callable[[_P, CallContext], HandlerReturn[_S, _F, _R]],
    /,
    *,
    aspect: Aspect[_R] | None = ...,
) -> BoundToolkit[HandlerOf[_P, _S, _F], Never, _R | None]: ...
@overload
def bind(
    tool: Tool[_P, _S, _F], f: Callable[[_P], HandlerReturn[_S, _F, _R]], /, *, aspect: Aspect[_R] | None = ...
) -> BoundToolkit[HandlerOf[_P, _S, _F], Never, _R | None]: ...
def bind(tool: AnyTool, f: Callable[..., Any], /, *, aspect: Aspect[Any] | None = None) -> Any:
    """Return a tool together with its handler `f`, as a toolkit of one tool.

    For example, write `at.composite("notes", bind(read, on_read), bind(write, on_write))` or
    `agent.with_tools(bind(read, on_read))`.

    Args:
        tool: The tool.
        f: The handler, see `tool.handler`.
        aspect: An aspect around the handler. Default: None.
    """
    layer: AnyLayer = tool.handler(f)
    made: AnyBound = BoundToolkit.of(Toolkit.of((tool,)), layer if aspect is None else aspect.wrap(layer))
    return made


def bound_of(origin: object) -> AnyBound | None:
    """Return a function tool, composite, or bound toolkit as a bound toolkit. Return None for other sources.

    Raises:
        TypeError: If the value does not include its handlers. The message states the remedy.
    """
    if isinstance(origin, type) or not hasattr(origin, "__fx_bound__"):
        raise not_tools(_BOUND, origin)
    given: Any = cast(Any, origin).__fx_bound__()
    if isinstance(given, tuple):
        tool, layer = cast("tuple[AnyTool, AnyLayer]", given)
        return BoundToolkit.of(Toolkit.of((tool,)), layer, origin=origin)
    bound: AnyBound | None = given if isinstance(cast(object, given), BoundToolkit) else None
    return bound


_BOUND = "tools must include their handlers"
_SHOWN = 80  # maximum number of shown characters


def not_tools(requirement: str, given: Any) -> TypeError:
    """Return the error for a value that does not have the required tools. The message states the remedy."""
    text = repr(given)
    what = text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"
    if isinstance(given, Tool):
        what = f"the tool {given.name!r}"
    return TypeError(f"{requirement}, got {what}.{_remedy(given)}")


def _remedy(given: Any) -> str:
    if isinstance(given, Tool):
        return " Add its handler: bind(tool, f)."
    if isinstance(given, Toolkit):
        return " Add its handlers: BoundToolkit.of(kit, kit.to_layer(…))."
    if isinstance(given, Iterable) and not isinstance(given, str | bytes):
        return " Pass its elements: *tools."
    if hasattr(given, "as_tool"):
        return " Convert an agent with agent.as_tool(…)."
    if isinstance(given, LayerOf):
        return " Provide a layer of handlers to the run, or combine it with its toolkit: BoundToolkit.of(…)."
    if isinstance(given, str):
        return " Pass the tool itself, not its name."
    if isinstance(given, type):
        return f" To use the methods of an object as tools, pass Toolkit.from_object({given.__name__}())."
    if hasattr(given, "__fx_bound__"):
        return " Open the source with source.use(…), or pass it to an agent: agent.with_tools(source)."
    if getattr(given, "__name__", "") == "<lambda>":
        return " Write a function with `def`, annotations, and a docstring, and put @tool on it."
    if callable(given):
        return " Convert a function with fxai.tool(f) or @tool."
    if given is None or isinstance(given, int | float | bytes):
        return ""
    return " To use the methods of an object as tools, pass Toolkit.from_object(obj)."
