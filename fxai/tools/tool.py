"""Tools: named operations that a language model may ask for.

A tool is a value. It says what the operation is called, what goes in, what comes out and what can go wrong. It never
holds the code that runs: handlers join it later, through a layer. A `FunctionTool` is both, from one function: names,
types, defaults and descriptions come from the signature, from `Annotated` and from the docstring. For it alone a bare
return is the success; a declared `Result` keeps its failure type.

>>> import msgspec
>>> from fxai.tools.tool_options import Readonly
>>> class City(msgspec.Struct, frozen=True):
...     name: str
>>> weather = Tool.make("weather", parameters=City, success=float).annotate(Readonly, True)
>>> weather.get(Readonly), weather.json_schema()["required"]
(True, ['name'])
>>> @tool
... def add(a: int, b: int = 1) -> int:
...     '''Adds two numbers.'''
...     return a + b
>>> add(2, 3), add.description, add.tool.json_schema()["required"]
(5, 'Adds two numbers.', ['a'])
"""

# The type variables of the constructors have defaults: those of the arguments that they stand for. The overloads of
# `tool` go from the forms of a return that say more to the bare one, which takes them all and overlaps on purpose.
# mypy: disable-error-code="overload-overlap, overload-cannot-match"
# pyright: reportInvalidTypeVarUse=false, reportOverlappingOverload=false

from __future__ import annotations

from collections.abc import Callable, Coroutine, Generator, Mapping
from typing import (
    Any,
    ClassVar,
    Concatenate,
    Generic,
    Literal,
    Never,
    ParamSpec,
    Self,
    TypeAlias,
    TypeGuard,
    cast,
    final,
    overload,
)

import msgspec
from returns.context import RequiresContextFutureResult
from returns.future import FutureResult
from returns.io import IOResult
from returns.result import Result
from typing_extensions import TypeForm, TypeVar, Unpack, override

from fxai.effects.context import ContextOf
from fxai.effects.effect import EffectOf
from fxai.effects.layer import AnyLayer, LayerOf, Many
from fxai.effects.stream import StreamOf
from fxai.schema.codec import Schema
from fxai.schema.data import Empty
from fxai.schema.fault import SchemaError
from fxai.schema.json_schema import JsonSchema
from fxai.tools.function import FunctionOptions, ToolFunction, name_of
from fxai.tools.handler import Gives, HandlerOf, HandlerReturn, handler_layer, threading_of, typed_call
from fxai.tools.identity import Identity, Kind, ProviderTool
from fxai.tools.signature import Arguments
from fxai.tools.tool_options import (
    CallContext,
    FormOptions,
    FormProvider,
    ToolCombinators,
    ToolInfo,
    ToolOptions,
    TypeOptions,
    TypeProvider,
    Validation,
    check_examples,
    check_name,
    option_fields,
)
from fxai.tools.type_hints import data_schema, names_around

_P = TypeVar("_P")
_S = TypeVar("_S")
_F = TypeVar("_F", default=Never)
_P2 = TypeVar("_P2", default=Empty)
_S2 = TypeVar("_S2", default=None)
_D2 = TypeVar("_D2", default=object)
_F2 = TypeVar("_F2", default=Never)
_A = TypeVar("_A")
_O = TypeVar("_O")
_K = TypeVar("_K")
_R = TypeVar("_R", default=None)
_Raw: TypeAlias = Mapping[str, Any] | JsonSchema
_V = TypeVar("_V", default=object)  # of raw parameters: any JSON value, or the type that `validation` returns
_Checked: TypeAlias = Literal["schema", "none"] | Callable[[Any], Result[_V, Any]]
_Q = ParamSpec("_Q")
_Q2 = ParamSpec("_Q2")
_FS = TypeVar("_FS")
_FF = TypeVar("_FF")
_FR = TypeVar("_FR")
_A_co = TypeVar("_A_co", covariant=True)
_R_co = TypeVar("_R_co", covariant=True)


