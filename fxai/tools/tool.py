"""Tools: named operations that a language model may ask for.

A tool is a value. It says what the operation is called, what goes in, what comes out and what can go wrong. It never
holds the code that runs: handlers join it later, through a layer.

>>> import msgspec
>>> from fxai.tools.annotations import Readonly
>>> class City(msgspec.Struct, frozen=True):
...     name: str
>>> weather = Tool.make("weather", parameters=City, success=float).annotate(Readonly, True)
>>> weather.get(Readonly), weather.json_schema()["required"]
(True, ['name'])
"""

# The type variables of the constructors have defaults: those of the arguments that they stand for.
# pyright: reportInvalidTypeVarUse=false

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Literal, Never, Self, TypeAlias, TypeGuard, cast, overload

import msgspec
from typing_extensions import TypeVar, Unpack, override

from fxai.effects.effect import EffectOf
from fxai.effects.layer import LayerOf
from fxai.schema.codec import Schema
from fxai.schema.data import Empty
from fxai.schema.fault import SchemaError
from fxai.schema.json_schema import JsonSchema
from fxai.tools.annotations import Annotation, Annotations
from fxai.tools.handler import CallContext, HandlerOf, HandlerReturn, handler_layer, typed_call
from fxai.tools.identity import FailureMode, Identity, Kind, ProviderTool
from fxai.tools.options import Example, NeedsApproval, ToolOptions, Validation, hold_examples, taken
from fxai.tools.return_types import data_meant

if TYPE_CHECKING:
    from fxai.tools.function import ToolDecorator
    from fxai.tools.handler import Gives

__all__ = ["AnyTool", "ExternalTool", "Tool"]

_P = TypeVar("_P")
_S = TypeVar("_S")
_F = TypeVar("_F", default=Never)
_P2 = TypeVar("_P2")
_S2 = TypeVar("_S2", default=None)
_D2 = TypeVar("_D2", default=object)
_F2 = TypeVar("_F2", default=Never)
_K = TypeVar("_K")
_R = TypeVar("_R", default=None)


