"""Options and annotations of tools. Use this module to configure a tool or to define your own annotation.

An annotation is a key with a default. Each tool has an immutable map from annotations to values. To define your own
annotation, write `Annotation("team", default="nobody")`.

>>> from fxai.tools.tool import Tool
>>> Tool.make("ping", description="Answers.", failure_mode="return").description
'Answers.'
>>> Annotations().set(Title, "Weather").get(Title), Annotations().get(Destructive)
('Weather', True)
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from types import NoneType
from typing import (
    TYPE_CHECKING,
    Any,
    Final,
    Generic,
    Literal,
    Never,
    NotRequired,
    Self,
    TypeAlias,
    TypedDict,
    cast,
    final,
)

import msgspec
from msgspec.structs import replace
from returns.result import Failure, Result
from typing_extensions import TypeForm, TypeVar, Unpack, override

from fxai.effects.effect import EffectOf, Succeed
from fxai.schema.codec import Schema
from fxai.schema.data import frozen, is_array
from fxai.schema.fault import Fault, SchemaError
from fxai.schema.json_schema import JsonSchema
from fxai.schema.parsing import is_plain, plain_faults
from fxai.tools.call_key import CallKey
from fxai.tools.identity import FailureMode, Identity, Kind, ProviderTool

if TYPE_CHECKING:
    from fxai.messages.message import Message
    from fxai.messages.prompt import Prompt

_K = TypeVar("_K")
_P = TypeVar("_P", default=Any)
_S = TypeVar("_S", default=Any)
_F = TypeVar("_F", default=Any)


def _frozen(value: Any) -> Any:
    return tuple(frozen(value)) if is_array(value) else frozen(value)


@final
class Annotation(Generic[_K]):
    """A key of an annotation map, with a default value. Two annotations with the same name are the same key.

    Args:
        name: Name of the key.
        default: Value of an unset key.
        types: Allowed classes of a value. Default: `bool` if the default is a bool; otherwise any class.

    >>> Annotations({Readonly: "yes"})
    Traceback (most recent call last):
    ...
    TypeError: annotation 'readonly' must be a bool, got 'yes'
    """

    __slots__ = ("_default", "_name", "_types")

    def __init__(self, name: str, default: _K, types: tuple[type, ...] = ()) -> None:
        self._name = name
        self._default: _K = _frozen(default)
        self._types = types or ((bool,) if isinstance(default, bool) else ())

    @property
    def name(self) -> str:
        """The unique name of the key, also for display."""
        return self._name

    @property
    def default(self) -> _K:
        """The value of an unset key."""
        return self._default

    @override
    def __eq__(self, other: object) -> bool:
        return isinstance(other, Annotation) and cast(Any, other)._name == self._name

    @override
    def __hash__(self) -> int:
        return hash(self._name)

    @override
    def __repr__(self) -> str:
        return f"Annotation({self._name!r}, default={self._default!r})"

    def __reduce__(self) -> tuple[type[Annotation[Any]], tuple[str, _K, tuple[type, ...]]]:
        return (Annotation, (self._name, self._default, self._types))

    def freeze(self, value: object) -> Any:
        """Return a value of this key as immutable data.

        Raises:
            TypeError: If `value` has another type.
        """
        if self._types and not isinstance(value, self._types):
            expected = " or ".join("None" if one is NoneType else f"a {one.__name__}" for one in self._types)
            raise TypeError(f"annotation {self._name!r} must be {expected}, got {value!r:.200}")
        return _frozen(value)


Title: Annotation[str | None] = Annotation("title", None, (str, NoneType))
"""A name of the tool for people. The name of the tool itself is for the model."""

Readonly: Annotation[bool] = Annotation("readonly", default=False)
"""True if the tool changes nothing. Default: False. This annotation and its default match MCP's `readOnlyHint`."""

Destructive: Annotation[bool] = Annotation("destructive", default=True)
"""True if the tool can delete or overwrite data. False if it only adds data. Default: True."""

