"""Floor 0. Effects: programs as values. Imports nothing of fxai."""

from __future__ import annotations

from fxai.effects import fx
from fxai.effects.cause import Cause, Die, Fail, FailureError, Interrupt, InterruptedProgramError, Reason
from fxai.effects.clock import Clock
from fxai.effects.context import Context, ContextOf, Key, MissingServiceError
from fxai.effects.effect import Effect, EffectOf, Gen, Timeout
from fxai.effects.exit import Exit, Failed, Succeeded
from fxai.effects.fork import FiberHandle
from fxai.effects.interop import Absent
from fxai.effects.layer import Layer, LayerOf
from fxai.effects.ref import Ref
from fxai.effects.runtime import Backend, Runtime, runtime
from fxai.effects.schedule import Retryable, Schedule
from fxai.effects.scope import Scope
from fxai.effects.service import ClassKey, Reference, Service, Tag
from fxai.effects.stream import Emit, Stream, StreamOf

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
    "Gen",
    "Interrupt",
    "InterruptedProgramError",
    "Key",
    "Layer",
    "LayerOf",
    "MissingServiceError",
    "Reason",
    "Ref",
    "Reference",
    "Retryable",
    "Runtime",
    "Schedule",
    "Scope",
    "Service",
    "Stream",
    "StreamOf",
    "Succeeded",
    "Tag",
    "Timeout",
    "fx",
    "runtime",
]
