"""Tools are named operations that a language model can call. Use this module to define a tool.

A tool is an immutable value. It contains the name of an operation, its parameters, its result, and its failures. It
contains no code: a layer supplies the handler later. A `FunctionTool` is a function with its own tool. fxai reads the
names, types, defaults, and descriptions of the tool from the function's signature, `Annotated`, and docstring. A
function tool can return a bare success. If the function declares a `Result`, the tool keeps the failure type.

>>> import msgspec
>>> from fxai.tools.annotation import Readonly
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

# Each default of a constructor's type variable matches the default of its argument. The overloads of `tool` start with
# the most specific return types. The last overload accepts every return type and overlaps the others on purpose.
# mypy: disable-error-code="overload-overlap, overload-cannot-match"
# pyright: reportInvalidTypeVarUse=false, reportOverlappingOverload=false, reportRedeclaration=false

from __future__ import annotations

from collections.abc import Callable, Coroutine, Generator, Iterable, Mapping
from copy import copy
from typing import (
    TYPE_CHECKING,
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
from fxai.effects.mistake import MYPY
from fxai.effects.stream import StreamOf
from fxai.schema.codec import Schema
from fxai.schema.data import Empty
from fxai.schema.fault import SchemaError
from fxai.schema.json_schema import JsonSchema
from fxai.tools.handler import handler_layer, typed_call
from fxai.tools.identity import Identity, Kind, ProviderTool
from fxai.tools.tool_info import CallContext, ToolInfo, Validation, check_examples
from fxai.tools.tool_options import ToolCombinators, ToolOptions, check_name, option_fields
from fxai.tools.type_hints import data_schema, name_of, names_around

if TYPE_CHECKING:
    from fxai.tools.function import Arguments, FunctionOptions, Signature
    from fxai.tools.handler_types import Gives, HandlerOf, HandlerReturn
    from fxai.tools.tool_options import FormOptions, FormProvider, MakeOptions, TypeOptions, TypeProvider

    _P2 = TypeVar("_P2", default=Empty)
    _S2 = TypeVar("_S2", default=None)
    _D2 = TypeVar("_D2", default=object)
    _F2 = TypeVar("_F2", default=Never)
    _A = TypeVar("_A")
    _O = TypeVar("_O")
    _K = TypeVar("_K")
    _R = TypeVar("_R", default=None)
    _Q2 = ParamSpec("_Q2")
    _FR = TypeVar("_FR")

_P = TypeVar("_P")
_S = TypeVar("_S")
_F = TypeVar("_F", default=Never)
_Raw: TypeAlias = Mapping[str, Any] | JsonSchema
_V = TypeVar("_V", default=object)  # the type that `validation` returns, or any JSON value
_Checked: TypeAlias = Literal["schema", "none"] | Callable[[Any], Result[_V, Any]]
_Q = ParamSpec("_Q")
_FS = TypeVar("_FS")
_FF = TypeVar("_FF")
_A_co = TypeVar("_A_co", covariant=True)
_R_co = TypeVar("_R_co", covariant=True)
_ONLY_OF_FUNCTIONS = ("name", "blocking", "grace", "success", "failure")  # options of `FunctionOptions`


class Tool(ToolInfo, ToolCombinators[_P, _S], Generic[_P, _S, _F], frozen=True):
    """A named operation with the parameters `P`, the success `S`, and the typed failure `F`.

    Create a tool with `Tool.make`, `Tool.dynamic`, or `Tool.provider_defined`. The methods that change a tool return a
    tool with the same kind and identity, so the existing handlers still match the tool.
    """

    from_function: ClassVar[ToolDecorator]
    """The decorator `tool` under another name. It creates a `FunctionTool`."""

    if MYPY:  # mypy finds no type in a union with `TypeForm`

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
        def make(name: str, **options: Any) -> Any:  # noqa: D102
            raise NotImplementedError

    else:

        @staticmethod
        def make(
            name: str,
            *,
            parameters: type[_P2] | Schema[_P2] | TypeForm[_P2] = Empty,
            **options: Unpack[MakeOptions[_P2, _S2, _F2]],
        ) -> Tool[_P2, _S2, _F2]:
            """Define a tool with a typed schema.

            Args:
                name: Name of the tool for the model.
                parameters: Type or `Schema` of the parameters. Default: none, a closed empty object.
                success: Type or `Schema` of the success. Default: `None`.
                failure: Type or `Schema` of the failure. Default: `Never`, no failure.
                options: See `ToolOptions`.

            Raises:
                SchemaError: If a type is the return type of a handler (`Success[int]`, an effect, an awaitable) and not
                    a data type, if the parameters do not allow an example, if an option is unknown, or if the name is
                    blank.
            """
            success: Any = options.pop("success", None)
            failure: Any = options.pop("failure", Never)
            schema = data_schema(parameters, name, "parameters")
            made: Any = _make("user-defined", name, schema, success, failure, "schema", options)
            return made

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
        """Define a tool at run time, such as a tool that a server lists.

        Args:
            name: Name of the tool for the model.
            parameters: A raw JSON Schema document, or a type as in `make`. fxai stores a document unchanged and passes
                the parsed JSON to the handler unchanged.
            success: Type of the success. Default: `object`, any JSON value.
            failure: Type of the failure. Default: `Never`, no failure.
            validation: How fxai checks the arguments of a raw document: `"schema"`, `"none"`, or a function. fxai
                always checks the arguments of a typed schema. Default: `"schema"`.
            options: See `ToolOptions`.

        Raises:
            SchemaError: If the document is not a valid JSON Schema, refers to another document, or contains an invalid
                pattern.
        """
        raw = isinstance(parameters, Mapping | JsonSchema)
        if not raw and validation != "schema":
            raise SchemaError(f"tool {name!r}: validation must be 'schema' for a typed schema. Omit validation.")
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
        """Return the constructor of a tool that a provider defines. Its arguments are `args` and `ToolOptions`.

        Args:
            id: Provider and tool, such as `"openai.web_search"`.
            name: Name of the tool in fxai.
            provider_name: Name of the tool at the provider. None means `name`.
            requires_handler: True if the provider sends the calls to your program, which then needs a handler. False
                if the provider runs the calls. Default: False.
            args: Struct of the constructor's keyword arguments, which fxai sends to the provider.
            parameters: Type of the arguments in the provider's calls.
            success: Type of the success, as in `make`.
            failure: Type of the failure, as in `make`.
        """

        def construct(**given: Any) -> Any:
            options = cast(ToolOptions, {k: given.pop(k) for k in list(given) if k in ToolOptions.__annotations__})
            provider = ProviderTool.of(id, provider_name, args, given, requires_handler=requires_handler)
            if "failure_mode" in options and not requires_handler:
                raise SchemaError(f"tool {name!r}: failure_mode needs requires_handler=True. The provider runs it.")
            schema = data_schema(parameters, name, "parameters")
            made = _make("provider-defined", name, schema, success, failure, "schema", options, provider)
            return made if requires_handler else made.external()

        return construct

    @staticmethod
    def is_user_defined(x: object) -> TypeGuard[AnyTool]:
        """Return True if `Tool.make` created the value."""
        return _kind_of(x) == "user-defined"

    @staticmethod
    def is_dynamic(x: object) -> TypeGuard[AnyTool]:
        """Return True if `Tool.dynamic` created the value."""
        return _kind_of(x) == "dynamic"

    @staticmethod
    def is_provider_defined(x: object) -> TypeGuard[AnyTool]:
        """Return True if a constructor of `Tool.provider_defined` created the value."""
        return _kind_of(x) == "provider-defined"

    def __fx_change__(self, f: Callable[[Any], Any], /) -> Self:
        changed: Self = f(self)
        return changed

    def external(self) -> ExternalTool[_P, _S, _F]:
        """Return the tool without a handler. Another program answers its calls, and the calls stay pending."""
        return ExternalTool(*(getattr(self, field) for field in self.__struct_fields__))

    @overload  # repeated below, because mypy reports the first overload and pyright reports the last
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
        """Return the layer with `f` as the handler of this tool. You can use this method as a decorator.

        Args:
            f: A function of the parameters. If it has a second argument without a default, fxai also passes the
                `CallContext`. It returns any form of `HandlerReturn`. The layer needs the services that `f` needs.
            blocking: True: a worker thread runs `f`, and the event loop runs an effect that it returns. False: `f` runs
                inline. Default: None, inline. In `chat_app` and MCP servers, None runs plain functions in threads.
            grace: Seconds that a cancellation waits for the thread before it abandons the thread. Default: 5.
        """
        return handler_layer(self.identity, f, blocking, grace)

    def call(self, params: _P) -> EffectOf[_S, _F, HandlerOf[_P, _S, _F] | None]:
        """Call the handler with typed `params`. Return its success or typed failure without JSON and validation."""
        return typed_call(self, params)

    def __fx_handler__(self) -> HandlerOf[_P, _S, _F]:
        raise NotImplementedError

    def __fx_handler_of_many__(self) -> HandlerOf[_P, _S, _F] | Many:
        raise NotImplementedError

    def __fx_gives__(self) -> Gives[Never, Never, HandlerOf[_P, _S, _F] | None]:
        raise NotImplementedError


AnyTool: TypeAlias = Tool[Any, Any, Any]
"""A tool with unchecked types."""


class ExternalTool(Tool[_P, _S, _F], frozen=True):
    """A tool without a handler in this program. A client or a provider answers its calls."""

    @property
    @override
    def requires_handler(self) -> bool:
        """False, because no handler in this program answers its calls."""
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
    # `isinstance` reads `x.__class__`, and a property of this name can raise
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
    """A function with its own tool. You still call it as a function with the same signature.

    `Q` is the signature, and `A` is the return type of a plain call. `S`, `F`, and `R` are the success, the failure,
    and the needed services. Create the immutable value with `tool` or `Tool.from_function`. Add it to
    toolkits like a tool: `Toolkit.make(add)`. Its property `layer` supplies the handler. `BoundToolkit.make(add)`
    combines both.
    """

    __slots__ = ("__fx_call__", "__fx_made__", "__fx_options__", "__fx_scope__", "__fx_signature__", "__wrapped__")

    __wrapped__: Callable[_Q, _A_co]
    """The function, for `inspect.signature`."""

    def __init__(self, function: Callable[_Q, _A_co], options: FunctionOptions, scope: Mapping[str, Any]) -> None:
        """Read the function. If an annotation names an undefined type, read the function at its first use."""
        self.__wrapped__ = function
        self.__fx_options__: FunctionOptions = options
        self.__fx_scope__: Mapping[str, Any] = scope  # the local names for the annotations
        self.__fx_call__: Callable[..., Any] | None = None
        self.__fx_signature__: Signature | None = None
        self.__fx_made__: AnyTool | None = None
        try:
            self.__fx_signature__ = _read(self)
        except NameError:  # the module may define a named class later
            return
        self.__fx_scope__ = dict[str, Any]()
        self.__fx_made__ = self.tool

    def __call__(self, *args: _Q.args, **kwargs: _Q.kwargs) -> _A_co:
        """Call the function without any tool mechanism."""
        return self.__wrapped__(*args, **kwargs)

    @property
    def tool(self) -> Tool[Arguments[_Q], _FS, _FF]:
        """The tool of the function."""
        if self.__fx_made__ is None:
            signature = _signature_of(self)
            options: Any = {k: v for k, v in self.__fx_options__.items() if k not in _ONLY_OF_FUNCTIONS}
            options.setdefault("description", signature.description)
            types = signature.parameters, signature.returned.success, signature.returned.failure
            parameters, success, failure = map(Schema[Any].of, types)
            name = self.__fx_options__.get("name", self.__name__)
            self.__fx_made__ = Tool.make(name, parameters=parameters, success=success, failure=failure, **options)
        return self.__fx_made__

    @property
    def layer(self) -> LayerOf[HandlerOf[Arguments[_Q], _FS, _FF], Never, _R_co | None]:
        """The layer with the function as the handler of the tool. It needs the services that the function needs.

        Raises:
            SchemaError: If the function is an unbound method.
        """
        function = self.__wrapped__
        if self.__fx_call__ is None:
            from fxai.tools.function import is_bound  # not every program has tools from functions

            if not is_bound(function):
                raise SchemaError(f"cannot create a tool from the unbound method {self.name!r}. Pass obj.{self.name}.")
            self.__fx_call__ = _signature_of(self).handler(function)
        return handler_layer(self.tool.identity, self.__fx_call__, *_threading(self), function)

    @property
    def name(self) -> str:
        """The name of the tool for the model."""
        return self.tool.name

    @property
    def description(self) -> str | None:
        """The description for the model. By default, it is the docstring."""
        return self.tool.description

    @property
    def parameters(self) -> type[Arguments[_Q]]:
        """The type of the parameters, which is a Struct with one field per parameter."""
        return _signature_of(self).parameters

    def arguments(self, *args: _Q.args, **kwargs: _Q.kwargs) -> Arguments[_Q]:
        """Return these arguments as parameters for `tool.call`, without validation and without a `CallContext`.

        Raises:
            TypeError: If the arguments do not match the signature of the function.
        """
        arguments: Arguments[_Q] = _signature_of(self).arguments(self.__wrapped__, args, kwargs)
        return arguments

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
        """Return the tool of a method, bound to its object."""
        function: Any = self.__wrapped__
        if instance is None or not hasattr(function, "__get__"):
            return self
        bound = copy(self)
        bound.__wrapped__, bound.__fx_call__ = function.__get__(instance, owner), None
        return bound

    def __fx_change__(self, f: Callable[[Any], Any], /) -> Self:
        """Return the same function with the tool that `f` returns."""
        changed = copy(self)
        changed.__fx_made__ = f(self.tool)
        return changed

    def made_as(self, name: str) -> Self:
        """Return the function with a new tool named `name`. Handlers of the old tool do not match the new tool."""
        old = self.tool
        given: dict[str, Any] = {"parameters": old.parameters, "success": old.success, "failure": old.failure}
        fresh: AnyTool = Tool.make(name, failure_mode=old.failure_mode, **given)
        return self.__fx_change__(lambda tool: msgspec.structs.replace(tool, identity=fresh.identity, name=name))

    @override
    def __eq__(self, other: object) -> bool:
        if not isinstance(other, FunctionTool):
            return NotImplemented
        theirs = cast("AnyFunctionTool", other)
        is_same = self.__wrapped__ == theirs.__wrapped__ and _threading(self) == _threading(theirs)
        return is_same and self.tool == theirs.tool

    @override
    def __hash__(self) -> int:
        return hash((FunctionTool, self.__wrapped__))

    @override
    def __repr__(self) -> str:
        return f"FunctionTool({self.__name__ if self.__fx_made__ is None else self.name})"


AnyFunctionTool: TypeAlias = FunctionTool[..., Any, Any, Any, Any]
"""A function tool with unchecked types."""


def _read(tool: AnyFunctionTool) -> Signature:
    from fxai.tools.function import read_signature  # not every program has tools from functions

    return read_signature(tool.__wrapped__, tool.__fx_options__, tool.__fx_scope__)


def _signature_of(tool: AnyFunctionTool) -> Signature:
    if tool.__fx_signature__ is None:
        try:
            tool.__fx_signature__ = _read(tool)
        except NameError as error:
            raise SchemaError(
                f"function {tool.__name__!r}: an annotation contains an undefined name: {error}. Import or define the "
                "name next to the function."
            ) from None
    return tool.__fx_signature__


def _threading(tool: AnyFunctionTool) -> tuple[bool | None, float]:
    """Return the option `blocking`, and the seconds that a cancellation waits for the thread."""
    return tool.__fx_options__.get("blocking"), tool.__fx_options__.get("grace", 5.0)


@final
class ToolDecorator(msgspec.Struct, frozen=True):
    """The decorator that creates tools from functions: `@tool`, or `@tool(…)` with options.

    `Tool.from_function` is the same decorator. The name, parameters, defaults, and docstring of the function define
    the tool. Each parameter with an annotation becomes a parameter of the tool, except a parameter of the type
    `CallContext` or `CallContext | None`, which receives the context of the call. Parameters with a default and
    parameters of a type `T | None` are optional.

    The function can use `def` or `async def`. It can return one of these values:

    - a bare success
    - a `Result`, `IOResult`, `FutureResult`, or `RequiresContextFutureResult`
    - an `Effect`, or a generator of effects (`Gen`)
    - a `Stream` whose last item is the result

    An exception from the function is a defect.

    Raises `SchemaError` if a parameter has no annotation, if the function has `*args` or `**kwargs`, if the return
    annotation does not contain the type of the result, or if an option is unknown.
    """

    options: FunctionOptions
    """The options of each tool that the decorator creates."""

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
        """Create a tool from a function. Without a function, return the decorator with these options."""
        merged = cast("FunctionOptions", {**self.options, **options})
        if f is None:
            return ToolDecorator(merged)
        if isinstance(f, FunctionTool | Tool):
            shown = f"Tool({f.name!r})" if isinstance(f, Tool) else repr(cast(object, f))
            raise SchemaError(f"{shown} is already a tool. Use annotate, rename, or with_options to change it.")
        made: AnyFunctionTool = FunctionTool(f, merged, names_around())
        return made


tool: ToolDecorator = ToolDecorator({})
"""The decorator of functions that are tools: `@tool`, or `@tool(failure_mode="return", …)`. See `ToolDecorator`."""

Tool.from_function = tool


def tools_of(
    obj: object,
    name: str | None,
    only: Iterable[str] | None,
    options: dict[str, Any],
) -> list[AnyFunctionTool]:
    """Return the function tools of an object's methods, see `Toolkit.from_object`.

    Raises:
        SchemaError: If no method has a docstring, if fxai cannot create a tool from a method, or if `only` contains an
            unknown name.
    """
    from fxai.tools.function import methods_of  # not every program has tools from functions

    before = type(obj).__name__ if name is None else name
    prefix = f"{before}." if before else ""
    return [_method_tool(obj, attribute, prefix, options) for attribute in methods_of(obj, only)]


def _method_tool(obj: object, attribute: str, prefix: str, options: dict[str, Any]) -> AnyFunctionTool:
    method: Any = getattr(obj, attribute)
    if isinstance(method, FunctionTool):
        function: AnyFunctionTool = cast(Any, method)
        return (function.with_options(**options) if options else function).made_as(prefix + function.name)
    try:
        given = cast("FunctionOptions", {**options, "name": prefix + attribute})
        made: AnyFunctionTool = FunctionTool(method, given, vars(type(obj)))
        return made.rename(prefix + attribute)
    except SchemaError as error:
        raise SchemaError(f"cannot create a tool from {type(obj).__name__}.{attribute}: {error}") from None