Idempotent: Annotation[bool] = Annotation("idempotent", default=False)
"""True if a repeated call with the same parameters has no further effect. Default: False."""

Resumable: Annotation[bool] = Annotation("resumable", default=False)
"""True if a durable run can resume a started call, because it journals all steps of the call, as for a sub-agent."""

OpenWorld: Annotation[bool] = Annotation("open_world", default=True)
"""True if the tool accesses external systems, such as the web. Default: True."""

Strict: Annotation[bool | None] = Annotation("strict", None, (bool, NoneType))
"""True or False sets strict mode for this tool. By default, the configuration or the provider decides."""

ExplicitNull: Annotation[bool] = Annotation("explicit_null", default=False)
"""True to distinguish null from an omitted value in strict mode, for each optional parameter that allows null.

By default, the model sends null for both, and fxai treats null as omitted. The model then cannot send a null that
differs from an omitted value. The strict form lists each of these locations as a weakened constraint.
"""

JsonText: Annotation[bool] = Annotation("json_text", default=True)
"""True to parse a JSON string if the schema requires an object or an array. Models often send nested JSON as a string.

fxai tries this only if the arguments do not match the schema. If False, fxai rejects the string. Default: True.
"""

Meta: Annotation[Mapping[str, Any]] = Annotation("meta", {}, (Mapping,))
"""Other data, such as the `_meta` of a tool from an MCP server."""

# -- annotations for some providers; the `prepare_tools` of any other provider warns

Caller: TypeAlias = Literal["direct", "programmatic"]
"""The callers of a tool: the model, or a program that the model wrote and the provider runs."""

CacheTime: TypeAlias = Literal["default", "5m", "1h"]
"""The lifetime of a provider's cache entry: the provider's default, five minutes, or one hour."""


@final
class ToolNamespace(msgspec.Struct, frozen=True):
    """A group of tools for the model, with a name and a purpose. Equal namespaces are the same group."""

    name: str
    description: str


DeferLoading: Annotation[bool] = Annotation("defer_loading", default=False)
"""True to hide the tool from the model until the model finds it by a search. Requires a tool search tool."""

AllowedCallers: Annotation[tuple[Caller, ...]] = Annotation("allowed_callers", (), (list, tuple))
"""The allowed callers. `()` uses the provider's default, which is only the model."""

OutputSchema: Annotation[JsonSchema | None] = Annotation("output_schema", None)
"""The schema of the results, for programs that call the tool, such as `tool.success.document`. None means no schema."""

CacheControl: Annotation[CacheTime | None] = Annotation("cache_control", None, (str, NoneType))
"""The lifetime of a provider's cache of the request up to this tool. None means no cache mark at this tool."""

EagerInputStreaming: Annotation[bool | None] = Annotation("eager_input_streaming", None, (bool, NoneType))
"""True to stream arguments unchecked while the model writes them, or False for checked pieces.

None: True in a streamed response.
"""

Namespace: Annotation[ToolNamespace | None] = Annotation("namespace", None, (ToolNamespace, NoneType))
"""The namespace of the tool. None means no namespace."""


@final
class Annotations:
    """An immutable map from annotations to values. An unset annotation has its default value."""

    __slots__ = ("_values",)

    def __init__(self, values: Mapping[Annotation[Any], Any] | None = None) -> None:
        self._values: dict[Annotation[Any], Any] = {k: k.freeze(v) for k, v in (values or {}).items()}

    def get(self, key: Annotation[_K]) -> _K:
        """Return the value of `key`, or its default."""
        return cast(_K, self._values.get(key, key.default))

    def set(self, key: Annotation[_K], value: _K) -> Annotations:
        """Return the map with `value` for `key`."""
        return Annotations({**self._values, key: value})

    def merge(self, other: Annotations) -> Annotations:
        """Return the map of both. If both maps contain a key, the value of `other` is used."""
        return Annotations({**self._values, **other._values})

    def __contains__(self, key: object) -> bool:
        return key in self._values

    def __iter__(self) -> Iterator[Annotation[Any]]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    @override
    def __eq__(self, other: object) -> bool:
        return isinstance(other, Annotations) and self._values == other._values

    @override
    def __hash__(self) -> int:
        return hash(frozenset(k.name for k in self._values))  # some values are not hashable

    @override
    def __repr__(self) -> str:
        return f"Annotations({', '.join(f'{k.name}={v!r}' for k, v in self._values.items())})"

    def __reduce__(self) -> tuple[type[Annotations], tuple[dict[Annotation[Any], Any]]]:
        return (Annotations, (dict(self._values),))


