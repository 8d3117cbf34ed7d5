"""Functions as tools: a tool and its handler, both from one function.

Names, types, defaults and descriptions come from the signature, from `Annotated` and from the docstring. Here alone
a bare return is the success; a declared `Result` keeps its failure type.

>>> from fxai.effects import fx
>>> from fxai.tools.toolkit import Toolkit
>>> @tool
... def add(a: int, b: int = 1) -> int:
...     '''Adds two numbers.'''
...     return a + b
>>> add(2, 3), add.tool.description, add.tool.json_schema()["required"]
(5, 'Adds two numbers.', ['a'])
>>> fx.run_sync(Toolkit.make(add).call("add", {"a": 2}).provide(add.layer)).result
3
"""

# The ladder below goes from the forms of a return that say more to the bare one, which takes them all: each overload
# overlaps with the last on purpose.
# mypy: disable-error-code="overload-overlap"
# pyright: reportOverlappingOverload=false

from __future__ import annotations

import contextlib
import inspect
from collections.abc import Callable, Coroutine, Generator, Iterable, Mapping
from functools import partial
from typing import Any, Concatenate, Generic, Never, ParamSpec, Self, cast, final, overload
from weakref import WeakKeyDictionary

import msgspec
from returns.context import RequiresContextFutureResult
from returns.future import FutureResult
from returns.io import IOResult
from returns.result import Result
from typing_extensions import TypeVar, Unpack, override

from fxai.effects.context import ContextOf
from fxai.effects.effect import EffectOf
from fxai.effects.layer import LayerOf
from fxai.effects.stream import StreamOf
from fxai.schema.codec import Schema
from fxai.schema.fault import SchemaError
from fxai.tools.annotations import Annotation, Annotations
from fxai.tools.handler import Gives, HandlerOf
from fxai.tools.options import ToolOptions
from fxai.tools.signature import Arguments, Signature
from fxai.tools.source import BoundToolkit, ToolSource
from fxai.tools.tool import AnyTool, Tool
from fxai.tools.toolkit import Toolkit
from fxai.tools.type_hints import names_around

__all__ = [
    "Definition",
    "FunctionOptions",
    "FunctionTool",
    "MethodsOf",
    "ToolDecorator",
    "define",
    "is_bound",
    "name_of",
    "tool",
    "tools_of",
]

_Q = ParamSpec("_Q")
_Q2 = ParamSpec("_Q2")
_A = TypeVar("_A")
_S = TypeVar("_S")
_F = TypeVar("_F")
_R = TypeVar("_R")
_O = TypeVar("_O")
_K = TypeVar("_K")
_A_co = TypeVar("_A_co", covariant=True)
_R_co = TypeVar("_R_co", covariant=True)


