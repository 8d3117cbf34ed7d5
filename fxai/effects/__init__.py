"""Level 0. Effects: programs as values. Imports nothing of fxai."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fxai.effects import fx
from fxai.effects.cause import (
    Cause,
    Die,
    Exit,
    Fail,
    Failed,
    FailureError,
    ForeignCancellationError,
    Interrupt,
    InterruptedProgramError,
    Reason,
    Succeeded,
)
from fxai.effects.concurrency import FiberHandle
from fxai.effects.constructor import Absent
from fxai.effects.context import Context, ContextOf, Key, MissingServiceError, ServiceKey
from fxai.effects.development import NeverRunWarning
from fxai.effects.effect import Effect, EffectOf, Gen, Timeout
from fxai.effects.layer import Layer, LayerOf, Many, MergedOf
from fxai.effects.runtime import Backend, Runtime, runtime
from fxai.effects.scope import Scope
from fxai.effects.service import ClassKey, Clock, Reference, Service, Tag
from fxai.effects.stream import Emit, Stream, StreamOf, pull_stream, stream_steps
from fxai.effects.tracing import Operation, Tracer
from fxai.lazy import import_later

if TYPE_CHECKING:
    from fxai.effects.ref import Ref
    from fxai.effects.schedule import Retryable, Schedule

__all__ = [
    "Absent",
    "Backend",
    "Cause",
    "ClassKey",
    "Clock",
    "Context",
    "ContextOf",
    "Die",
    "Effect",
    "EffectOf",
    "Emit",
    "Exit",
    "Fail",
    "Failed",
    "FailureError",
    "FiberHandle",
    "ForeignCancellationError",
    "Gen",
    "Interrupt",
    "InterruptedProgramError",
    "Key",
    "Layer",
    "LayerOf",
    "Many",
    "MergedOf",
    "MissingServiceError",
    "NeverRunWarning",
    "Operation",
    "Reason",
    "Ref",
    "Reference",
    "Retryable",
    "Runtime",
    "Schedule",
    "Scope",
    "Service",
    "ServiceKey",
    "Stream",
    "StreamOf",
    "Succeeded",
    "Tag",
    "Timeout",
    "Tracer",
    "fx",
    "pull_stream",
    "runtime",
    "stream_steps",
]

# To keep `import fxai` fast, these modules load when a program first uses one of their names.
_LATER = {"ref": "Ref", "schedule": "Retryable Schedule"}

if not TYPE_CHECKING:  # a type checker would accept any name of a module that has `__getattr__`
    __getattr__ = import_later(__name__, _LATER)