Validation: TypeAlias = Literal["schema", "none"] | Callable[[Any], Result[Any, Any]]
"""How fxai checks raw arguments: `"schema"` (by their JSON Schema), `"none"` (no check), or a function.

The function receives the parsed JSON. The handler receives the value of its `Success`. The value of its `Failure` is a
`DecodeFailure`, or any other value, whose string the model receives.
"""

PlainData: TypeAlias = "Mapping[str, Any] | Sequence[Any] | float | None"
"""A JSON value, typed one level deep. A string is a sequence, and a boolean is a number."""


NeedsApproval: TypeAlias = "bool | Callable[[_P, CallContext], bool | EffectOf[bool, Any, Any]]"
"""The condition of an approval, which is a bool or a function of the parameters and the call context."""


class ToolOptions(TypedDict, Generic[_P, _S], total=False):
    """The options of every kind of tool. `P` is the type of the parameters, and `S` is the type of the success."""

    description: str | None
    """The description of the tool for the model. Default: the description in the schema of the parameters."""
    failure_mode: FailureMode
    """The channel of a typed failure. `"error"` (default): the error channel. `"return"`: the model, as the result."""
    annotations: Annotations | Mapping[Annotation[Any], Any]
    """Initial annotations. `tool.annotate` adds more."""
    needs_approval: NeedsApproval[_P]
    """True if each call needs an approval, or a function that decides. Default: False.

    If the function fails, raises, or returns a value other than False, the call needs an approval.
    """
    input_examples: Sequence[object]
    """Example calls: parameters as JSON values, or `Example(request, parameters)`.

    If the parameters do not allow an example, fxai raises `SchemaError`.
    """
    to_model_output: Callable[[_S], PlainData] | None
    """A function that converts a success to another JSON value for the model. The result itself stays unchanged.

    An exception from the function is a defect that names the tool. By default, the model receives the encoded success.
    """
    provider_options: Mapping[str, Any]
    """Options by provider name. Only this provider reads them."""
    dependencies: Iterable[Any]
    """Keys of the services that the handler needs. They are documentation, and fxai does not check them."""


class TypeOptions(ToolOptions[_P, _S], Generic[_P, _S, _F], total=False):
    """The options of a tool with the types of its success and failure, as classes or schemas."""

    success: type[_S] | Schema[_S]
    """The type of the success. Default: `None`."""
    failure: type[_F] | Schema[_F]
    """The type of the failure. Default: `Never`, no failure."""


class FormOptions(ToolOptions[_P, _S], Generic[_P, _S, _F], total=False):
    """The options of `TypeOptions` for other types: a union, `Literal`, `Annotated`, `NewType`, `None`, or an alias."""

    success: TypeForm[_S]
    """The type of the success. Default: `None`."""
    failure: TypeForm[_F]
    """The type of the failure. Default: `Never`, no failure."""


class _Provider(TypedDict):
    id: str
    name: str
    provider_name: str | None
    args: NotRequired[type[msgspec.Struct]]


class TypeProvider(_Provider, Generic[_S, _F]):
    """The names of a provider's tool, with the types of its success and failure as classes or schemas."""

    success: NotRequired[type[_S] | Schema[_S]]
    """The type of the success. Default: `None`."""
    failure: NotRequired[type[_F] | Schema[_F]]
    """The type of the failure. Default: `Never`, no failure."""


class FormProvider(_Provider, Generic[_S, _F]):
    """The same options as `TypeProvider`, for other type forms."""

    success: NotRequired[TypeForm[_S]]
    """The type of the success. Default: `None`."""
    failure: NotRequired[TypeForm[_F]]
    """The type of the failure. Default: `Never`, no failure."""


