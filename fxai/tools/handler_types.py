"""The types of handlers for type checkers. A program loads this module when it first uses one of the names."""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Any, Generic, Never, final

from returns.context import RequiresContextFutureResult
from returns.io import IOResult
from returns.result import Result
from typing_extensions import TypeAliasType, TypeVar

from fxai.effects.context import ContextOf
from fxai.effects.effect import EffectOf
from fxai.effects.mistake import PlainAwaitable
from fxai.effects.stream import StreamOf
from fxai.tools.tool_info import CallContext

_P = TypeVar("_P")
_S = TypeVar("_S")
_F = TypeVar("_F")
_O = TypeVar("_O")
_R = TypeVar("_R", default=None)
_T_co = TypeVar("_T_co", covariant=True)
_E_co = TypeVar("_E_co", covariant=True, default=Never)
_R_co = TypeVar("_R_co", covariant=True, default=None)

HandlerReturn = TypeAliasType(
    "HandlerReturn",
    Result[_S, _F]  # the most common type, because messages of type checkers start with it
    | EffectOf[_S, _F, _R]
    | Generator[EffectOf[Any, _F, _R], object, _S]
    | PlainAwaitable[Result[_S, _F] | IOResult[_S, _F] | EffectOf[_S, _F, _R]]
    | StreamOf[_S, _F, _R]
    | IOResult[_S, _F]
    | RequiresContextFutureResult[_S, _F, ContextOf[_R]],
    type_params=(_S, _F, _R),
)
"""The possible return values of a handler with the success `S`, the failure `F`, and the needed services `R`."""


Handling = TypeAliasType(
    "Handling",
    Callable[[_P], HandlerReturn[_S, _F, _R]] | Callable[[_P, CallContext], HandlerReturn[_S, _F, _R]],
    type_params=(_P, _S, _F, _R),
)
"""A handler: a function of the parameters, or of the parameters and the `CallContext`."""


@final
class HandlerOf(Generic[_P, _S, _F]):
    """A requirement in `R`: a handler from the parameters `P` to the success `S` or the failure `F`.

    `HandlerOf` is only a type. At run time, the identity of the tool is the key of the handler.
    """

    def __init__(self) -> None:
        raise TypeError("HandlerOf is only a type. Create handlers with tool.handler(f).")


@final
class Gives(Generic[_T_co, _E_co, _R_co]):
    """A type of the handlers `T` that an object supplies, its failure `E`, and its needed services `R`."""

    def __init__(self) -> None:
        raise TypeError("Gives is only a type. Use BoundToolkit or ToolSource.")


@final
class MethodsOf(Generic[_O]):
    """A requirement in `R`: the handlers of all tools from an object of class `O`.

    `MethodsOf` is only a type. At run time, the identity of each tool is the key of its handler.
    """

    def __init__(self) -> None:
        raise TypeError("MethodsOf is only a type. Get the handlers of methods from Toolkit.from_object(obj).layer.")
