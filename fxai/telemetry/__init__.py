"""Level 6. Trace programs with OpenTelemetry: spans, metrics, and events of its conventions for generative AI.

`layer()` returns a layer that traces a program, and `trace(layer)` adds tracing to any layer. Both require the extra
`otel`. Configure sampling, processors, and exporters in the providers of OpenTelemetry.
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

    from fxai.telemetry.convention import Redact, Where

__all__ = ["TelemetryOptions", "layer", "trace"]

_T = TypeVar("_T")
_E = TypeVar("_E")
_R = TypeVar("_R")


class TelemetryOptions(TypedDict, total=False):
    """The options of tracing."""

    tracer_provider: TracerProvider | None
    """The provider for spans. Default: the OpenTelemetry provider of the process."""
    meter_provider: MeterProvider | None
    """The provider for metrics. Default: the provider of the process."""
    logger_provider: LoggerProvider | None
    """The provider for events. Default: the provider of the process."""
    content: Where
    """The destination of prompts, answers, arguments, and results: `"off"` (the default), each `"span"`, or one
    `"event"` per request to a model. With `"off"`, fxai also records only the class of an error, not its message."""
    redact: Redact | None
    """A function that receives each piece of content before the record, and returns the content to record or None."""
    prices: PriceTable | None
    """The prices of models. With prices, fxai records the cost on the spans of requests and as a metric."""


def layer(**options: Unpack[TelemetryOptions]) -> LayerOf[Tracer, Never, None]:
    """Return a layer that traces a program. It requires the extra `otel`.

    The layer opens no resources. The program creates the providers and shuts them down.

    Args:
        options: The options of tracing; see `TelemetryOptions`.

    Raises:
        ImportError: If the extra `otel` is not installed.
        ValueError: If `content` is not one of the three values.
    """
    return _trace(LayerOf.empty(), options)


def trace(around: LayerOf[_T, _E, _R], **options: Unpack[TelemetryOptions]) -> LayerOf[_T, _E, _R]:
    """Return the layer with tracing of the programs that use it, and of its own construction. It requires `otel`.

    Args:
        around: Any layer, such as the layer of a model or of all services of a program.
        options: The options of tracing; see `TelemetryOptions`.

    Raises:
        ImportError: If the extra `otel` is not installed.
        ValueError: If `content` is not one of the three values.
    """
    return cast("LayerOf[_T, _E, _R]", _trace(cast(AnyLayer, around), options))


def _trace(around: AnyLayer, options: TelemetryOptions) -> AnyLayer:
    """Return the layer with a tracer, and with an interceptor that creates the spans of runs."""
    try:
        from fxai.telemetry.tracer import Instruments, OtelTracer, SpanInterceptor
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != "opentelemetry":
            raise
        raise ImportError("telemetry requires OpenTelemetry. Run pip install 'fxai[otel]'.") from error
    from fxai.telemetry.convention import Content

    where = options.get("content", "off")
    if where not in {"off", "span", "event"}:
        raise ValueError(f'content must be "off", "span", or "event", got {where!r}')
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
    both: AnyLayer = cast(Any, around).provide(own).merge(own)
    return intercept(both, lambda _: Succeed(spans))
