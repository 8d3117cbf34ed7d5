"""Readers of functions and methods. The decorator `tool` uses this module to create a tool from a function.

A signature describes the parameters of a function as one type. fxai uses it to call a function with decoded arguments.

>>> def greet(name: str, times: int = 1) -> str:
...     return f"Hello, {name}! " * times
>>> signature = read_signature(greet, {}, {})
>>> params = signature.parameters(name="Ann")
>>> params, signature.caller(greet)(params)
(greet(name='Ann', times=1), 'Hello, Ann! ')
"""

from __future__ import annotations

import copy
import enum
import inspect
import math
import sys
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from operator import attrgetter
from types import CoroutineType, MappingProxyType, NoneType
from typing import Annotated, Any, Generic, ParamSpec, cast, final, get_origin
from weakref import WeakKeyDictionary

import msgspec
from returns.context import RequiresContextFutureResult
from returns.future import FutureResult
from returns.io import IOResult
from returns.result import Result, Success
from typing_extensions import override

from fxai.effects.effect import EffectOf
from fxai.effects.stream import StreamOf
from fxai.schema.codec import Schema
from fxai.schema.data import Empty
from fxai.schema.fault import SchemaError
from fxai.schema.type_info import arms_of
from fxai.tools.tool_info import CallContext
from fxai.tools.tool_options import ToolOptions
from fxai.tools.type_hints import WRITTEN, Returned, hints_of, name_of, read_return

_Q = ParamSpec("_Q")

_ANNOTATED: Any = Annotated
_BARE = frozenset({bool, int, float, str, list, dict, tuple, NoneType})
_FORMS: tuple[Any, ...] = (
    Result,
    IOResult,
    FutureResult,
    RequiresContextFutureResult,
    EffectOf,
    StreamOf,
    CoroutineType,
)
_SIMPLE = (bool, int, str, enum.Enum, NoneType)


class Arguments(msgspec.Struct, Generic[_Q], frozen=True):
    """The arguments of one call of a function with the signature `Q`. Each parameter is a field with the same name.

    Create it with `FunctionTool.arguments`. fxai also decodes it from a model's arguments.
    """


