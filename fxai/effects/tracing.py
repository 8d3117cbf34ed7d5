"""The interface of tracers, which create spans for the operations of a program. Implement it to trace programs.

An agent run, a model request, a tool call, or a named effect passes an `Operation` to the tracer in the context. If the
context contains no tracer, the program continues immediately. A tracer is a service and knows its current span.
Therefore spans have the same nesting as the program, also across fibers and streams.

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
"""The type of a span attribute."""


class Operation(msgspec.Struct, eq=False):
    """A description of an effect for a tracer. Other packages define subclasses with their data."""


@final
class Named(Operation, eq=False):
    """An effect that `effect.span(name)` named."""

    name: str
    attributes: Mapping[str, AttributeValue]


class Tracer(ABC):
    """A service that creates spans of operations. A context can contain a tracer.

    The fiber of the running program calls the tracer. The methods must not raise. Each method refers to the current
    span of the tracer. The first tracer has no current span.
    """

    @abstractmethod
    def trace(self, operation: Operation, effect: Any) -> Any:
        """Return the effect in its own span, which ends with it. The context inside has the tracer of the span."""

    @abstractmethod
    def trace_stream(self, operation: Operation, opening: Any) -> Any:
        """Return the effect that opens a stream, in a span that ends with the stream or when its reader stops."""

    @abstractmethod
    def activate(self, awaitable: Awaitable[_A]) -> Awaitable[_A]:
        """Return the awaitable with the span as the current span for other traced libraries."""

    @abstractmethod
    def annotate(self, attributes: Mapping[str, AttributeValue]) -> None:
        """Add attributes to the span."""

    @abstractmethod
    def link(self, carrier: Mapping[str, str]) -> None:
        """Link the span to the span that `inject` named, which belongs to another trace, such as an earlier run."""

    @abstractmethod
    def inject(self) -> dict[str, str]:
        """Return the identity of the span for another process, such as a `traceparent`. Return {} without a span."""

    @abstractmethod
    def resume(self, carrier: Mapping[str, str], effect: Any) -> Any:
        """Return the effect with spans below the span that `inject` named in another process."""

    @classmethod
    def __fx_key__(cls) -> object:
        return Tracer

    @classmethod
    def __fx_id__(cls, x: Self, /) -> Self:
        return x

    @classmethod
    def __fx_service__(cls, x: Self, /) -> Self:
        return x
