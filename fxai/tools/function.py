"""Readers of functions and methods. The decorator `tool` uses this module to create a tool from a function.

>>> def add(a: int, b: int = 1) -> int:
...     '''Adds two numbers.'''
...     return a + b
>>> function = ToolFunction(add, {"failure_mode": "return"}, {})
>>> function.name, function.tool_options, function.signature.positional
('add', {'failure_mode': 'return', 'description': 'Adds two numbers.'}, ('a', 'b'))
"""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import Callable, Iterable, Mapping
from copy import copy
from functools import partial
from typing import Any, cast, final
from weakref import WeakKeyDictionary

from typing_extensions import override

from fxai.schema.fault import SchemaError
from fxai.tools.signature import Signature
from fxai.tools.tool_options import ToolOptions


class FunctionOptions(ToolOptions, total=False):
    """The options of a tool from a function, which extend the options of every tool."""

    name: str
    """The name of the tool for the model. Default: the name of the function."""
    blocking: bool | None
    """True: a worker thread runs the function. False: it runs inline.

    Default: None, inline. In `chat_app` and MCP servers, None runs plain functions in threads.
    """
    grace: float
    """Seconds that a cancellation waits for the thread before it abandons the thread. Default: 5."""
    success: Any
    """The type or `Schema` of the success. Default: the type in the return annotation."""
    failure: Any
    """The type or `Schema` of the failure. Default: the type in the return annotation."""


_OWN = frozenset(FunctionOptions.__annotations__) - frozenset(ToolOptions.__annotations__)
_SIGNATURES: WeakKeyDictionary[Any, dict[bool, Signature]] = WeakKeyDictionary()


@final
class ToolFunction:
    """A function and its options. fxai reads the function immediately, or at its first use if a type is undefined.

    Two instances are equal if their functions, `blocking`, and `grace` are equal.
    """

    __slots__ = ("_handler", "_options", "_scope", "_signature", "function")

    def __init__(self, function: Callable[..., Any], options: FunctionOptions, scope: Mapping[str, Any]) -> None:
        """Read the function. `scope` contains local names for its annotations."""
        self.function: Callable[..., Any] = function
        self._options = options
        self._scope: Mapping[str, Any] = scope
        self._handler: Callable[..., Any] | None = None
        self._signature: Signature | None = None
        with contextlib.suppress(NameError):  # the module may define a named class later
            self._signature = _read(function, options, scope)
            self._scope = dict[str, Any]()

    @property
    def is_read(self) -> bool:
        """False if an annotation names an undefined type."""
        return self._signature is not None

    @property
    def signature(self) -> Signature:
        """The parameters and the return type of the function.

        Raises:
            SchemaError: If fxai cannot create a tool from the function, or a name in an annotation is undefined.
        """
        if self._signature is None:
            try:
                self._signature = _read(self.function, self._options, self._scope)
            except NameError as error:
                raise SchemaError(
                    f"function {name_of(self.function)!r}: an annotation contains an undefined name: {error}. Import "
                    "or define the name next to the function."
                ) from None
        return self._signature

    @property
    def name(self) -> str:
        """The name of the tool for the model."""
        return self._options.get("name", name_of(self.function))

    @property
    def tool_options(self) -> ToolOptions:
        """The options of every tool, with the description."""
        options = cast(ToolOptions, {key: value for key, value in self._options.items() if key not in _OWN})
        options.setdefault("description", self.signature.description)
        return options

    @property
    def threading(self) -> tuple[bool | None, float]:
        """The option `blocking`, and the seconds that a cancellation waits for the thread."""
        return self._options.get("blocking"), self._options.get("grace", 5.0)

    @property
    def handler(self) -> Callable[..., Any]:
        """The handler of the tool.

        Raises:
            SchemaError: If the function is an unbound method.
        """
        if self._handler is None:
            if not _is_bound(self.function):
                raise SchemaError(f"cannot create a tool from the unbound method {self.name!r}. Pass obj.{self.name}.")
            self._handler = self.signature.handler(self.function)
        return self._handler

    def bind(self, function: Callable[..., Any]) -> ToolFunction:
        """Return a copy for a method that is bound to its object."""
        bound = copy(self)
        bound.function, bound._handler = function, None
        return bound

    @override
    def __eq__(self, other: object) -> bool:
        if not isinstance(other, ToolFunction):
            return NotImplemented
        return self.function == other.function and self.threading == other.threading

    @override
    def __hash__(self) -> int:
        return hash(self.function)


