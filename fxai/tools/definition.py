"""Definitions: what a function is as a tool, found once from its signature, annotations and docstring.

>>> def add(a: int, b: int = 1) -> int:
...     return a + b
>>> definition = define(add, {"failure_mode": "return"}, {})
>>> definition.tool.name, definition.tool.failure_mode, definition.signature.positional
('add', 'return', ('a', 'b'))
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, cast, final
from weakref import WeakKeyDictionary

import msgspec

from fxai.schema.codec import Schema
from fxai.schema.fault import SchemaError
from fxai.tools.options import ToolOptions
from fxai.tools.signature import Signature
from fxai.tools.tool import Tool

__all__ = ["Definition", "FunctionOptions", "define", "is_bound", "name_of"]

_OWN = ("name", "blocking", "grace", "success", "failure")


class FunctionOptions(ToolOptions, total=False):
    """The options of a tool from a function: those of every tool, and these."""

    name: str
    """What the model calls it; by default what the function is called."""
    blocking: bool
    """Runs the function in a worker thread. Otherwise it runs inline, as it should unless it blocks."""
    grace: float
    """Seconds that a cancellation waits for such a thread before it leaves it behind; 5 by default."""
    success: Any
    """The type (or `Schema`) of what comes out; by default what the return annotation says."""
    failure: Any
    """The type (or `Schema`) of what can go wrong; by default what the return annotation says."""


@final
class Definition(msgspec.Struct, frozen=True, eq=False):
    """What is known of a function once its annotations are resolved."""

    tool: Tool[Any, Any, Any]
    """The tool."""
    signature: Signature
    """How the function is called, and what it gives."""


_SIGNATURES: WeakKeyDictionary[Any, dict[bool, Signature]] = WeakKeyDictionary()


def define(f: Callable[..., Any], options: FunctionOptions, scope: Mapping[str, Any]) -> Definition:
    """The definition of `f` as a tool; `scope` holds local names that its annotations may use.

    Raises:
        SchemaError: the function cannot be a tool, or there is no such option.
        NameError: a name in an annotation is not defined, or not yet.
    """
    name = name_of(f)
    signature = _signature(f, name, options, scope)
    if options.get("blocking", False) and not signature.returned.threaded:
        raise SchemaError(
            f"the function {name!r} cannot run in a worker thread, where it would have to return a plain value, a "
            "Result or an IOResult: leave blocking=True out"
        )
    if name == "<lambda>" and "name" not in options:
        raise SchemaError("a lambda has no name: say name=…")
    rest = cast(ToolOptions, {key: value for key, value in options.items() if key not in _OWN})
    rest.setdefault("description", signature.description)
    returned = signature.returned
    given = Schema[Any].of(signature.parameters), Schema[Any].of(returned.success), Schema[Any].of(returned.failure)
    parameters, success, failure = given
    made = Tool.make(options.get("name", name), parameters=parameters, success=success, failure=failure, **rest)
    return Definition(made, signature)


def _signature(f: Callable[..., Any], name: str, options: FunctionOptions, scope: Mapping[str, Any]) -> Signature:
    """The signature of `f`, found once for a function or method: equal tools of it have one type of parameters."""
    types: dict[str, Any] = {key: value for key, value in options.items() if key in ("success", "failure")}
    bound = is_bound(f)
    function: Any = getattr(f, "__func__", f)
    if types or not inspect.isfunction(function):
        return Signature.of(f, name, scope, bound=bound, **types)
    kept = _SIGNATURES.setdefault(function, {})
    key = bound and not inspect.ismethod(f)
    if key not in kept:
        kept[key] = Signature.of(f, name, scope, bound=bound)
    return kept[key]


def is_bound(f: Any) -> bool:
    """True, but for a method that stands in a class still: its first parameter is called self and has no annotation."""
    if not inspect.isfunction(f):
        return True
    within = f.__qualname__.rpartition(".")[0]
    first = next(iter(inspect.signature(f).parameters.values()), None)
    is_self = first is not None and first.name == "self" and first.annotation is first.empty
    return not (is_self and within and not within.endswith("<locals>"))


def name_of(f: Any) -> str:
    """What a function is called; of a partial its function's name, of an object its class's."""
    function: Any = f.func if isinstance(f, partial) else f
    name: str = getattr(function, "__name__", type(function).__name__)
    return name
