"""Tracing: what a program tells of itself while it runs, to a tracer if there is one.

The places that are worth a span (a run of an agent, a request to a model, a call of a tool, an effect that was given
a name) tell the tracer of the context what they do, as an `Operation`. Where no layer gave a tracer, they go on at
once. A tracer travels in the context, as every service does, and knows the span that it stands in: so spans are nested
as the program is, also over fibers and streams.

>>> Named("load", {"rows": 3}).name
'load'
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Mapping, Sequence
from typing import Any, Self, TypeAlias, TypeVar, final

import msgspec

_A = TypeVar("_A")

AttributeValue: TypeAlias = str | bool | int | float | Sequence[str] | Sequence[bool] | Sequence[int] | Sequence[float]
"""What an attribute of a span may be."""


class Operation(msgspec.Struct, eq=False):
    """What an effect does, for a tracer. Rooms have operations of their own, which say what they work on."""


@final
class Named(Operation, eq=False):
    """An effect of a program that was given a name, by `effect.span(name)`."""

    name: str
    attributes: Mapping[str, AttributeValue]


class Tracer(ABC):
    """What makes spans of operations: a service, which programs find in their context or do without.

    It is asked while the program runs, by the fiber that runs it, and must not raise. Each method is of the span that
    the tracer stands in; before the first one it stands in none.
    """

    @abstractmethod
    def trace(self, operation: Operation, effect: Any) -> Any:
        """The effect, in a span of its own that ends with it; inside, the context has the tracer of that span."""

    @abstractmethod
    def trace_stream(self, operation: Operation, opening: Any) -> Any:
        """The effect that opens a stream, in a span that ends with the stream: at its end, or when it is left."""

    @abstractmethod
    def activate(self, awaitable: Awaitable[_A]) -> Awaitable[_A]:
        """The awaitable, during which the span is the current one for other libraries that are traced."""

    @abstractmethod
    def annotate(self, attributes: Mapping[str, AttributeValue]) -> None:
        """Adds attributes to the span."""

    @abstractmethod
    def link(self, carrier: Mapping[str, str]) -> None:
        """Links the span to the one that `inject` named, which is of another trace, such as that of a run before."""

    @abstractmethod
    def inject(self) -> dict[str, str]:
        """What names the span to another process, such as a `traceparent`; empty where there is no span."""

    @abstractmethod
    def resume(self, carrier: Mapping[str, str], effect: Any) -> Any:
        """The effect, whose spans belong to the span that `inject` named in another process."""

    @classmethod
    def __fx_key__(cls) -> object:
        return Tracer

    @classmethod
    def __fx_id__(cls, x: Self, /) -> Self:
        return x

    @classmethod
    def __fx_service__(cls, x: Self, /) -> Self:
        return x
