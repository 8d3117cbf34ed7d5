"""Methods: what an object can do, as tools.

The public methods of an object that have a docstring become tools, called `Class.method`, with the object's own
methods as their handlers. What is not described is not offered: a model could not know when to call it.

>>> from fxai.effects import fx
>>> class Calculator:
...     def add(self, a: int, b: int) -> int:
...         '''Adds two numbers.'''
...         return a + b
...     def reset(self) -> None:
...         pass
>>> calculator = tools_of(Calculator())
>>> list(calculator.toolkit.tools)
['Calculator.add']
>>> fx.run_sync(calculator.toolkit.call("Calculator.add", {"a": 1, "b": 2}).provide(calculator.layer)).result
3
"""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Mapping
from typing import Any, Generic, Never, cast, final

from typing_extensions import TypeVar, Unpack

from fxai.schema.fault import SchemaError
from fxai.tools.definition import FunctionOptions
from fxai.tools.function import FunctionTool
from fxai.tools.options import ToolOptions
from fxai.tools.source import BoundToolkit

__all__ = ["MethodsOf", "tools_of"]

_O = TypeVar("_O")


@final
class MethodsOf(Generic[_O]):
    """The member of `R` that says: the handlers of the tools made from an object of class `O` are needed.

    It is a type only and never made: at run time each handler is found by its tool.
    """

    def __init__(self) -> None:
        raise TypeError("MethodsOf is a type only: handlers of methods come from Toolkit.from_object(obj).layer")


def tools_of(
    obj: _O, *, name: str | None = None, only: Iterable[str] | None = None, **options: Unpack[ToolOptions]
) -> BoundToolkit[MethodsOf[_O], Never, None]:
    """The tools of an object's public, described methods, with their layer; see `Toolkit.from_object`."""
    if isinstance(obj, type):
        raise SchemaError(f"{obj.__name__} is a class: tools are made of an object, {obj.__name__}(…)")
    methods = _methods(obj)
    wanted = _wanted(obj, methods, only)
    before = f"{type(obj).__name__ if name is None else name}."
    tools = [
        _tool(obj, attribute, before if before != "." else "", cast("dict[str, Any]", options))
        for attribute in methods
        if attribute in wanted
    ]
    made: BoundToolkit[Any, Never, Any] = BoundToolkit.make(*tools)
    return made


def _methods(obj: object) -> dict[str, Any]:
    """The public methods of an object that are described, by name: those of its bases first, as they are written."""
    names = dict.fromkeys(name for cls in reversed(type(obj).__mro__) for name in vars(cls) if name[0] != "_")
    found = {name: inspect.getattr_static(type(obj), name) for name in names}
    return {name: member for name, member in found.items() if _is_method(member) and _is_described(obj, name, member)}


def _is_method(member: Any) -> bool:
    return inspect.isfunction(inspect.unwrap(getattr(member, "__func__", member)))


def _is_described(obj: object, name: str, member: Any) -> bool:
    if isinstance(member, FunctionTool):
        return cast("FunctionTool[..., Any, Any, Any, Any]", member).description is not None
    return bool(inspect.getdoc(getattr(obj, name)))


def _wanted(obj: object, methods: Mapping[str, Any], only: Iterable[str] | None) -> frozenset[str]:
    cls = type(obj).__name__
    if not methods:
        raise SchemaError(f"no public method of {cls} has a docstring: describe those that a model may call")
    wanted = frozenset(methods if only is None else only)
    missing = ", ".join(sorted(wanted - set(methods)))
    if missing:
        raise SchemaError(f"{cls} has no public, described method {missing}; it has {', '.join(methods)}")
    return wanted


def _tool(obj: object, attribute: str, before: str, options: dict[str, Any]) -> FunctionTool[..., Any, Any, Any, Any]:
    method = getattr(obj, attribute)
    if isinstance(method, FunctionTool):
        made = cast("FunctionTool[..., Any, Any, Any, Any]", method)
        return (made.with_options(**options) if options else made).made_as(before + made.name)
    chosen = cast(FunctionOptions, {**options, "name": before + attribute})
    try:
        described: FunctionTool[..., Any, Any, Any, Any] = FunctionTool(method, chosen, vars(type(obj)))
        return described.rename(before + attribute)
    except SchemaError as error:
        raise SchemaError(f"{type(obj).__name__}.{attribute} cannot be a tool: {error}") from None