def _read(f: Callable[..., Any], options: FunctionOptions, scope: Mapping[str, Any]) -> Signature:
    name = name_of(f)
    signature = _signature(f, name, options, scope)
    if options.get("blocking") and not signature.returned.threaded:
        raise SchemaError(
            f"function {name!r}: a function in a worker thread must return a plain value, a Result, or an IOResult. "
            "Omit blocking=True."
        )
    if name == "<lambda>" and "name" not in options:
        raise SchemaError("a lambda has no name. Pass name=….")
    return signature


def _signature(f: Callable[..., Any], name: str, options: FunctionOptions, scope: Mapping[str, Any]) -> Signature:
    """Return the signature of `f`. Cache it by function, so equal tools have the same type of parameters."""
    types: dict[str, Any] = {key: value for key, value in options.items() if key in ("success", "failure")}
    bound = _is_bound(f)
    function: Any = getattr(f, "__func__", f)
    if types or not inspect.isfunction(function):
        return Signature.of(f, name, scope, bound=bound, **types)
    signatures = _SIGNATURES.setdefault(function, {})
    key = bound and not inspect.ismethod(f)
    if key not in signatures:
        signatures[key] = Signature.of(f, name, scope, bound=bound)
    return signatures[key]


def _is_bound(f: Any) -> bool:
    """Return False for a method of a class without an object: its first parameter is `self` without an annotation."""
    if not inspect.isfunction(f):
        return True
    within = f.__qualname__.rpartition(".")[0]
    first = next(iter(inspect.signature(f).parameters.values()), None)
    is_self = first is not None and first.name == "self" and first.annotation is first.empty
    return not (is_self and within and not within.endswith("<locals>"))


def name_of(f: Any) -> str:
    """Return the name of a function. For a partial, use its function. For another object, use its class."""
    function: Any = f.func if isinstance(f, partial) else f
    name: str = getattr(function, "__name__", type(function).__name__)
    return name


def tools_of(
    obj: object,
    name: str | None,
    only: Iterable[str] | None,
    options: dict[str, Any],
    make: Callable[[Callable[..., Any], FunctionOptions, Mapping[str, Any]], Any],
) -> list[Any]:
    """Return the function tools of an object's methods, see `Toolkit.from_object`. `make` creates each tool.

    Raises:
        SchemaError: If no method has a docstring, if fxai cannot create a tool from a method, or if `only` contains an
            unknown name.
    """
    before = type(obj).__name__ if name is None else name
    prefix = f"{before}." if before else ""
    return [_method_tool(obj, attribute, prefix, options, make) for attribute in _methods_of(obj, only)]


def _method_tool(obj: object, attribute: str, prefix: str, options: dict[str, Any], make: Callable[..., Any]) -> Any:
    method = getattr(obj, attribute)
    if hasattr(method, "made_as"):  # the method has the decorator `tool`
        return (method.with_options(**options) if options else method).made_as(prefix + method.name)
    try:
        return make(method, {**options, "name": prefix + attribute}, vars(type(obj))).rename(prefix + attribute)
    except SchemaError as error:
        raise SchemaError(f"cannot create a tool from {type(obj).__name__}.{attribute}: {error}") from None


def _methods_of(obj: object, only: Iterable[str] | None) -> list[str]:
    """Return the names of an object's documented public methods, in source order, with inherited methods first."""
    cls = type(obj).__name__
    if isinstance(obj, type):
        raise SchemaError(f"cannot create tools from the class {obj.__name__}. Pass an object: {obj.__name__}(…).")
    names = dict.fromkeys(name for base in reversed(type(obj).__mro__) for name in vars(base) if name[0] != "_")
    methods = [name for name in names if _is_method(obj, name) and _is_described(obj, name)]
    if not methods:
        raise SchemaError(f"{cls} has no public method with a docstring. Write a docstring for each method to offer.")
    if isinstance(only, str):
        raise SchemaError(f"only must be a list of method names, got {only!r}. Pass only=[{only!r}].")
    wanted = frozenset(methods if only is None else only)
    missing = ", ".join(map(repr, sorted(wanted - set(methods))))
    if missing:
        message = f"{cls} has no public method {missing} with a docstring"
        raise SchemaError(f"{message}. Use one of: {', '.join(methods)}.")
    return [name for name in methods if name in wanted]


def _is_method(obj: object, name: str) -> bool:
    member = inspect.getattr_static(type(obj), name)
    return inspect.isfunction(inspect.unwrap(getattr(member, "__func__", member)))


def _is_described(obj: object, name: str) -> bool:
    method = getattr(obj, name)
    tool = getattr(method, "tool", None)  # set if the method has the decorator `tool`
    return bool(inspect.getdoc(method)) if tool is None else tool.description is not None