_KNOWN: Final = frozenset(ToolOptions.__annotations__)
_NONE: Final = Annotations()
_NOTHING: Final[EffectOf[None]] = Succeed(None)


def option_fields(options: ToolOptions, name: str) -> dict[str, Any]:
    """Return the options as immutable fields of the tool `name`.

    Raises:
        SchemaError: If an option is unknown or has an invalid value.
    """
    return _read_options(options, name) if options else dict(_DEFAULTS)


def _read_options(options: ToolOptions, name: str) -> dict[str, Any]:
    unknown = set(options) - _KNOWN
    if unknown:
        known = ", ".join(ToolOptions.__annotations__)
        problem = f"unknown option {', '.join(sorted(map(repr, unknown)))}"
        raise SchemaError(f"tool {name!r}: {problem}. Use one of: {known}")
    mode = options.get("failure_mode", "error")
    if mode not in ("error", "return"):
        raise SchemaError(f"tool {name!r}: failure_mode must be 'error' or 'return', got {mode!r}")
    _check_functions(options, name)
    annotations = options.get("annotations", _NONE)
    examples = _examples(options.get("input_examples", ()), name)
    return {
        "given_description": options.get("description"),
        "annotations": annotations if isinstance(annotations, Annotations) else Annotations(annotations),
        "needs_approval": options.get("needs_approval", False),
        "input_examples": examples,
        "to_model_output": options.get("to_model_output"),
        "provider_options": frozen(dict(options.get("provider_options", {}))),
        "dependencies": tuple(options.get("dependencies", ())),
    }


def check_name(name: str) -> str:
    """Return the name of a tool, or raise `SchemaError` if it is not a string or is blank."""
    if not isinstance(name, str) or not name.strip():  # pyright: ignore[reportUnnecessaryIsInstance]
        raise SchemaError(f"tool name must be a string that is not blank, got {name!r}")
    return name


def _check_functions(options: ToolOptions, name: str) -> None:
    approval: object = options.get("needs_approval", False)
    if not (isinstance(approval, bool) or callable(approval)):
        problem = f"needs_approval must be True, False, or a function of parameters and context, got {approval!r}"
        raise SchemaError(f"tool {name!r}: {problem}")
    show: object = options.get("to_model_output")
    if show is None:
        return
    if not callable(show):
        raise SchemaError(f"tool {name!r}: to_model_output must be a function of the success or None, got {show!r}")
    if inspect.iscoroutinefunction(show) or inspect.isasyncgenfunction(show):
        raise SchemaError(f"tool {name!r}: to_model_output must not be an async function. Define it with def.")
    try:
        inspect.signature(show).bind(None)
    except TypeError as error:
        problem = f"to_model_output must accept the success as its only argument, got {show!r}: {error}"
        raise SchemaError(f"tool {name!r}: {problem}") from None
    except ValueError:  # a builtin without a signature
        return


def _examples(given: Any, name: str) -> tuple[Example, ...]:
    """Return the examples as immutable values.

    Raises:
        SchemaError: If `given` is not a list of examples.
    """
    is_single = isinstance(given, Mapping | str | bytes | Example)
    if is_single or not hasattr(given, "__iter__"):
        problem = f"input_examples must be a list of examples, each with all parameters of one call, got {given!r}"
        raise SchemaError(f"tool {name!r}: {problem}")
    return tuple([_example(each) for each in given])


def _example(given: Any) -> Example:
    if isinstance(given, Example):
        return Example(given.request, frozen(given.parameters))
    return Example(None, frozen(given))


@final
class Example(msgspec.Struct, frozen=True):
    """An example of a call: the parameters as a JSON value, and a user's request that leads to the call.

    fxai sends only the parameters to providers. A small local model also reads the request.

    >>> Example("Is it cold in Oslo?", {"city": "Oslo"}).parameters
    {'city': 'Oslo'}
    """

    request: str | None
    parameters: PlainData

    def __hash__(self) -> int:
        return hash(self.request)  # parameters are not hashable