class Tool(ToolInfo, ToolCombinators[_P, _S], Generic[_P, _S, _F], frozen=True):
    """A named operation: parameters `P`, success `S`, typed failure `F`.

    Made by `Tool.make`, `Tool.dynamic` or `Tool.provider_defined`. Combinators give a tool of the same kind with the
    same identity, so the handlers that were made for it stay its handlers.
    """

    from_function: ClassVar[ToolDecorator]
    """The tool of a function, with its handler: a `FunctionTool`, as the decorator `tool` makes it."""

    @overload
    @staticmethod
    def make(
        name: str, *, parameters: type[_P2] | Schema[_P2], **options: Unpack[TypeOptions[_P2, _S2, _F2]]
    ) -> Tool[_P2, _S2, _F2]: ...
    @overload
    @staticmethod
    def make(
        name: str, *, parameters: TypeForm[_P2], **options: Unpack[FormOptions[_P2, _S2, _F2]]
    ) -> Tool[_P2, _S2, _F2]: ...
    @overload
    @staticmethod
    def make(name: str, **options: Unpack[TypeOptions[Empty, _S2, _F2]]) -> Tool[Empty, _S2, _F2]: ...
    @overload
    @staticmethod
    def make(name: str, **options: Unpack[FormOptions[Empty, _S2, _F2]]) -> Tool[Empty, _S2, _F2]: ...
    @staticmethod
    def make(
        name: str, *, parameters: Any = Empty, success: Any = None, failure: Any = Never, **options: Unpack[ToolOptions]
    ) -> Any:
        """A tool of our own.

        Args:
            name: what the model calls it.
            parameters: the type (or `Schema`) of what goes in; by default nothing, a closed empty object.
            success: the type of what comes out; by default nothing (`None`).
            failure: the type of what can go wrong; by default nothing can (`Never`).
            options: see `ToolOptions`.

        Raises:
            SchemaError: a type that is how a handler answers (`Success[int]`, an effect, an awaitable) and no data; an
                example that the parameters do not allow; an option that there is none of, or an empty name.
        """
        return _make(
            "user-defined", name, data_schema(parameters, name, "parameters"), success, failure, "schema", options
        )

    @overload
    @staticmethod
    def dynamic(
        name: str, *, parameters: type[_P2] | Schema[_P2] = ..., **options: Unpack[TypeOptions[_P2, _D2, _F2]]
    ) -> Tool[_P2, _D2, _F2]: ...
    @overload
    @staticmethod
    def dynamic(
        name: str, *, parameters: _Raw, validation: _Checked[_V] = ..., **options: Unpack[TypeOptions[_V, _D2, _F2]]
    ) -> Tool[_V, _D2, _F2]: ...
    @overload
    @staticmethod
    def dynamic(
        name: str, *, parameters: _Raw, validation: _Checked[_V] = ..., **options: Unpack[FormOptions[_V, _D2, _F2]]
    ) -> Tool[_V, _D2, _F2]: ...
    @overload
    @staticmethod
    def dynamic(
        name: str, *, parameters: TypeForm[_P2] = ..., **options: Unpack[FormOptions[_P2, _D2, _F2]]
    ) -> Tool[_P2, _D2, _F2]: ...
    @staticmethod
    def dynamic(
        name: str,
        *,
        parameters: Any = Empty,
        success: Any = object,
        failure: Any = Never,
        validation: Validation = "schema",
        **options: Unpack[ToolOptions],
    ) -> Any:
        """A tool that is known only at run time, such as one that a server lists.

        Args:
            name: what the model calls it.
            parameters: a raw JSON Schema document, which is kept as it was given, or a type as in `make`. The handler
                gets the parsed JSON of a raw document untouched.
            success: the type of what comes out; by default anything JSON can carry.
            failure: the type of what can go wrong; by default nothing can.
            validation: how raw parameters are checked: by their schema (the default), not at all (`"none"`), or by a
                function. Types are always checked.
            options: see `ToolOptions`.

        Raises:
            SchemaError: the document is no JSON Schema, refers to another document, or has a pattern that is none.
        """
        raw = isinstance(parameters, Mapping | JsonSchema)
        if not raw and validation != "schema":
            raise SchemaError(f"the tool {name!r} has a typed schema, which is always checked: leave validation out")
        schema = JsonSchema.of(cast(Any, parameters)) if raw else data_schema(parameters, name, "parameters")
        return _make("dynamic", name, schema, success, failure, validation, options)

    @overload
    @staticmethod
    def provider_defined(
        *,
        requires_handler: Literal[True],
        parameters: type[_P2] | Schema[_P2],
        **options: Unpack[TypeProvider[_S2, _F2]],
    ) -> Callable[..., Tool[_P2, _S2, _F2]]: ...
    @overload
    @staticmethod
    def provider_defined(
        *, requires_handler: Literal[True], parameters: TypeForm[_P2], **options: Unpack[FormProvider[_S2, _F2]]
    ) -> Callable[..., Tool[_P2, _S2, _F2]]: ...
    @overload
    @staticmethod
    def provider_defined(
        *, requires_handler: Literal[False] = ..., parameters: Any = ..., **options: Unpack[TypeProvider[_S2, _F2]]
    ) -> Callable[..., ExternalTool[Any, _S2, _F2]]: ...
    @overload
    @staticmethod
    def provider_defined(
        *, requires_handler: Literal[False] = ..., parameters: Any = ..., **options: Unpack[FormProvider[_S2, _F2]]
    ) -> Callable[..., ExternalTool[Any, _S2, _F2]]: ...
    @staticmethod
    def provider_defined(
        *,
        id: str,
        name: str,
        provider_name: str | None,
        requires_handler: bool = False,
        args: type[msgspec.Struct] = Empty,
        parameters: Any = Empty,
        success: Any = None,
        failure: Any = Never,
    ) -> Any:
        """The constructor of a tool that a provider runs, or defines and asks us to run: of its args and `ToolOptions`.

        Args:
            id: the provider and its tool, such as `"openai.web_search"`.
            name: what the tool is called here.
            provider_name: what the provider calls it; None where it calls it as it is called here.
            requires_handler: whether its calls come back to us; then a handler is needed.
            args: the Struct of the arguments that the constructor takes, as keywords, for the provider.
            parameters: what the provider asks with, when it asks back.
            success: what comes out; as in `make`.
            failure: what can go wrong; as in `make`.
        """

        def construct(**given: Any) -> Any:
            options = cast(ToolOptions, {k: given.pop(k) for k in list(given) if k in ToolOptions.__annotations__})
            provider = ProviderTool.of(id, provider_name, args, given, requires_handler=requires_handler)
            if "failure_mode" in options and not requires_handler:
                raise SchemaError(f"the provider runs the tool {name!r}: failure_mode needs requires_handler=True")
            schema = data_schema(parameters, name, "parameters")
            made = _make("provider-defined", name, schema, success, failure, "schema", options, provider)
            return made if requires_handler else made.external()

        return construct

    @staticmethod
    def is_user_defined(x: object) -> TypeGuard[AnyTool]:
        """True for what `Tool.make` made; false for anything else."""
        return _kind_of(x) == "user-defined"

    @staticmethod
    def is_dynamic(x: object) -> TypeGuard[AnyTool]:
        """True for what `Tool.dynamic` made; false for anything else."""
        return _kind_of(x) == "dynamic"

    @staticmethod
    def is_provider_defined(x: object) -> TypeGuard[AnyTool]:
        """True for what a constructor of `Tool.provider_defined` made; false for anything else."""
        return _kind_of(x) == "provider-defined"

    def __fx_change__(self, f: Callable[[Any], Any], /) -> Self:
        changed: Self = f(self)
        return changed

    def external(self) -> ExternalTool[_P, _S, _F]:
        """The same tool, answered outside of this program: no handler is needed, and its calls stay pending."""
        return ExternalTool(*(getattr(self, field) for field in self.__struct_fields__))

    @overload  # the usual one first and last: where all fail, mypy speaks of the first, pyright of the last
    def handler(
        self, f: Callable[[_P], HandlerReturn[_S, _F, _R]], /, *, blocking: bool | None = ..., grace: float = ...
    ) -> LayerOf[HandlerOf[_P, _S, _F], Never, _R | None]: ...
    @overload
    def handler(
        self,
        f: Callable[[_P, CallContext], HandlerReturn[_S, _F, _R]],
        /,
        *,
        blocking: bool | None = ...,
        grace: float = ...,
    ) -> LayerOf[HandlerOf[_P, _S, _F], Never, _R | None]: ...
    @overload
    def handler(
        self, f: Callable[[_P], HandlerReturn[_S, _F, _R]], /, *, blocking: bool | None = ..., grace: float = ...
    ) -> LayerOf[HandlerOf[_P, _S, _F], Never, _R | None]: ...
    def handler(self, f: Callable[..., Any], /, *, blocking: bool | None = None, grace: float = 5.0) -> AnyLayer:
        """The layer that gives `f` as this tool's handler; also as a decorator.

        Args:
            f: takes the parameters, and the `CallContext` as a second argument if it has one without a default.
                Returns any form of `HandlerReturn`; what services it needs, the layer needs.
            blocking: True: a worker thread runs `f`, which returns a `Result` or an `IOResult`. False: `f` runs inline.
                Default: None, inline, but in `chat_app` and an MCP server threads run plain functions.
            grace: seconds that a cancellation waits for such a thread before it leaves it behind.
        """
        return handler_layer(self.identity, f, *threading_of(f, blocking, grace))

    def call(self, params: _P) -> EffectOf[_S, _F, HandlerOf[_P, _S, _F] | None]:
        """The success or typed failure of the handler for `params`; no JSON is involved, and no check."""
        return typed_call(self, params)

    def __fx_handler__(self) -> HandlerOf[_P, _S, _F]:
        raise NotImplementedError

    def __fx_handler_of_many__(self) -> HandlerOf[_P, _S, _F] | Many:
        raise NotImplementedError

    def __fx_gives__(self) -> Gives[Never, Never, HandlerOf[_P, _S, _F] | None]:
        raise NotImplementedError