class Tool(msgspec.Struct, Generic[_P, _S, _F], frozen=True):
    """A named operation: parameters `P`, success `S`, typed failure `F`.

    Made by `Tool.make`, `Tool.dynamic` or `Tool.provider_defined`. Combinators give a tool of the same kind with the
    same identity, so the handlers that were made for it stay its handlers.
    """

    identity: Identity
    """Which tool this is, whatever it is called since."""
    name: str
    """What it is called; any text. Each provider's own rule is met where a request is made."""
    parameters: Schema[Any] | JsonSchema
    """What goes in: a schema of ours, or a raw JSON Schema document."""
    success: Schema[Any]
    """What comes out."""
    failure: Schema[Any]
    """What can go wrong, in the handler's own terms."""
    failure_mode: FailureMode = "error"
    """Where a typed failure goes: into the error channel, or to the model as the result."""
    validation: Validation = "schema"
    """How raw parameters are checked."""
    given_description: str | None = None
    annotations: Annotations = Annotations()
    """What is known of it, by typed keys."""
    needs_approval: NeedsApproval = False
    """Whether a call must be approved first."""
    input_examples: tuple[Example, ...] = ()
    """Examples of calls."""
    to_model_output: Callable[[Any], Any] | None = None
    """Changes what the model is shown of a success."""
    provider_options: Mapping[str, Any] = {}
    """By provider name, what only that provider understands."""
    dependencies: tuple[Any, ...] = ()
    """Keys of the services that its handler will need."""
    provider: ProviderTool | None = None
    """What the provider knows it by; None unless it is provider-defined."""

    # -- constructors

    @overload
    @staticmethod
    def make(
        name: str,
        *,
        success: type[_S2] | Schema[_S2] = ...,
        failure: type[_F2] | Schema[_F2] = ...,
        **options: Unpack[ToolOptions],
    ) -> Tool[Empty, _S2, _F2]: ...
    @overload
    @staticmethod
    def make(
        name: str,
        *,
        parameters: type[_P2] | Schema[_P2],
        success: type[_S2] | Schema[_S2] = ...,
        failure: type[_F2] | Schema[_F2] = ...,
        **options: Unpack[ToolOptions],
    ) -> Tool[_P2, _S2, _F2]: ...
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
        return _made("user-defined", name, _schema(parameters, name), success, failure, "schema", options)

    @overload
    @staticmethod
    def dynamic(
        name: str,
        *,
        success: type[_D2] | Schema[_D2] = ...,
        failure: type[_F2] | Schema[_F2] = ...,
        **options: Unpack[ToolOptions],
    ) -> Tool[Empty, _D2, _F2]: ...
    @overload
    @staticmethod
    def dynamic(
        name: str,
        *,
        parameters: type[_P2] | Schema[_P2],
        success: type[_D2] | Schema[_D2] = ...,
        failure: type[_F2] | Schema[_F2] = ...,
        **options: Unpack[ToolOptions],
    ) -> Tool[_P2, _D2, _F2]: ...
    @overload
    @staticmethod
    def dynamic(
        name: str,
        *,
        parameters: Mapping[str, Any] | JsonSchema,
        success: type[_D2] | Schema[_D2] = ...,
        failure: type[_F2] | Schema[_F2] = ...,
        validation: Validation = ...,
        **options: Unpack[ToolOptions],
    ) -> Tool[object, _D2, _F2]: ...
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
        schema = JsonSchema.of(cast(Any, parameters)) if raw else _schema(parameters, name)
        return _made("dynamic", name, schema, success, failure, validation, options)

    @overload
    @staticmethod
    def provider_defined(
        *,
        id: str,
        name: str,
        provider_name: str | None,
        requires_handler: Literal[True],
        args: type[msgspec.Struct] = ...,
        parameters: type[_P2] | Schema[_P2],
        success: type[_S2] | Schema[_S2] = ...,
        failure: type[_F2] | Schema[_F2] = ...,
    ) -> Callable[..., Tool[_P2, _S2, _F2]]: ...
    @overload
    @staticmethod
    def provider_defined(
        *,
        id: str,
        name: str,
        provider_name: str | None,
        requires_handler: Literal[False] = ...,
        args: type[msgspec.Struct] = ...,
        parameters: type[Any] | Schema[Any] = ...,
        success: type[_S2] | Schema[_S2] = ...,
        failure: type[_F2] | Schema[_F2] = ...,
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
        """The constructor of a tool that a provider runs, or defines and asks us to run.

        Args:
            id: the provider and its tool, such as `"openai.web_search"`.
            name: what the tool is called here.
            provider_name: what the provider calls it; None where it calls it as it is called here.
            requires_handler: whether its calls come back to us; then a handler is needed.
            args: the Struct of the arguments that the constructor takes, as keywords, for the provider.
            parameters: what the provider asks with, when it asks back.
            success: what comes out, as `make`.
            failure: what can go wrong, as `make`.

        The constructor takes the provider's args and the options of `ToolOptions` side by side, as keywords.
        """

        def construct(**given: Any) -> Any:
            options = cast(ToolOptions, {k: given.pop(k) for k in list(given) if k in ToolOptions.__annotations__})
            provider = ProviderTool.of(id, provider_name, args, given, requires_handler=requires_handler)
            if "failure_mode" in options and not requires_handler:
                raise SchemaError(f"the provider runs the tool {name!r}: failure_mode needs requires_handler=True")
            schema = _schema(parameters, name)
            made = _made("provider-defined", name, schema, success, failure, "schema", options, provider)
            return made if requires_handler else made.external()

        return construct

    if TYPE_CHECKING:
        from_function: ClassVar[ToolDecorator]
    else:

        @staticmethod
        def from_function(f: Callable[..., Any], /, **options: Any) -> Any:
            """The tool of a function, with its handler: a `FunctionTool`, as the decorator `tool` makes it."""
            from fxai.tools.function import tool  # it imports this module

            return tool(f, **options)

    # -- kinds

    @property
    def kind(self) -> Kind:
        """How it was made: `"user-defined"`, `"dynamic"` or `"provider-defined"`."""
        return self.identity.kind

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

    # -- what it says

    @property
    def description(self) -> str | None:
        """What it does, for the model: as given, else what the parameters' schema says of itself."""
        if self.given_description is not None:
            return self.given_description
        said = (
            self.parameters.description if isinstance(self.parameters, Schema) else self.parameters.get("description")
        )
        return said if isinstance(said, str) else None

    @property
    def requires_handler(self) -> bool:
        """False for a tool that no handler of ours answers."""
        return True

    def json_schema(self) -> dict[str, Any]:
        """The JSON Schema of the parameters, as a fresh plain copy; a raw document as it was given."""
        if isinstance(self.parameters, Schema):
            return self.parameters.json_schema()
        return cast("dict[str, Any]", self.parameters.to_dict())

    def get(self, key: Annotation[_K]) -> _K:
        """The value of an annotation, or its default."""
        return self.annotations.get(key)

    # -- the same tool, changed

    def annotate(self, key: Annotation[_K], value: _K) -> Self:
        """The same tool, with an annotation."""
        return msgspec.structs.replace(self, annotations=self.annotations.set(key, value))

    def annotate_all(self, annotations: Annotations | Mapping[Annotation[Any], Any]) -> Self:
        """The same tool, with annotations; those it has already are replaced."""
        added = annotations if isinstance(annotations, Annotations) else Annotations(annotations)
        return msgspec.structs.replace(self, annotations=self.annotations.merge(added))

    def rename(self, name: str) -> Self:
        """The same tool, under another name."""
        return msgspec.structs.replace(self, name=_checked(name))

    def prefix(self, prefix: str) -> Self:
        """The same tool, with `prefix` before its name."""
        return self.rename(prefix + self.name)

    def with_description(self, description: str) -> Self:
        """The same tool, described otherwise."""
        return msgspec.structs.replace(self, given_description=description)

    def with_options(self, **options: Unpack[ToolOptions]) -> Self:
        """The same tool, with other options; another failure mode makes another tool."""
        fields = taken(options, self.name)
        names = {"description": "given_description"}
        changed = {names.get(k, k): fields[names.get(k, k)] for k in options if k != "failure_mode"}
        if "failure_mode" in options:
            changed["failure_mode"] = options["failure_mode"]
            changed["identity"] = self.identity.with_mode(options["failure_mode"])
        made = msgspec.structs.replace(self, **changed)
        if "input_examples" in options:
            hold_examples(made)
        return made

    def external(self) -> ExternalTool[_P, _S, _F]:
        """The same tool, answered outside of this program: no handler is needed, and its calls stay pending."""
        return ExternalTool(*(getattr(self, field) for field in self.__struct_fields__))

    # -- handlers and calls

    @overload
    def handler(
        self, f: Callable[[_P], HandlerReturn[_S, _F, _R]], /, *, blocking: bool = ..., grace: float = ...
    ) -> LayerOf[HandlerOf[_P, _S, _F], Never, _R | None]: ...
    @overload
    def handler(
        self, f: Callable[[_P, CallContext], HandlerReturn[_S, _F, _R]], /, *, blocking: bool = ..., grace: float = ...
    ) -> LayerOf[HandlerOf[_P, _S, _F], Never, _R | None]: ...
    def handler(
        self, f: Callable[..., Any], /, *, blocking: bool = False, grace: float = 5.0
    ) -> LayerOf[Any, Never, Any]:
        """The layer that gives `f` as this tool's handler; also as a decorator.

        Args:
            f: takes the parameters, and the `CallContext` as a second argument if it has one without a default.
                Returns any form of `HandlerReturn`; what services it needs, the layer needs.
            blocking: runs `f` in a worker thread. Otherwise it runs inline, as it should unless it blocks.
            grace: seconds that a cancellation waits for such a thread before it leaves it behind.
        """
        if not blocking:
            return handler_layer(self.identity, f)

        from fxai.tools.blocking import Blocking  # it imports what threads need

        return handler_layer(self.identity, f, Blocking(grace))

    def call(self, params: _P) -> EffectOf[_S, _F, HandlerOf[_P, _S, _F] | None]:
        """The success or typed failure of the handler for `params`; no JSON is involved, and no check."""
        return typed_call(self, params)

    def __fx_handler__(self) -> HandlerOf[_P, _S, _F]:
        """For checkers: what a toolkit with this tool needs."""
        raise NotImplementedError

    def __fx_gives__(self) -> Gives[Never, Never, HandlerOf[_P, _S, _F]]:
        """For checkers: it gives no handler, and needs its own."""
        raise NotImplementedError

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        fields = {name: getattr(self, name) for name in self.__struct_fields__}
        return (_remade, (type(self), fields))

    @override
    def __hash__(self) -> int:
        return hash((self.identity, self.name))


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
    def __fx_gives__(self) -> Gives[Never, Never, Never]:
        raise NotImplementedError

    @override
    def __hash__(self) -> int:
        return hash((self.identity, self.name, "external"))


def _kind_of(x: object) -> Kind | None:
    # Not by isinstance, which asks the value what it is: that may raise.
    return cast("AnyTool", x).identity.kind if issubclass(type(x), Tool) else None


def _remade(cls: Callable[..., Any], fields: dict[str, Any]) -> Any:
    return cls(**fields)


def _checked(name: str) -> str:
    if not isinstance(name, str) or not name.strip():  # pyright: ignore[reportUnnecessaryIsInstance]
        raise SchemaError(f"a tool's name is a text that is not blank, not {name!r}")
    return name


def _schema(type_: object, name: str, what: Literal["parameters", "success", "failure"] = "parameters") -> Schema[Any]:
    schema: Schema[Any] = Schema.of(type_)
    meant = data_meant(schema.type, what)
    if meant is not None:
        raise SchemaError(f"the tool {name!r}: {meant}")
    return schema


def _made(
    kind: Kind,
    name: str,
    parameters: Schema[Any] | JsonSchema,
    success: Any,
    failure: Any,
    validation: Validation,
    options: ToolOptions,
    provider: ProviderTool | None = None,
) -> AnyTool:
    fields = taken(options, name)
    mode = options.get("failure_mode", "error")
    outcome = (_schema(success, name, "success"), _schema(failure, name, "failure"))
    identity = Identity(kind, _checked(name), parameters, *outcome, mode, validation, provider)
    made: AnyTool = Tool(identity, name, parameters, *outcome, mode, validation, **fields, provider=provider)
    if made.input_examples:
        hold_examples(made)
    return made