class ToolInfo(msgspec.Struct, frozen=True):
    """The data of a tool for handlers, calls, and aspects. Every `Tool` is a `ToolInfo`."""

    identity: Identity
    """The identity of the tool. It stays the same if the tool is renamed."""
    name: str
    """The name of the tool, any string. For each request, fxai converts the name to the rule of the provider."""
    parameters: Schema[Any] | JsonSchema
    """The typed schema or raw JSON Schema document of the parameters."""
    success: Schema[Any]
    """The schema of the success."""
    failure: Schema[Any]
    """The schema of the handler's typed failure."""
    failure_mode: FailureMode = "error"
    """The channel of a typed failure."""
    validation: Validation = "schema"
    """The check of raw arguments."""
    given_description: str | None = None
    annotations: Annotations = Annotations()
    """The annotations of the tool."""
    needs_approval: NeedsApproval[Any] = False
    """The condition of an approval."""
    input_examples: tuple[Example, ...] = ()
    """Example calls."""
    to_model_output: Callable[[Any], Any] | None = None
    """A function that converts a success to another JSON value for the model."""
    provider_options: Mapping[str, Any] = {}
    """Options by provider name. Only this provider reads them."""
    dependencies: tuple[Any, ...] = ()
    """Keys of the services that the handler needs."""
    provider: ProviderTool | None = None
    """The provider's data of the tool. None unless a provider defines the tool."""

    @property
    def kind(self) -> Kind:
        """The kind of the tool: `"user-defined"`, `"dynamic"`, or `"provider-defined"`."""
        return self.identity.kind

    @property
    def description(self) -> str | None:
        """The description for the model. By default, it is the description in the schema of the parameters."""
        if self.given_description is not None:
            return self.given_description
        schema = self.parameters
        text = schema.description if isinstance(schema, Schema) else schema.get("description")
        return text if isinstance(text, str) else None

    @property
    def requires_handler(self) -> bool:
        """False if no handler in this program answers the calls of the tool."""
        return True

    def json_schema(self) -> dict[str, Any]:
        """Return a copy of the parameters' JSON Schema. A raw document is unchanged."""
        if isinstance(self.parameters, Schema):
            return self.parameters.json_schema()
        return cast("dict[str, Any]", self.parameters.to_dict())

    def get(self, key: Annotation[_K]) -> _K:
        """Return the value of an annotation, or its default."""
        return self.annotations.get(key)

    @override
    def __hash__(self) -> int:
        return hash((self.identity, self.name))


Emitter: TypeAlias = "Callable[[Any], EffectOf[None]]"


@final
class CallContext:
    """The data of a call for its handler. A handler with two arguments receives it as the second argument."""

    __slots__ = ("_emit", "_prompt", "call_id", "deadline", "key", "tool")

    call_id: str
    """The model's id of the call. Empty if no model made the call."""
    tool: ToolInfo
    """The called tool."""
    deadline: float | None
    """The end of the run, in seconds of the clock's `monotonic`. None if the run has no time limit."""

    def __init__(
        self,
        tool: ToolInfo,
        call_id: str = "",
        prompt: Prompt | None = None,
        deadline: float | None = None,
        emit: Emitter | None = None,
        key: CallKey | None = None,
    ) -> None:
        self.tool = tool
        self.call_id = call_id
        self._prompt = prompt
        self.deadline = deadline
        self._emit = emit
        self.key: CallKey | None = key  # names the call in a durable run

    @property
    def idempotency_key(self) -> str:
        """A key that stays the same if a durable run or a cluster repeats the call, see `CallKey`. Empty otherwise."""
        return "" if self.key is None else self.key.text

    @property
    def messages(self) -> tuple[Message, ...]:
        """The conversation so far, without the system prompt. Empty if no model made the call."""
        return () if self._prompt is None else tuple(m for m in self._prompt if m.role != "system")

    def inside(self, tool: ToolInfo, call_id: str) -> CallContext:
        """Return the context of an inner call of `tool`. Nobody reads the preliminary values of the inner call."""
        return CallContext(tool, call_id, self._prompt, self.deadline)

    def preliminary(self, value: object) -> EffectOf[None, Never, None]:
        """Emit `value` of the tool's success type before the result. Wait until a reader received the value.

        If no stream reads the call, this method does nothing. If `value` has another type, fxai stops the handler, and
        the call fails with `InvalidResult`. `tool.call` checks no values, so it ignores every value.
        """
        return _NOTHING if self._emit is None else self._emit(value)


