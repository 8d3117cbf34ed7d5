"""Floor 6. Telemetry: spans, metrics and events of OpenTelemetry, by its conventions for generative AI.

`layer()` gives a program a tracer, and `trace(layer)` any layer with one; the extra `otel` brings what they import.
Sampling, processors and exporters are those of OpenTelemetry's own providers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Never, TypedDict, TypeVar, cast

from typing_extensions import Unpack

from fxai.effects.effect import Succeed
from fxai.effects.layer import AnyLayer, LayerOf
from fxai.effects.tracing import Tracer
from fxai.models.interceptor import Interceptor, intercept
from fxai.models.price import PriceTable

if TYPE_CHECKING:
    from opentelemetry._logs import LoggerProvider
    from opentelemetry.metrics import MeterProvider
    from opentelemetry.trace import TracerProvider

    from fxai.telemetry.content import Redact, Where

__all__ = ["TelemetryOptions", "layer", "trace"]

_T = TypeVar("_T")
_E = TypeVar("_E")
_R = TypeVar("_R")


class TelemetryOptions(TypedDict, total=False):
    """How a program is traced."""

    tracer_provider: TracerProvider | None
    """What spans go to; by default the one that OpenTelemetry has for the process."""
    meter_provider: MeterProvider | None
    """What metrics go to; by default that of the process."""
    logger_provider: LoggerProvider | None
    """What events go to; by default that of the process."""
    content: Where
    """Where prompts, answers, parameters and results are recorded: `"off"` (the default), on each `"span"`, or as an
    `"event"` for each request to a model. With `"off"` no message of an error is recorded either, only its class."""
    redact: Redact | None
    """Is given each piece of content before it is recorded, and gives what is, or None."""
    prices: PriceTable | None
    """What models cost; with it, the cost is on the spans of requests, and a metric."""


def layer(**options: Unpack[TelemetryOptions]) -> LayerOf[Tracer, Never, None]:
    """The layer under which a program is traced. Needs the extra `otel`.

    It holds nothing open: the providers belong to the program, which makes them and shuts them down.

    Args:
        options: see `TelemetryOptions`.

    Raises:
        ImportError: the extra `otel` is not installed.
        ValueError: `content` is none of the three.
    """
    return _trace(LayerOf.empty(), options)


def trace(around: LayerOf[_T, _E, _R], **options: Unpack[TelemetryOptions]) -> LayerOf[_T, _E, _R]:
    """The same layer, under which programs are traced, and so is its own building. Needs the extra `otel`.

    Args:
        around: any layer, such as that of a model or of all that a program needs.
        options: see `TelemetryOptions`.

    Raises:
        ImportError: the extra `otel` is not installed.
        ValueError: `content` is none of the three.
    """
    return cast("LayerOf[_T, _E, _R]", _trace(cast(AnyLayer, around), options))


def _trace(around: LayerOf[Any, Any, Any], options: TelemetryOptions) -> LayerOf[Any, Any, Any]:
    """The layer, with a tracer, and an interceptor that makes the spans of runs."""
    try:
        from fxai.telemetry.tracer import Instruments, OtelTracer, SpanInterceptor
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != "opentelemetry":
            raise
        raise ImportError("telemetry needs OpenTelemetry, which the extra brings: pip install 'fxai[otel]'") from error
    from fxai.telemetry.content import Content

    where = options.get("content", "off")
    if where not in {"off", "span", "event"}:
        raise ValueError(f'content is {where!r}: it is "off", "span" or "event"')
    instruments = Instruments(
        options.get("tracer_provider"),
        options.get("meter_provider"),
        options.get("logger_provider"),
        Content(where, options.get("redact")),
        options.get("prices"),
    )
    tracer: Tracer = OtelTracer(instruments)
    spans: Interceptor = SpanInterceptor()
    own = LayerOf.succeed(Tracer, tracer)
    both: LayerOf[Any, Any, Any] = cast(Any, around).provide(own).merge(own)
    return intercept(both, lambda _: Succeed(spans))
