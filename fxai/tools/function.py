"""Functions that are tools: what is read off a function or a method so that a tool can be made of it.

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
    """The options of a tool from a function: those of every tool, and these."""

    name: str
    """What the model calls it; by default what the function is called."""
    blocking: bool | None
    """True: a worker thread runs the function. False: it runs inline.

    Default: None, inline, but in `chat_app` and an MCP server threads run plain functions.
    """
    grace: float
    """Seconds that a cancellation waits for such a thread before it leaves it behind; 5 by default."""
    success: Any
    """The type (or `Schema`) of what comes out; by default what the return annotation says."""
    failure: Any
    """The type (or `Schema`) of what can go wrong; by default what the return annotation says."""


_OWN = frozenset(FunctionOptions.__annotations__) - frozenset(ToolOptions.__annotations__)
_SIGNATURES: WeakKeyDictionary[Any, dict[bool, Signature]] = WeakKeyDictionary()


@final
class ToolFunction:
    """A function as a tool is made of it: read at once, or at its first use where annotations name what is not defined.

    Two are equal where function, `blocking` and `grace` are.
    """

    __slots__ = ("_handler", "_options", "_scope", "_signature", "function")

    def __init__(self, function: Callable[..., Any], options: FunctionOptions, scope: Mapping[str, Any]) -> None:
        """Read it; `scope` holds local names that its annotations may use."""
        self.function: Callable[..., Any] = function
        self._options = options
        self._scope: Mapping[str, Any] = scope
        self._handler: Callable[..., Any] | None = None
        self._signature: Signature | None = None
        with contextlib.suppress(NameError):  # a class that is defined further down
            self._signature = _read(function, options, scope)
            self._scope = dict[str, Any]()

    @property
    def is_read(self) -> bool:
        """False where its annotations name what is not defined yet."""
        return self._signature is not None

    @property
    def signature(self) -> Signature:
        """Its parameters, and what it returns.

        Raises:
            SchemaError: the function cannot be a tool, or a name in an annotation is not defined.
        """
        if self._signature is None:
            try:
                self._signature = _read(self.function, self._options, self._scope)
            except NameError as error:
                raise SchemaError(
                    f"an annotation of the function {name_of(self.function)!r} does not resolve: {error}; import or "
                    "define what it names where the function is defined"
                ) from None
        return self._signature

    @property
    def name(self) -> str:
        """What the model calls it."""
        return self._options.get("name", name_of(self.function))

    @property
    def tool_options(self) -> ToolOptions:
        """The options of every tool, the description among them."""
        options = cast(ToolOptions, {key: value for key, value in self._options.items() if key not in _OWN})
        options.setdefault("description", self.signature.description)
        return options

    @property
    def threading(self) -> tuple[bool | None, float]:
        """Whether it blocks, so that it runs in a thread, and how many seconds a cancellation waits for it."""
        return self._options.get("blocking"), self._options.get("grace", 5.0)

    @property
    def handler(self) -> Callable[..., Any]:
        """The handler that it is.

        Raises:
            SchemaError: it is a method without its object.
        """
        if self._handler is None:
            if not _is_bound(self.function):
                raise SchemaError(f"{self.name!r} is a method: use it on an object, so that it has its `self`")
            self._handler = self.signature.handler(self.function)
        return self._handler

    def bind(self, function: Callable[..., Any]) -> ToolFunction:
        """The same for a method that is bound to its object."""
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
            f"the function {name!r} cannot run in a worker thread, where it would have to return a plain value, a "
            "Result or an IOResult: leave blocking=True out"
        )
    if name == "<lambda>" and "name" not in options:
        raise SchemaError("a lambda has no name: say name=…")
    return signature


def _signature(f: Callable[..., Any], name: str, options: FunctionOptions, scope: Mapping[str, Any]) -> Signature:
    """The signature of `f`, found once for a function or method: equal tools of it have one type of parameters."""
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


def tools_of(
    obj: object,
    name: str | None,
    only: Iterable[str] | None,
    options: dict[str, Any],
    make: Callable[[Callable[..., Any], FunctionOptions, Mapping[str, Any]], Any],
) -> list[Any]:
    """The function tools of an object's methods, see `Toolkit.from_object`; `make` makes one of a method.

    Raises:
        SchemaError: no method is described; one that is cannot be a tool; or `only` names one that is not there.
    """
    before = type(obj).__name__ if name is None else name
    prefix = f"{before}." if before else ""
    return [_method_tool(obj, attribute, prefix, options, make) for attribute in _methods_of(obj, only)]


def _method_tool(obj: object, attribute: str, prefix: str, options: dict[str, Any], make: Callable[..., Any]) -> Any:
    method = getattr(obj, attribute)
    if hasattr(method, "made_as"):  # it is decorated as a tool already
        return (method.with_options(**options) if options else method).made_as(prefix + method.name)
    try:
        return make(method, {**options, "name": prefix + attribute}, vars(type(obj))).rename(prefix + attribute)
    except SchemaError as error:
        raise SchemaError(f"{type(obj).__name__}.{attribute} cannot be a tool: {error}") from None


def _methods_of(obj: object, only: Iterable[str] | None) -> list[str]:
    """The names of an object's public methods that are described: those of its bases first, as they are written."""
    cls = type(obj).__name__
    if isinstance(obj, type):
        raise SchemaError(f"{obj.__name__} is a class: tools are made of an object, {obj.__name__}(…)")
    names = dict.fromkeys(name for base in reversed(type(obj).__mro__) for name in vars(base) if name[0] != "_")
    methods = [name for name in names if _is_method(obj, name) and _is_described(obj, name)]
    if not methods:
        raise SchemaError(f"no public method of {cls} has a docstring: describe those that a model may call")
    if isinstance(only, str):
        raise SchemaError(f"only={only!r} is one text: give a list of the names of methods, only=[{only!r}]")
    wanted = frozenset(methods if only is None else only)
    missing = ", ".join(sorted(wanted - set(methods)))
    if missing:
        raise SchemaError(f"{cls} has no public, described method {missing}; it has {', '.join(methods)}")
    return [name for name in methods if name in wanted]


def _is_method(obj: object, name: str) -> bool:
    member = inspect.getattr_static(type(obj), name)
    return inspect.isfunction(inspect.unwrap(getattr(member, "__func__", member)))


def _is_described(obj: object, name: str) -> bool:
    method = getattr(obj, name)
    tool = getattr(method, "tool", None)  # of one that is decorated as a tool already
    return bool(inspect.getdoc(method)) if tool is None else tool.description is not None