@final
class Signature(msgspec.Struct, frozen=True):
    """The parameters, return type, and description of a function."""

    parameters: type[Any]
    """A Struct with one field per parameter. `Empty` if the function has no parameters."""
    positional: tuple[str, ...]
    """The names of the parameters that fxai passes by position, in order."""
    keywords: tuple[str, ...]
    """The names of the parameters that fxai passes by name."""
    context: int | str | None
    """The position or name of the parameter for the context of the call. None if the function has no such parameter."""
    returned: Returned
    """The return type."""
    description: str | None
    """The description from the docstring."""

    @staticmethod
    def of(
        f: Callable[..., Any],
        name: str,
        around: Mapping[str, Any],
        *,
        bound: bool = True,
        success: Any = msgspec.UNSET,
        failure: Any = msgspec.UNSET,
    ) -> Signature:
        """Return the signature of `f`.

        Args:
            f: Function, or another callable with a signature.
            name: Name of the function in messages, and name of the type of its parameters.
            around: Local names for the annotations.
            bound: False for an unbound method, whose first parameter is ignored. Default: True.
            success: Type of the success. Default: the type in the return annotation.
            failure: Type of the failure. Default: the type in the return annotation.

        Raises:
            SchemaError: If a parameter has no annotation or is not allowed in a tool, or if the return annotation does
                not contain the type of the success.
            NameError: If a name in an annotation is undefined.
        """
        given = _parameters(f, name)[0 if bound else 1 :]
        hints = hints_of(f, around)
        docstring = Docstring.of(f)
        contexts = [p for p in given if _is_context(hints.get(p.name))]
        if len(contexts) > 1:
            raise SchemaError(f"function {name!r} must have at most one parameter for the CallContext, got two")
        fields = [_field(p, name, hints, docstring) for p in given if p not in contexts]
        by_name = [p.name for p in given if p.kind is p.KEYWORD_ONLY]
        by_location = [p.name for p in given if p.kind is not p.KEYWORD_ONLY]
        return Signature(
            _struct(f, name, fields),
            tuple(p for p in by_location if p not in {c.name for c in contexts}),
            tuple(p for p in by_name if p not in {c.name for c in contexts}),
            next((c.name if c.name in by_name else by_location.index(c.name) for c in contexts), None),
            _read_return(f, name, hints, success, failure),
            docstring.description,
        )

    def caller(self, f: Callable[..., Any]) -> Callable[..., Any]:
        """Return a function of the parameters, and of the context if `f` has one. It returns the value of `f`."""
        get, names, context = self._getter(), self.keywords, self.context

        def call(params: Any) -> Any:
            return f(*get(params))

        def call_by_name(params: Any) -> Any:
            return f(*get(params), **{name: getattr(params, name) for name in names})

        def call_in_context(params: Any, around: CallContext) -> Any:
            given, named = get(params), {name: getattr(params, name) for name in names}
            if isinstance(context, str):
                return f(*given, **named, **{context: around})
            return f(*given[:context], around, *given[context:], **named)

        if context is not None:
            return call_in_context
        return call_by_name if names else call

    def _getter(self) -> Callable[[Any], tuple[Any, ...]]:
        names = self.positional
        if not self.keywords:
            return msgspec.structs.astuple
        if not names:
            return lambda _: ()
        get: Callable[[Any], Any] = attrgetter(*names)
        return get if len(names) > 1 else lambda params: (get(params),)

    def handler(self, f: Callable[..., Any]) -> Callable[..., Any]:
        """Return `f` as a handler. If the return type is bare, the handler returns a success."""
        call = self.caller(f)
        vars(call)[WRITTEN] = f
        if not self.returned.bare:
            return call
        as_result = _await_success if self.returned.awaited else _as_success

        def answer(params: Any) -> Any:
            return as_result(call(params))

        def answer_in_context(params: Any, around: CallContext) -> Any:
            return as_result(call(params, around))

        return answer if self.context is None else answer_in_context

    def arguments(self, f: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Return the parameters of a call of `f` with `args` and `kwargs`, without the context.

        Raises:
            TypeError: If the arguments do not match `f`.
        """
        names = {*self.positional, *self.keywords}
        bound = inspect.signature(f).bind_partial(*args, **kwargs).arguments
        return self.parameters(**{name: value for name, value in bound.items() if name in names})


def _as_success(value: Any) -> Any:
    kind = value.__class__
    if kind in _BARE or not isinstance(value, _FORMS):
        return Success(value)
    return (
        _await_success(value) if kind is CoroutineType else value
    )  # a wrapper, such as `safe`, converted the bare value


async def _await_success(value: Any) -> Any:
    return Success(await value)


def _parameters(f: Callable[..., Any], name: str) -> list[inspect.Parameter]:
    try:
        given = list(inspect.signature(f).parameters.values())
    except (TypeError, ValueError):
        raise SchemaError(
            f"function {name!r} has no readable signature. Write a function with annotations that calls it."
        ) from None
    for parameter in given:
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            many = f"*{parameter.name}" if parameter.kind is parameter.VAR_POSITIONAL else f"**{parameter.name}"
            raise SchemaError(
                f"function {name!r}: a tool cannot have the parameter {many}. Use a list or a dict instead."
            )
    return given


def _field(parameter: inspect.Parameter, name: str, hints: Mapping[str, Any], docstring: Docstring) -> tuple[Any, ...]:
    if parameter.name not in hints:
        raise SchemaError(
            f"parameter {parameter.name!r} of the function {name!r} has no annotation. Write its type, such as "
            f"`{parameter.name}: str`."
        )
    if parameter.name.startswith("__"):
        raise SchemaError(f"parameter {parameter.name!r} of the function {name!r} must not start with __. Rename it.")
    hint = hints[parameter.name]
    tp = _with_description(hint, docstring.parameters.get(parameter.name))
    if _is_field(parameter.default):
        raise SchemaError(
            f"parameter {parameter.name!r} of the function {name!r} has a pydantic Field as its default. Write the"
            f" Field into the type: `{parameter.name}: Annotated[…, Field(…)]`."
        )
    if parameter.default is not parameter.empty:
        return (parameter.name, *_with_default(tp, parameter.default))
    return (parameter.name, tp, None) if _takes_none(hint) else (parameter.name, tp)


def _is_field(value: object) -> bool:
    """Return True if a value is a `Field` of pydantic."""
    field = getattr(sys.modules.get("pydantic.fields"), "FieldInfo", None)
    return field is not None and isinstance(value, field)


def _with_description(hint: Any, text_of_docstring: str | None) -> Any:
    """Return the type with its description: from a `Meta`, a string in `Annotated`, or the docstring, in this order."""
    notes: tuple[Any, ...] = hint.__metadata__ if get_origin(hint) is _ANNOTATED else ()
    if any((isinstance(note, msgspec.Meta) or _is_field(note)) and note.description is not None for note in notes):
        return hint
    texts = [note if isinstance(note, str) else getattr(note, "documentation", None) for note in notes]
    text = next((text for text in texts if isinstance(text, str)), text_of_docstring)
    return hint if text is None else _ANNOTATED[hint, msgspec.Meta(description=inspect.cleandoc(text))]


def _is_context(hint: Any) -> bool:
    return hint is CallContext or CallContext in (arms_of(hint) or ())


def _takes_none(hint: Any) -> bool:
    while get_origin(hint) is _ANNOTATED:
        hint = hint.__origin__
    return NoneType in (arms_of(hint) or ())


def _with_default(tp: Any, default: Any) -> tuple[Any, Any]:
    """Return the type and default of a field. The schema shows a mutable default, and each call receives a copy."""
    if isinstance(default, _SIMPLE) or (isinstance(default, float) and math.isfinite(default)):
        return tp, default
    plain = _plain(tp, default)
    if plain is msgspec.UNSET:  # for example a sentinel object for an omitted argument
        return tp, msgspec.field(default_factory=lambda: default)
    noted = _ANNOTATED[tp, msgspec.Meta(extra_json_schema={"default": plain})]
    return noted, msgspec.field(default_factory=lambda: copy.deepcopy(default))


def _plain(tp: Any, default: Any) -> Any:
    try:
        return Schema[Any].of(tp).encode(default).value_or(msgspec.UNSET)
    except SchemaError:
        return msgspec.UNSET  # the tool rejects the type at its first use, with the location


def _struct(f: Callable[..., Any], name: str, fields: list[tuple[Any, ...]]) -> type[Any]:
    if not fields:
        return Empty
    try:
        made = msgspec.defstruct(
            name if name.isidentifier() else "parameters",
            cast(Any, fields),
            bases=(Arguments,),
            module=getattr(f, "__module__", None),
            frozen=True,
            kw_only=True,
        )
    except TypeError as error:
        raise SchemaError(f"function {name!r}: cannot create a type of its parameters: {error}") from None
    made.__qualname__ = (
        f"{getattr(f, '__qualname__', name)}.parameters"  # where pickle finds it: FunctionTool.parameters
    )
    return made


def _read_return(f: Callable[..., Any], name: str, hints: Mapping[str, Any], success: Any, failure: Any) -> Returned:
    if "return" not in hints and success is msgspec.UNSET:
        raise SchemaError(
            f"function {name!r} has no return annotation. Write the return type, such as `-> str`, or `-> object` for "
            "any JSON value."
        )
    call = f if inspect.isroutine(f) else type(f).__call__
    awaited = inspect.iscoroutinefunction(f) or inspect.iscoroutinefunction(call)
    return read_return(hints.get("return", object), name, awaited=awaited, success=success, failure=failure)


@final
class Docstring(msgspec.Struct, frozen=True):
    """The parts of a docstring, read by `docstring-parser`. It supports the Google, NumPy, and Sphinx styles.

    >>> def add(a: int, b: int) -> int:
    ...     '''Adds two numbers.
    ...
    ...     Args:
    ...         a: the first
    ...         b: the second
    ...     '''
    >>> docstring = Docstring.of(add)
    >>> docstring.description, docstring.parameters["b"]
    ('Adds two numbers.', 'the second')
    """

    description: str | None = None
    """The text before and between the sections. None without such text."""
    parameters: Mapping[str, str] = {}
    """The description of each parameter by name, in one line."""

    @staticmethod
    def of(f: Callable[..., Any]) -> Docstring:
        """Return the docstring of `f`. For a `partial`, read its function. For another object, read its class."""
        text = _text(f)
        if not text:
            return Docstring()
        if "\n" not in text and not text.startswith((":", "@")):
            return Docstring(text)
        return _parse(text)

    @override
    def __hash__(self) -> int:
        return hash((self.description, frozenset(self.parameters)))


def _text(f: Any) -> str:
    described: Any = cast(Any, f).func if isinstance(f, partial) else f  # a partial of a partial is one partial
    if not inspect.isroutine(described):
        cls = cast(Any, type(described))
        described = cls.__call__ if cls.__call__.__doc__ else cls
    return (inspect.getdoc(described) or "").strip()


def _parse(text: str) -> Docstring:
    from docstring_parser import ParseError, parse  # the import takes 20 ms, and only long docstrings need it

    try:
        read = parse(text)
    except ParseError:  # the whole docstring is the description
        return Docstring(text)
    descriptions = {
        name.strip().lstrip("*"): " ".join(parameter.description.split())
        for parameter in read.params
        if parameter.description
        for name in parameter.arg_name.split(",")
    }
    return Docstring((read.description or "").strip() or None, MappingProxyType(descriptions))


# -- functions and methods


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


_SIGNATURES: WeakKeyDictionary[Any, dict[bool, Signature]] = WeakKeyDictionary()


def read_signature(f: Callable[..., Any], options: FunctionOptions, scope: Mapping[str, Any]) -> Signature:
    """Return the signature of a function with these options. `scope` contains local names for its annotations.

    Raises:
        SchemaError: If fxai cannot create a tool from the function.
        NameError: If a name in an annotation is undefined.
    """
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
    bound = is_bound(f)
    function: Any = getattr(f, "__func__", f)
    if types or not inspect.isfunction(function):
        return Signature.of(f, name, scope, bound=bound, **types)
    signatures = _SIGNATURES.setdefault(function, {})
    key = bound and not inspect.ismethod(f)
    if key not in signatures:
        signatures[key] = Signature.of(f, name, scope, bound=bound)
    return signatures[key]


def is_bound(f: Any) -> bool:
    """Return False for a method of a class without an object: its first parameter is `self` without an annotation."""
    if not inspect.isfunction(f):
        return True
    within = f.__qualname__.rpartition(".")[0]
    first = next(iter(inspect.signature(f).parameters.values()), None)
    is_self = first is not None and first.name == "self" and first.annotation is first.empty
    return not (is_self and within and not within.endswith("<locals>"))


def methods_of(obj: object, only: Iterable[str] | None) -> list[str]:
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