AnyTool: TypeAlias = Tool[Any, Any, Any]
"""A tool whose types are looked at nowhere."""


class ExternalTool(Tool[_P, _S, _F], frozen=True):
    """A tool that no handler of ours answers: a client's, or one that the provider runs."""

    @property
    @override
    def requires_handler(self) -> bool:
        """False."""
        return False

    @override
    def __fx_handler__(self) -> Never:
        raise NotImplementedError

    @override
    def __fx_handler_of_many__(self) -> Many:
        raise NotImplementedError

    @override
    def __fx_gives__(self) -> Gives[Never, Never, None]:
        raise NotImplementedError

    @override
    def __hash__(self) -> int:
        return hash((self.identity, self.name, "external"))


def _kind_of(x: object) -> Kind | None:
    # Not by isinstance, which asks the value what it is: that may raise.
    return cast("AnyTool", x).identity.kind if issubclass(type(x), Tool) else None


def _make(
    kind: Kind,
    name: str,
    parameters: Schema[Any] | JsonSchema,
    success: Any,
    failure: Any,
    validation: Validation,
    options: ToolOptions,
    provider: ProviderTool | None = None,
) -> AnyTool:
    fields = option_fields(options, name)
    mode = options.get("failure_mode", "error")
    outcome = (data_schema(success, name, "success"), data_schema(failure, name, "failure"))
    identity = Identity(kind, check_name(name), parameters, *outcome, mode, validation, provider)
    made: AnyTool = Tool(identity, name, parameters, *outcome, mode, validation, **fields, provider=provider)
    if made.input_examples:
        check_examples(made)
    return made


