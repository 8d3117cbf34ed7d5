"""Tools of a run: in order, each name once, with the handlers that come with them.

Tools and toolkits need their handlers from outside; function tools, bound toolkits and tool sources have theirs, and a
source is opened for the run.

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

from fxai.effects.effect import AnyEffect, EffectOf, Generate, Succeed
from fxai.effects.layer import LayerOf
from fxai.tools.handler import Gives
from fxai.tools.identity import OnConflict
from fxai.tools.source import ToolSource
from fxai.tools.tool import Tool
from fxai.tools.toolkit import BoundToolkit, Toolkit, bound_of

_E_co = TypeVar("_E_co", covariant=True)
_R_co = TypeVar("_R_co", covariant=True)

_EMPTY: Toolkit[Any] = Toolkit.empty()
_NOTHING: BoundToolkit[Any, Any, Any] = BoundToolkit(_EMPTY, ())


class Offered(Protocol[_E_co, _R_co]):
    """Anything that an agent takes as tools: a tool, a toolkit, a function tool, a bound toolkit, a tool source.

    `E` is what opening it fails with, `R` what it needs: the handlers of tools, the services of a source.
    """

    def __fx_gives__(self) -> Gives[Any, _E_co, _R_co]:
        """For checkers: what it gives."""
        ...


@final
class Offer(msgspec.Struct, frozen=True):
    """Tools of one origin, and which to keep where one of them has the name of an earlier one."""

    origin: Any
    """A toolkit, a bound toolkit, or what has a source."""
    on_conflict: OnConflict = "error"

    @property
    def bound(self) -> BoundToolkit[Any, Any, Any] | None:
        """The tools and the handlers that come with them; None where they are known only once the source is open."""
        if _is_toolkit(self.origin):
            return BoundToolkit(self.origin, ())
        return self.origin if _is_bound(self.origin) else None

    @override
    def __str__(self) -> str:
        """The names of the tools; of a source, what it is."""
        if self.bound is not None:
            return ", ".join(self.bound.toolkit.tools)
        return "a tool source" if isinstance(self.origin, ToolSource) else repr(self.origin)

    def open(self) -> EffectOf[BoundToolkit[Any, Any, Any], Any, Any]:
        """The tools, opened into the scope around."""
        bound = self.bound
        if bound is not None:
            return Succeed(bound)
        source: ToolSource[Any, Any, Any] = ToolSource.of(self.origin)
        return source.open


@final
class Binding(msgspec.Struct, frozen=True):
    """The tools of a run, as they were offered. An offer that adds nothing is left out, so that equal tools are one."""

    offers: tuple[Offer, ...] = ()
    toolkit: Toolkit[Any] = _EMPTY
    """The tools that are known before a source is opened, each name once."""

    @staticmethod
    def of(given: Iterable[object], *, on_conflict: OnConflict = "error") -> Binding:
        """The binding of what was given, see `with_offers`."""
        return Binding().with_offers(given, on_conflict=on_conflict)

    def with_offers(self, given: Iterable[object], *, on_conflict: OnConflict = "error") -> Binding:
        """This one, with what was given behind: all that is `Offered`, and lists of it.

        Raises:
            TypeError: something is none of it; the message says what to give instead.
            ValueError: there is no such `on_conflict`.
            ToolConflictError: two different tools have one name, unless `on_conflict` says which to keep.
        """
        policies = get_args(OnConflict)
        if on_conflict not in policies:
            raise ValueError(f"on_conflict is {on_conflict!r}: it is {', '.join(map(repr, policies))}")
        return self.merge(Binding(tuple(_offers(given, on_conflict))))

    def merge(self, other: Binding) -> Binding:
        """The tools of both, these first.

        Raises:
            ToolConflictError: two different tools have one name, and the later offer does not say which to keep.
        """
        made = self
        for offer in other.offers:
            made = _with_offer(made, offer)
        return made

    @property
    def is_plain(self) -> bool:
        """Whether all handlers are given from outside, and nothing is to be opened."""
        return all(_is_toolkit(offer.origin) for offer in self.offers)

    @property
    def is_fixed(self) -> bool:
        """Return True if the names of all tools are known before the run, and stay the same in it."""
        return all(offer.bound is not None and not offer.bound.is_live for offer in self.offers)

    @property
    def unanswered(self) -> Toolkit[Any]:
        """The known tools whose handlers must be given from outside, because none comes along."""
        bound = [offer.origin.toolkit for offer in self.offers if _is_bound(offer.origin)]
        brought = {tool.identity for toolkit in bound for tool in toolkit}
        return self.toolkit.filter(lambda tool: tool.requires_handler and tool.identity not in brought)

    @override
    def __str__(self) -> str:
        """The names of the tools; of a source, what it is."""
        return ", ".join(map(str, self.offers))

    def open(self) -> EffectOf[BoundToolkit[Any, Any, Any], Any, Any]:
        """All tools and the handlers that come with them, opened one after another into the scope around.

        A tool of a source that has the name of another tool is a `ToolConflictError`, as a defect, unless the offer
        says which to keep.
        """
        return Generate(_open_all, (self,), {})


def _open_all(binding: Binding) -> Generator[AnyEffect, Any, BoundToolkit[Any, Any, Any]]:
    made = _NOTHING
    for offer in binding.offers:
        opened = yield offer.open()
        made = made.merge(opened, on_conflict=offer.on_conflict)
    return made


def _with_offer(binding: Binding, offer: Offer) -> Binding:
    origin, on_conflict = offer.origin, offer.on_conflict
    if _is_toolkit(origin):
        return _with_tools(binding, origin, on_conflict)
    if _is_bound(origin):
        return _with_bound(binding, origin, on_conflict)
    again = offer in binding.offers and (on_conflict != "last" or offer == binding.offers[-1])
    return binding if again else Binding((*binding.offers, offer), binding.toolkit)


def _with_tools(binding: Binding, more: Toolkit[Any], on_conflict: OnConflict) -> Binding:
    here = binding.toolkit.tools
    dropped = here if on_conflict == "first" else {tool.name for tool in more if here.get(tool.name) == tool}
    new = more.filter(lambda tool: tool.name not in dropped)
    if not len(new):
        return binding
    return Binding(_append(binding, Offer(new, on_conflict)), binding.toolkit.merge(new, on_conflict=on_conflict))


def _with_bound(binding: Binding, more: BoundToolkit[Any, Any, Any], on_conflict: OnConflict) -> Binding:
    brought = _NOTHING
    for offer in binding.offers:
        if _is_bound(offer.origin):
            brought = brought.merge(offer.origin, on_conflict="first")
    there = brought.toolkit.tools
    here = binding.toolkit.tools

    def is_new(tool: Tool[Any, Any, Any]) -> bool:
        gives_way = on_conflict == "first" and here.get(tool.name, tool) != tool
        return there.get(tool.name) != tool and not gives_way

    new = more.without_handlers_of(brought).with_toolkit(lambda kit: kit.filter(is_new))
    if new == _NOTHING:
        return binding
    offers = _append(binding, Offer(new, on_conflict))
    return Binding(offers, binding.toolkit.merge(new.toolkit, on_conflict=on_conflict))


def _append(binding: Binding, offer: Offer) -> tuple[Offer, ...]:
    """The offers with one more; two of a kind side by side are one, as if they had been merged before."""
    last = binding.offers[-1] if binding.offers else offer
    alike = any(is_kind(last.origin) and is_kind(offer.origin) for is_kind in (_is_toolkit, _is_bound))
    if last is offer or not alike or last.on_conflict != "error" or offer.on_conflict != "error":
        return (*binding.offers, offer)
    return (*binding.offers[:-1], Offer(last.origin.merge(offer.origin)))


_SHOWN = 80  # characters of what was given

_ACCEPTED = (
    "tools, toolkits, function tools, bound toolkits, tool sources and servers can be given, one by one or as a list"
)


def _is_tool(x: Any) -> TypeGuard[Tool[Any, Any, Any]]:
    return isinstance(x, Tool)


def _is_toolkit(x: Any) -> TypeGuard[Toolkit[Any]]:
    return isinstance(x, Toolkit)


def _is_bound(x: Any) -> TypeGuard[BoundToolkit[Any, Any, Any]]:
    return isinstance(x, BoundToolkit)


def _offers(given: Iterable[object], on_conflict: OnConflict) -> Iterator[Offer]:
    """What was given as offers; tools side by side are one toolkit."""
    tools: list[Tool[Any, Any, Any]] = []
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
    if isclass(given):
        raise TypeError(_refusal(given))
    if hasattr(given, "__fx_bound__"):
        return bound_of(given) or given
    raise TypeError(_refusal(given))


def _refusal(given: Any) -> str:
    """Why it can be no tool of an agent, and what to give instead."""
    shown = repr(given)
    refusal = f"{shown if len(shown) <= _SHOWN else f'{shown[:_SHOWN]}…'} is no tool: {_ACCEPTED}"
    if isinstance(given, Iterable) and not isinstance(given, str | bytes):
        return f"{refusal}; give what is in it, or one list of it"
    if hasattr(given, "as_tool"):
        return f"{refusal}; an agent is made one by agent.as_tool(…)"
    if isinstance(given, LayerOf):
        return f"{refusal}; a layer of handlers is provided to the run, or joined to its toolkit by BoundToolkit.of"
    if isinstance(given, str):
        return f"{refusal}; give the tool itself, not its name"
    if isclass(given):
        return f"{refusal}; the methods of an object are made tools by Toolkit.from_object({given.__name__}())"
    if callable(given):
        return f"{refusal}; a function is made one by fxai.tool(f), or by @tool above it"
    if given is None or isinstance(given, int | float | bytes):
        return refusal
    return f"{refusal}; the methods of an object are made tools by Toolkit.from_object(obj)"