class ToolCombinators(Generic[_P, _S]):
    """Methods that change a tool or function tool and preserve its kind and identity."""

    __slots__ = ()

    def __fx_change__(self, f: Callable[[Any], Any], /) -> Self:
        """Return a copy with the tool that `f` returns."""
        raise NotImplementedError

    def annotate(self, key: Annotation[_K], value: _K) -> Self:
        """Return the tool with an annotation."""
        return self.annotate_all({key: value})

    def annotate_all(self, annotations: Annotations | Mapping[Annotation[Any], Any]) -> Self:
        """Return the tool with these annotations. They replace existing values."""
        added = annotations if isinstance(annotations, Annotations) else Annotations(annotations)
        return self.__fx_change__(lambda tool: replace(tool, annotations=tool.annotations.merge(added)))

    def rename(self, name: str) -> Self:
        """Return the tool with another name."""
        return self.__fx_change__(lambda tool: replace(tool, name=check_name(name)))

    def prefix(self, prefix: str) -> Self:
        """Return the tool with `prefix` before its name."""
        return self.__fx_change__(lambda tool: replace(tool, name=check_name(prefix + tool.name)))

    def with_description(self, description: str) -> Self:
        """Return the tool with another description."""
        return self.__fx_change__(lambda tool: replace(tool, given_description=description))

    def with_options(self, **options: Unpack[ToolOptions[_P, _S]]) -> Self:
        """Return the tool with other options. Another failure mode creates another identity."""

        def change(tool: ToolInfo) -> ToolInfo:
            fields = option_fields(options, tool.name)
            names = {"description": "given_description"}
            changed = {names.get(k, k): fields[names.get(k, k)] for k in options if k != "failure_mode"}
            if "failure_mode" in options:
                changed["failure_mode"] = options["failure_mode"]
                changed["identity"] = tool.identity.with_mode(options["failure_mode"])
            made = replace(tool, **changed)
            if "input_examples" in options:
                check_examples(made)
            return made

        return self.__fx_change__(change)


def example_faults(tool: ToolInfo, parameters: Any) -> tuple[Fault, ...]:
    """Return the validation errors of an example by the tool's schema. A validation function is not called.

    If the schema is invalid or contains undefined names, return no errors.
    """
    if not is_plain(parameters):
        odd = Fault("", "plain JSON data", f"a Python {type(parameters).__name__}")
        return plain_faults(parameters) or (odd,)
    try:
        if isinstance(tool.parameters, Schema):
            decoded = tool.parameters.decode(parameters)
            return decoded.failure().faults if isinstance(decoded, Failure) else ()
        return tool.parameters.validate(parameters) if tool.validation == "schema" else ()
    except (SchemaError, NameError):
        return ()


def check_examples(tool: ToolInfo) -> None:
    """Reject examples that do not match the parameters. Examples of a tool that the provider runs are not checked.

    Raises:
        SchemaError: If an example does not match. The message contains its number and the validation errors.
    """
    if tool.provider is not None and not tool.provider.requires_handler:
        return
    for number, example in enumerate(tool.input_examples, 1):
        faults = example_faults(tool, example.parameters)
        if faults:
            problem = "; ".join(map(str, faults))
            remedy = "An example must be the parameters of one call as a JSON value."
            raise SchemaError(f"tool {tool.name!r}: input example {number} is invalid: {problem}. {remedy}")


_DEFAULTS: Final = _read_options({}, "")