# -- functions as tools


@final
class FunctionTool(ToolCombinators[Any, _FS], Generic[_Q, _A_co, _FS, _FF, _R_co]):
    """A function with the tool that it is: still called as the function, with the same signature.

    `Q` is the signature, `A` what a plain call returns; `S`, `F` and `R` are success, failure and needed services.
    An immutable value, made by `tool` or `Tool.from_function`. It goes into toolkits beside tools, such as into
    `Toolkit.make(add)`, and its handler joins by `add.layer`; `BoundToolkit.make(add)` is both.
    """

    __slots__ = ("__fx_function__", "__fx_tool__")

    def __init__(self, function: Callable[_Q, _A_co], options: FunctionOptions, scope: Mapping[str, Any]) -> None:
        """Read the function; if its annotations have names that are not defined yet, at its first use."""
        self.__fx_function__: ToolFunction = ToolFunction(function, options, scope)
        self.__fx_tool__: AnyTool | None = None
        if self.__fx_function__.is_read:
            self.__fx_tool__ = self.tool

    def __call__(self, *args: _Q.args, **kwargs: _Q.kwargs) -> _A_co:
        """What the function returns: a plain call, which knows nothing of tools."""
        return self.__wrapped__(*args, **kwargs)

    @property
    def tool(self) -> Tool[Arguments[_Q], _FS, _FF]:
        """The tool."""
        if self.__fx_tool__ is None:
            self.__fx_tool__ = _tool_of(self.__fx_function__)
        return self.__fx_tool__

    @property
    def layer(self) -> LayerOf[HandlerOf[Arguments[_Q], _FS, _FF], Never, _R_co | None]:
        """The layer that gives the function as the tool's handler; what services it needs, the layer needs."""
        function = self.__fx_function__
        threading = threading_of(function.function, *function.threading)
        layer: LayerOf[Any, Never, Any] = handler_layer(self.tool.identity, function.handler, *threading)
        return layer

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
        return self.__fx_function__.signature.parameters

    def arguments(self, *args: _Q.args, **kwargs: _Q.kwargs) -> Arguments[_Q]:
        """The parameters of a call, for `tool.call`: what is given here is not checked, and a context is left out.

        Raises:
            TypeError: the function takes no such arguments.
        """
        arguments: Arguments[_Q] = self.__fx_function__.signature.arguments(self.__wrapped__, args, kwargs)
        return arguments

    @property
    def __wrapped__(self) -> Callable[_Q, _A_co]:
        """The function, so that `inspect.signature` tells its signature."""
        return self.__fx_function__.function

    @property
    def __name__(self) -> str:
        return name_of(self.__wrapped__)

    def __fx_handler__(self) -> HandlerOf[Arguments[_Q], _FS, _FF]:
        raise NotImplementedError

    def __fx_handler_of_many__(self) -> HandlerOf[Arguments[_Q], _FS, _FF] | Many:
        raise NotImplementedError

    def __fx_gives__(self) -> Gives[HandlerOf[Arguments[_Q], _FS, _FF], Never, _R_co | None]:
        raise NotImplementedError

    def __fx_bound__(self) -> tuple[AnyTool, AnyLayer]:
        return self.tool, self.layer

    @overload
    def __get__(self, instance: None, owner: type[Any]) -> Self: ...
    @overload
    def __get__(
        self: FunctionTool[Concatenate[_O, _Q2], _A, _FS, _FF, _FR], instance: _O, owner: type[Any]
    ) -> FunctionTool[_Q2, _A, _FS, _FF, _FR]: ...
    def __get__(self, instance: object, owner: type[Any]) -> Any:
        """The tool of a method, bound to its object."""
        function: Any = self.__wrapped__
        if instance is None or not hasattr(function, "__get__"):
            return self
        return _copy(self.__fx_function__.bind(function.__get__(instance, owner)), self.__fx_tool__)

    def __fx_change__(self, f: Callable[[Any], Any], /) -> Self:
        """The same function, its tool changed by `f`."""
        changed: Self = _copy(self.__fx_function__, f(self.tool))
        return changed

    def made_as(self, name: str) -> Self:
        """The same, as if it had been made under `name`: another tool, whose handler does not answer this one."""
        old = self.tool
        given: dict[str, Any] = {"parameters": old.parameters, "success": old.success, "failure": old.failure}
        fresh: AnyTool = Tool.make(name, failure_mode=old.failure_mode, **given)
        return self.__fx_change__(lambda tool: msgspec.structs.replace(tool, identity=fresh.identity, name=name))

    @override
    def __eq__(self, other: object) -> bool:
        if not isinstance(other, FunctionTool):
            return NotImplemented
        theirs = cast("AnyFunctionTool", other)
        return self.__fx_function__ == theirs.__fx_function__ and self.tool == theirs.tool

    @override
    def __hash__(self) -> int:
        return hash((FunctionTool, self.__wrapped__))

    @override
    def __repr__(self) -> str:
        return f"FunctionTool({name_of(self.__wrapped__) if self.__fx_tool__ is None else self.name})"