@final
class FunctionTool(Generic[_Q, _A_co, _S, _F, _R_co]):
    """A function with the tool that it is: still called as the function, with the same signature.

    `Q` is the signature, `A` what a plain call returns; `S`, `F` and `R` are success, failure and needed services.
    An immutable value, made by `tool` or `Tool.from_function`. It goes into toolkits beside tools, such as into
    `Toolkit.make(add)`, and its handler joins by `add.layer`; `add.bound` is both.
    """

    __slots__ = ("_function", "_handler", "_made", "_options", "_scope")

    def __init__(self, function: Callable[_Q, _A_co], options: FunctionOptions, scope: Mapping[str, Any]) -> None:
        """Take the function apart; if its annotations have names that are not defined yet, at its first use."""
        self._function = function
        self._options = options
        self._scope: Mapping[str, Any] = scope
        self._handler: Callable[..., Any] | None = None
        self._made: Definition | None = None
        with contextlib.suppress(NameError):  # a class that is defined further down
            self._made = define(function, options, scope)
            self._scope = {}

    def __call__(self, *args: _Q.args, **kwargs: _Q.kwargs) -> _A_co:
        """What the function returns: a plain call, which knows nothing of tools."""
        return self._function(*args, **kwargs)

    # -- what it is

    @property
    def tool(self) -> Tool[Arguments[_Q], _S, _F]:
        """The tool."""
        return self._known.tool

    @property
    def layer(self) -> LayerOf[HandlerOf[Arguments[_Q], _S, _F], Never, _R_co | None]:
        """The layer that gives the function as the tool's handler; what services it needs, the layer needs."""
        made = self._known
        if not is_bound(self._function):
            raise SchemaError(f"{self!r} is a method: use it on an object, so that it has its `self`")
        if self._handler is None:
            self._handler = made.signature.handler(self._function)
        blocking, grace = self._runs
        layer: LayerOf[Any, Never, Any] = made.tool.handler(self._handler, blocking=blocking, grace=grace)
        return layer

    @property
    def bound(self) -> BoundToolkit[HandlerOf[Arguments[_Q], _S, _F], Never, _R_co | None]:
        """The toolkit of this tool alone, with its layer."""
        return BoundToolkit.of(Toolkit.make(self.tool), self.layer, origin=self)

    @property
    def source(self) -> ToolSource[HandlerOf[Arguments[_Q], _S, _F], Never, _R_co | None]:
        """The source of this tool alone, with nothing to open."""
        return self.bound.source

    @property
    def name(self) -> str:
        """What the model calls it."""
        return self.tool.name

    @property
    def description(self) -> str | None:
        """What it does, for the model: as given, else by the docstring."""
        return self.tool.description

    @property
    def parameters(self) -> type[Arguments[_Q]]:
        """The type of its parameters: a Struct with a field for each."""
        return self._known.signature.parameters

    def arguments(self, *args: _Q.args, **kwargs: _Q.kwargs) -> Arguments[_Q]:
        """The parameters of a call, for `tool.call`: what is given here is not checked, and a context is left out.

        Raises:
            TypeError: the function takes no such arguments.
        """
        arguments: Arguments[_Q] = self._known.signature.arguments(self._function, args, kwargs)
        return arguments

    @property
    def __wrapped__(self) -> Callable[_Q, _A_co]:
        """The function, so that `inspect.signature` tells its signature."""
        return self._function

    @property
    def __name__(self) -> str:
        """What the function is called."""
        return name_of(self._function)

    def __fx_handler__(self) -> HandlerOf[Arguments[_Q], _S, _F]:
        """For checkers: what a toolkit with this tool needs."""
        raise NotImplementedError

    def __fx_tool__(self) -> Tool[Arguments[_Q], _S, _F]:
        """What a toolkit holds of it."""
        return self.tool

    def __fx_gives__(self) -> Gives[HandlerOf[Arguments[_Q], _S, _F], Never, _R_co | None]:
        """For checkers: what it gives."""
        raise NotImplementedError

    def __fx_bound__(self) -> BoundToolkit[HandlerOf[Arguments[_Q], _S, _F], Never, _R_co | None]:
        """The toolkit of this tool alone, with its layer."""
        return self.bound

    def __fx_source__(self) -> ToolSource[HandlerOf[Arguments[_Q], _S, _F], Never, _R_co | None]:
        """The source that it is."""
        return self.source

    # -- methods

    @overload
    def __get__(self, instance: None, owner: type[Any]) -> Self: ...
    @overload
    def __get__(
        self: FunctionTool[Concatenate[_O, _Q2], _A, _S, _F, _R], instance: _O, owner: type[Any]
    ) -> FunctionTool[_Q2, _A, _S, _F, _R]: ...
    def __get__(self, instance: object, owner: type[Any]) -> Any:
        """The tool of a method, bound to its object."""
        function: Any = self._function
        if instance is None or not hasattr(function, "__get__"):
            return self
        return self._with(function.__get__(instance, owner), self._made)

    # -- the same, changed

    def annotate(self, key: Annotation[_K], value: _K) -> Self:
        """The same, its tool with an annotation."""
        return self._changed(self.tool.annotate(key, value))

    def annotate_all(self, annotations: Annotations | Mapping[Annotation[Any], Any]) -> Self:
        """The same, its tool with annotations; those it has already are replaced."""
        return self._changed(self.tool.annotate_all(annotations))

    def rename(self, name: str) -> Self:
        """The same, its tool under another name."""
        return self._changed(self.tool.rename(name))

    def prefix(self, prefix: str) -> Self:
        """The same, with `prefix` before its tool's name."""
        return self._changed(self.tool.prefix(prefix))

    def with_description(self, description: str) -> Self:
        """The same, its tool described otherwise."""
        return self._changed(self.tool.with_description(description))

    def with_options(self, **options: Unpack[ToolOptions]) -> Self:
        """The same, its tool with other options; another failure mode makes another tool."""
        return self._changed(self.tool.with_options(**options))

    def made_as(self, name: str) -> Self:
        """The same, as if it had been made under `name`: another tool, whose handler does not answer this one."""
        tool = self.tool
        given: dict[str, Any] = {"parameters": tool.parameters, "success": tool.success, "failure": tool.failure}
        fresh: AnyTool = Tool.make(name, failure_mode=tool.failure_mode, **given)
        return self._changed(msgspec.structs.replace(tool, identity=fresh.identity, name=name))

    def _changed(self, tool: AnyTool) -> Self:
        changed = self._with(self._function, Definition(tool, self._known.signature))
        changed._handler = self._handler
        return changed

    def _with(self, function: Callable[..., Any], made: Definition | None) -> Self:
        changed = object.__new__(type(self))
        changed._function = function
        changed._options = self._options
        changed._scope = self._scope
        changed._made = made
        changed._handler = None
        return changed

    @property
    def _known(self) -> Definition:
        if self._made is None:
            try:
                self._made = define(self._function, self._options, self._scope)
            except NameError as error:
                raise SchemaError(
                    f"an annotation of the function {name_of(self._function)!r} does not resolve: {error}; import or "
                    "define what it names where the function is defined"
                ) from None
        return self._made

    # -- as a value

    @override
    def __eq__(self, other: object) -> bool:
        if not isinstance(other, FunctionTool):
            return NotImplemented
        theirs = cast("FunctionTool[..., Any, Any, Any, Any]", other)
        return self._function == theirs._function and self.tool == theirs.tool and self._runs == theirs._runs

    @property
    def _runs(self) -> tuple[bool, float]:
        return self._options.get("blocking", False), self._options.get("grace", 5.0)

    @override
    def __hash__(self) -> int:
        return hash((FunctionTool, self._function))

    @override
    def __repr__(self) -> str:
        name = name_of(self._function) if self._made is None else self._made.tool.name
        return f"FunctionTool({name})"


