"""Tools for a run: combine tools with the handlers that they include. `Agent.with_tools` uses this module.

Each name occurs only once. Tools and toolkits need their handlers from a layer. Function tools,
bound toolkits, and tool sources include their handlers. fxai opens a source for the run.

>>> from fxai.tools.tool import Tool
>>> add, double = Tool.make("add", success=int), Tool.make("double", success=int)
>>> both = Binding.of((add, double))
>>> both.toolkit, both.with_offers((double, add)) == both
(Toolkit(add, double), True)
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator
from inspect import isclass
from typing import Any, Protocol, TypeGuard, cast, final, get_args

import msgspec
from typing_extensions import TypeVar, override

from fxai.effects.constructor import gen
from fxai.effects.effect import AnyEffect, EffectOf, Succeed
from fxai.tools.handler_types import Gives
from fxai.tools.identity import OnConflict
from fxai.tools.source import ToolSource
from fxai.tools.tool import AnyTool, Tool
from fxai.tools.toolkit import AnyBound, AnyToolkit, BoundToolkit, Toolkit, bound_of, not_tools

_E_co = TypeVar("_E_co", covariant=True)
_R_co = TypeVar("_R_co", covariant=True)

_EMPTY: AnyToolkit = Toolkit.empty()
_NOTHING: AnyBound = BoundToolkit(_EMPTY, ())


class Offered(Protocol[_E_co, _R_co]):
    """Any value that an agent accepts as tools: a tool, toolkit, function tool, bound toolkit, or tool source.

    `E` contains the failures of opening it. `R` contains its requirements: the handlers of tools, and the services of a
    source.
    """

    def __fx_gives__(self) -> Gives[Any, _E_co, _R_co]:
        """Declare the types of the tools for type checkers."""
        ...


@final
class Offer(msgspec.Struct, frozen=True):
    """The tools of an origin, and the tool to keep if one of them has the name of an earlier tool."""

    origin: Any
    """A toolkit, a bound toolkit, or an object with a tool source."""
    on_conflict: OnConflict = "error"
    """The treatment of a name that an earlier tool has."""

    @property
    def bound(self) -> AnyBound | None:
        """The tools with their included handlers, or None if fxai must open the source first."""
        if _is_toolkit(self.origin):
            return BoundToolkit(self.origin, ())
        return self.origin if _is_bound(self.origin) else None

    @override
    def __str__(self) -> str:
        """Return the tool names, or a description of the source."""
        if self.bound is not None:
            return ", ".join(self.bound.toolkit.tools)
        return "a tool source" if isinstance(self.origin, ToolSource) else repr(self.origin)

    def open(self) -> EffectOf[AnyBound, Any, Any]:
        """Return an effect that opens the tools in the current scope."""
        bound = self.bound
        if bound is not None:
            return Succeed(bound)
        source: ToolSource[Any, Any, Any] = ToolSource.of(self.origin)
        return source.open


@final
class Binding(msgspec.Struct, frozen=True):
    """The tools for a run in their order. It omits offers that add no tool, so that equal tools have equal bindings."""

    offers: tuple[Offer, ...] = ()
    """The offered tools, in their order."""
    toolkit: AnyToolkit = _EMPTY
    """The tools that do not need an open source. Each name occurs once."""

    @staticmethod
    def of(given: Iterable[object], *, on_conflict: OnConflict = "error") -> Binding:
        """Return the binding of these values. See `with_offers`."""
        return Binding().with_offers(given, on_conflict=on_conflict)

    def with_offers(self, given: Iterable[object], *, on_conflict: OnConflict = "error") -> Binding:
        """Return this binding with more tools at the end: all kinds of `Offered`, and lists of them.

        Raises:
            TypeError: If a value is not one of these kinds. The message states the remedy.
            ValueError: If `on_conflict` is unknown.
            ToolConflictError: If two different tools have the same name and `on_conflict` is `"error"`.
        """
        policies = get_args(OnConflict)
        if on_conflict not in policies:
            raise ValueError(f"on_conflict must be one of {', '.join(map(repr, policies))}, got {on_conflict!r}")
        return self.merge(Binding(tuple(_offers(given, on_conflict))))

    def merge(self, other: Binding) -> Binding:
        """Return the tools of both bindings, the tools of this binding first.

        Raises:
            ToolConflictError: If two different tools have the same name and the later offer has `"error"`.
        """
        made = self
        for offer in other.offers:
            made = _with_offer(made, offer)
        return made

    @property
    def is_plain(self) -> bool:
        """True if no tool includes its handler and no source must be opened."""
        return all(_is_toolkit(offer.origin) for offer in self.offers)

    @property
    def is_fixed(self) -> bool:
        """True if the names of all tools are known before the run and cannot change during the run."""
        return all(offer.bound is not None and not offer.bound.is_live for offer in self.offers)

    @property
    def unanswered(self) -> AnyToolkit:
        """The known tools that do not include their handlers. Provide these handlers to the run."""
        bound = [offer.origin.toolkit for offer in self.offers if _is_bound(offer.origin)]
        brought = {tool.identity for toolkit in bound for tool in toolkit}
        return self.toolkit.filter(lambda tool: tool.requires_handler and tool.identity not in brought)

    @override
    def __str__(self) -> str:
        """Return the tool names, or descriptions of the sources."""
        return ", ".join(map(str, self.offers))

    @gen
    def open(self) -> Generator[AnyEffect, Any, AnyBound]:
        """Return an effect that opens all tools in order in the current scope, with the handlers that they include.

        If a tool of a source has the name of a different tool, the effect ends with a `ToolConflictError` as a defect,
        unless the offer has another `on_conflict`.
        """
        made = _NOTHING
        for offer in self.offers:
            opened = yield offer.open()
            made = made.merge(opened, on_conflict=offer.on_conflict)
        return made


def _with_offer(binding: Binding, offer: Offer) -> Binding:
    origin, on_conflict = offer.origin, offer.on_conflict
    if _is_toolkit(origin):
        here = binding.toolkit.tools
        dropped = here if on_conflict == "first" else {tool.name for tool in origin if here.get(tool.name) == tool}
        new = origin.filter(lambda tool: tool.name not in dropped)
        if not len(new):
            return binding
        return Binding(_append(binding, Offer(new, on_conflict)), binding.toolkit.merge(new, on_conflict=on_conflict))
    if _is_bound(origin):
        return _with_bound(binding, origin, on_conflict)
    again = offer in binding.offers and (on_conflict != "last" or offer == binding.offers[-1])
    return binding if again else Binding((*binding.offers, offer), binding.toolkit)


def _with_bound(binding: Binding, more: AnyBound, on_conflict: OnConflict) -> Binding:
    brought = _NOTHING
    for offer in binding.offers:
        if _is_bound(offer.origin):
            brought = brought.merge(offer.origin, on_conflict="first")
    there = brought.toolkit.tools
    here = binding.toolkit.tools

    def is_new(tool: AnyTool) -> bool:
        gives_way = on_conflict == "first" and here.get(tool.name, tool) != tool
        return there.get(tool.name) != tool and not gives_way

    new = more.without_handlers_of(brought).with_toolkit(lambda kit: kit.filter(is_new))
    if new == _NOTHING:
        return binding
    offers = _append(binding, Offer(new, on_conflict))
    return Binding(offers, binding.toolkit.merge(new.toolkit, on_conflict=on_conflict))


def _append(binding: Binding, offer: Offer) -> tuple[Offer, ...]:
    """Return the offers with one more offer. Adjacent offers of the same kind become a single merged offer."""
    last = binding.offers[-1] if binding.offers else offer
    alike = any(is_kind(last.origin) and is_kind(offer.origin) for is_kind in (_is_toolkit, _is_bound))
    if last is offer or not alike or last.on_conflict != "error" or offer.on_conflict != "error":
        return (*binding.offers, offer)
    return (*binding.offers[:-1], Offer(last.origin.merge(offer.origin)))


_ACCEPTED = "tools must be tools, toolkits, function tools, bound toolkits, tool sources, servers, or lists of them"


def _is_tool(x: Any) -> TypeGuard[AnyTool]:
    return isinstance(x, Tool)


def _is_toolkit(x: Any) -> TypeGuard[AnyToolkit]:
    return isinstance(x, Toolkit)


def _is_bound(x: Any) -> TypeGuard[AnyBound]:
    return isinstance(x, BoundToolkit)


def _offers(given: Iterable[object], on_conflict: OnConflict) -> Iterator[Offer]:
    """Yield the values as offers. Adjacent tools become one toolkit."""
    tools: list[AnyTool] = []
    for each in _flat(given):
        if _is_tool(each):
            tools.append(each)
            continue
        if tools:
            yield Offer(Toolkit.of(tools, on_conflict=on_conflict), on_conflict)
            tools = []
        yield Offer(_origin(each), on_conflict)
    if tools:
        yield Offer(Toolkit.of(tools, on_conflict=on_conflict), on_conflict)


def _flat(given: Iterable[object]) -> Iterator[object]:
    for each in given:
        if isinstance(each, list | tuple):
            yield from cast("Iterable[object]", each)
        else:
            yield each


def _origin(given: Any) -> Any:
    if _is_toolkit(given):
        return given
    if isclass(given) or not hasattr(given, "__fx_bound__"):
        raise not_tools(_ACCEPTED, given)
    return bound_of(given) or given