AnyFunctionTool: TypeAlias = FunctionTool[..., Any, Any, Any, Any]
"""A function tool whose types are looked at nowhere."""


def _tool_of(function: ToolFunction) -> AnyTool:
    signature = function.signature
    types = signature.parameters, signature.returned.success, signature.returned.failure
    parameters, success, failure = map(Schema[Any].of, types)
    return Tool.make(function.name, parameters=parameters, success=success, failure=failure, **function.tool_options)


def _copy(function: ToolFunction, made: AnyTool | None) -> Any:
    copied: Any = object.__new__(cast(Any, FunctionTool))
    copied.__fx_function__, copied.__fx_tool__ = function, made
    return copied


@final
class ToolDecorator(msgspec.Struct, frozen=True):
    """What makes tools of functions: `@tool`, and `@tool(…)` with options; `Tool.from_function` is the same.

    A function's name, parameters, defaults and docstring say what the tool is. Parameters are whatever has an
    annotation, but for one of type `CallContext` (or `CallContext | None`), which gets the call's context; `T | None`
    and what has a default need not be given. The function may be `def` or `async def`, and may return a bare success,
    a `Result`, `IOResult` or `FutureResult`, a `RequiresContextFutureResult`, an `Effect`, a generator of effects
    (`Gen`), or a `Stream` whose last item is the result. What it raises is a defect.

    Raises `SchemaError` for a parameter without an annotation, `*args` or `**kwargs`, a return annotation that does not
    say what is returned, or an option that there is none of.
    """

    options: FunctionOptions
    """What each tool is made with."""

    @overload
    def __call__(
        self, f: Callable[_Q, EffectOf[_FS, _FF, _FR]], /, **options: Unpack[FunctionOptions]
    ) -> FunctionTool[_Q, EffectOf[_FS, _FF, _FR], _FS, _FF, _FR]: ...
    @overload
    def __call__(
        self, f: Callable[_Q, Generator[EffectOf[Any, _FF, _FR], object, _FS]], /, **options: Unpack[FunctionOptions]
    ) -> FunctionTool[_Q, Generator[EffectOf[object, _FF, _FR], object, _FS], _FS, _FF, _FR]: ...
    @overload
    def __call__(
        self, f: Callable[_Q, StreamOf[_FS, _FF, _FR]], /, **options: Unpack[FunctionOptions]
    ) -> FunctionTool[_Q, StreamOf[_FS, _FF, _FR], _FS, _FF, _FR]: ...
    @overload
    def __call__(
        self, f: Callable[_Q, Result[_FS, _FF]], /, **options: Unpack[FunctionOptions]
    ) -> FunctionTool[_Q, Result[_FS, _FF], _FS, _FF, None]: ...
    @overload
    def __call__(
        self, f: Callable[_Q, IOResult[_FS, _FF]], /, **options: Unpack[FunctionOptions]
    ) -> FunctionTool[_Q, IOResult[_FS, _FF], _FS, _FF, None]: ...
    @overload
    def __call__(
        self, f: Callable[_Q, FutureResult[_FS, _FF]], /, **options: Unpack[FunctionOptions]
    ) -> FunctionTool[_Q, FutureResult[_FS, _FF], _FS, _FF, None]: ...
    @overload
    def __call__(
        self,
        f: Callable[_Q, RequiresContextFutureResult[_FS, _FF, ContextOf[_FR]]],
        /,
        **options: Unpack[FunctionOptions],
    ) -> FunctionTool[_Q, RequiresContextFutureResult[_FS, _FF, ContextOf[_FR]], _FS, _FF, _FR]: ...
    @overload
    def __call__(
        self, f: Callable[_Q, Coroutine[Any, Any, Result[_FS, _FF]]], /, **options: Unpack[FunctionOptions]
    ) -> FunctionTool[_Q, Coroutine[object, object, Result[_FS, _FF]], _FS, _FF, None]: ...
    @overload
    def __call__(
        self, f: Callable[_Q, Coroutine[Any, Any, EffectOf[_FS, _FF, _FR]]], /, **options: Unpack[FunctionOptions]
    ) -> FunctionTool[_Q, Coroutine[object, object, EffectOf[_FS, _FF, _FR]], _FS, _FF, _FR]: ...
    @overload
    def __call__(
        self, f: Callable[_Q, Coroutine[Any, Any, _FS]], /, **options: Unpack[FunctionOptions]
    ) -> FunctionTool[_Q, Coroutine[object, object, _FS], _FS, Never, None]: ...
    @overload
    def __call__(
        self, f: Callable[_Q, _FS], /, **options: Unpack[FunctionOptions]
    ) -> FunctionTool[_Q, _FS, _FS, Never, None]: ...
    @overload
    def __call__(self, /, **options: Unpack[FunctionOptions]) -> ToolDecorator: ...
    def __call__(self, f: Any = None, /, **options: Unpack[FunctionOptions]) -> Any:
        """The tool of a function; without one, the decorator with these options."""
        merged = cast(FunctionOptions, {**self.options, **options})
        if f is None:
            return ToolDecorator(merged)
        if isinstance(f, FunctionTool):
            raise SchemaError(f"{f!r} is a tool already: change it by annotate, rename and with_options")
        made: AnyFunctionTool = FunctionTool(f, merged, names_around())
        return made


tool: ToolDecorator = ToolDecorator({})
"""Makes tools of functions: `@tool`, or `@tool(failure_mode="return", …)`; see `ToolDecorator`."""

Tool.from_function = tool