@final
class ToolDecorator:
    """What makes tools of functions: `@tool`, and `@tool(…)` with options; `Tool.from_function` is the same.

    A function's name, parameters, defaults and docstring say what the tool is. Parameters are whatever has an
    annotation, but for one of type `CallContext` (or `CallContext | None`), which gets the call's context; `T | None`
    and what has a default need not be given. The function may be `def` or `async def`, and may return a bare success,
    a `Result`, `IOResult` or `FutureResult`, a `RequiresContextFutureResult`, an `Effect`, a generator of effects
    (`Gen`), or a `Stream` whose last item is the result. What it raises is a defect.

    Raises:
        SchemaError: a parameter without an annotation, `*args` or `**kwargs`, a return annotation that does not say
            what is returned, or an option that there is none of.
    """

    __slots__ = ("_options",)

    def __init__(self, options: FunctionOptions) -> None:
        """Keep the options; use `tool`."""
        self._options = options

    @overload
    def __call__(
        self, f: Callable[_Q, EffectOf[_S, _F, _R]], /, **options: Unpack[FunctionOptions]
    ) -> FunctionTool[_Q, EffectOf[_S, _F, _R], _S, _F, _R]: ...
    @overload
    def __call__(
        self, f: Callable[_Q, Generator[EffectOf[Any, _F, _R], object, _S]], /, **options: Unpack[FunctionOptions]
    ) -> FunctionTool[_Q, Generator[EffectOf[object, _F, _R], object, _S], _S, _F, _R]: ...
    @overload
    def __call__(
        self, f: Callable[_Q, StreamOf[_S, _F, _R]], /, **options: Unpack[FunctionOptions]
    ) -> FunctionTool[_Q, StreamOf[_S, _F, _R], _S, _F, _R]: ...
    @overload
    def __call__(
        self, f: Callable[_Q, Result[_S, _F]], /, **options: Unpack[FunctionOptions]
    ) -> FunctionTool[_Q, Result[_S, _F], _S, _F, None]: ...
    @overload
    def __call__(
        self, f: Callable[_Q, IOResult[_S, _F]], /, **options: Unpack[FunctionOptions]
    ) -> FunctionTool[_Q, IOResult[_S, _F], _S, _F, None]: ...
    @overload
    def __call__(
        self, f: Callable[_Q, FutureResult[_S, _F]], /, **options: Unpack[FunctionOptions]
    ) -> FunctionTool[_Q, FutureResult[_S, _F], _S, _F, None]: ...
    @overload
    def __call__(
        self,
        f: Callable[_Q, RequiresContextFutureResult[_S, _F, ContextOf[_R]]],
        /,
        **options: Unpack[FunctionOptions],
    ) -> FunctionTool[_Q, RequiresContextFutureResult[_S, _F, ContextOf[_R]], _S, _F, _R]: ...
    @overload
    def __call__(
        self, f: Callable[_Q, Coroutine[Any, Any, Result[_S, _F]]], /, **options: Unpack[FunctionOptions]
    ) -> FunctionTool[_Q, Coroutine[object, object, Result[_S, _F]], _S, _F, None]: ...
    @overload
    def __call__(
        self, f: Callable[_Q, Coroutine[Any, Any, EffectOf[_S, _F, _R]]], /, **options: Unpack[FunctionOptions]
    ) -> FunctionTool[_Q, Coroutine[object, object, EffectOf[_S, _F, _R]], _S, _F, _R]: ...
    @overload
    def __call__(
        self, f: Callable[_Q, Coroutine[Any, Any, _S]], /, **options: Unpack[FunctionOptions]
    ) -> FunctionTool[_Q, Coroutine[object, object, _S], _S, Never, None]: ...
    @overload
    def __call__(
        self, f: Callable[_Q, _S], /, **options: Unpack[FunctionOptions]
    ) -> FunctionTool[_Q, _S, _S, Never, None]: ...
    @overload
    def __call__(self, /, **options: Unpack[FunctionOptions]) -> ToolDecorator: ...
    def __call__(self, f: Any = None, /, **options: Unpack[FunctionOptions]) -> Any:
        """The tool of a function; without one, the decorator with these options."""
        merged = cast(FunctionOptions, {**self._options, **options})
        if f is None:
            return ToolDecorator(merged)
        if isinstance(f, FunctionTool):
            raise SchemaError(f"{f!r} is a tool already: change it by annotate, rename and with_options")
        made: FunctionTool[..., Any, Any, Any, Any] = FunctionTool(f, merged, names_around())
        return made


tool: ToolDecorator = ToolDecorator({})
"""Makes tools of functions: `@tool`, or `@tool(failure_mode="return", …)`; see `ToolDecorator`."""


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

    tool: AnyTool
    """The tool."""
    signature: Signature
    """How the function is called, and what it gives."""


_SIGNATURES: WeakKeyDictionary[Any, dict[bool, Signature]] = WeakKeyDictionary()


def define(f: Callable[..., Any], options: FunctionOptions, scope: Mapping[str, Any]) -> Definition:
    """The definition of `f` as a tool; `scope` holds local names that its annotations may use.

    >>> def add(a: int, b: int = 1) -> int:
    ...     return a + b
    >>> definition = define(add, {"failure_mode": "return"}, {})
    >>> definition.tool.name, definition.tool.failure_mode, definition.signature.positional
    ('add', 'return', ('a', 'b'))

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
    """The tools of an object's public, described methods, with their layer; see `Toolkit.from_object`.

    They are called `Class.method`. A method without a docstring is not offered: a model could not know when to call it.

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
