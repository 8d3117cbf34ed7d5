"""The functions that create, combine, and run effects. Import this module as `fx`.

>>> from fxai.effects import fx
>>> fx.run_sync(fx.for_each([1, 2, 3], lambda n: fx.succeed(n * n)))
[1, 4, 9]
"""

from __future__ import annotations

from fxai.effects.concurrency import all_, collect, for_each, fork, race
from fxai.effects.constructor import (
    annotate_span,
    attempt,
    attempt_async,
    checkpoint,
    context,
    die,
    fail,
    fail_cause,
    from_reader,
    gen,
    in_thread,
    is_failure,
    is_some,
    is_success,
    lift,
    maybe,
    never,
    reference,
    service,
    sleep,
    some,
    succeed,
    suspend,
    sync,
    to_future_result,
    to_reader,
    wait,
)
from fxai.effects.runtime import run, run_async, run_async_exit, run_exit, run_io_result, run_result, run_sync, runtime
from fxai.effects.scope import acquire_cm, acquire_release, add_finalizer, scoped

__all__ = [
    "acquire_cm",
    "acquire_release",
    "add_finalizer",
    "all_",
    "annotate_span",
    "attempt",
    "attempt_async",
    "checkpoint",
    "collect",
    "context",
    "die",
    "fail",
    "fail_cause",
    "for_each",
    "fork",
    "from_reader",
    "gen",
    "in_thread",
    "is_failure",
    "is_some",
    "is_success",
    "lift",
    "maybe",
    "never",
    "race",
    "reference",
    "run",
    "run_async",
    "run_async_exit",
    "run_exit",
    "run_io_result",
    "run_result",
    "run_sync",
    "runtime",
    "scoped",
    "service",
    "sleep",
    "some",
    "succeed",
    "suspend",
    "sync",
    "to_future_result",
    "to_reader",
    "wait",
]
