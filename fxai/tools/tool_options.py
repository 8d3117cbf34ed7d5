"""Options and annotations: what a tool is declared with beside its name and schemas, and what any tool shows of itself.

An annotation is a key with a default; a tool carries an immutable map from such keys to values. Make your own with
`Annotation("team", default="nobody")`.

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
    """A key of annotation maps, with its default. Two keys of one name are one key.

    Args:
        name: The name of the key, for people too.
        default: The value if nothing is set.
        types: The classes that a value may have. Default: `bool` if the default is one, else any.

    >>> Annotations({Readonly: "yes"})
    Traceback (most recent call last):
    ...
    TypeError: the annotation readonly is 'yes', but it must be a bool
    """

    __slots__ = ("_default", "_name", "_types")

    def __init__(self, name: str, default: _K, types: tuple[type, ...] = ()) -> None:
        self._name = name
        self._default: _K = _frozen(default)
        self._types = types or ((bool,) if isinstance(default, bool) else ())

    @property
    def name(self) -> str:
        """What tells it from other keys, for people too."""
        return self._name

    @property
    def default(self) -> _K:
        """The value where nothing is set."""
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
            raise TypeError(f"the annotation {self._name} is {value!r:.200}, but it must be {expected}")
        return _frozen(value)


Title: Annotation[str | None] = Annotation("title", None, (str, NoneType))
"""A name for people, where the tool's own is for the model."""

Readonly: Annotation[bool] = Annotation("readonly", default=False)
"""It changes nothing. As MCP's `readOnlyHint`, whose defaults these are."""

Destructive: Annotation[bool] = Annotation("destructive", default=True)
"""It may destroy something, not only add. True by default."""

Idempotent: Annotation[bool] = Annotation("idempotent", default=False)
"""Calling it again with the same parameters changes nothing more."""

Resumable: Annotation[bool] = Annotation("resumable", default=False)
"""A call that was begun can be gone on with, as all that it does is journalled in a durable run: a sub-agent's."""

OpenWorld: Annotation[bool] = Annotation("open_world", default=True)
"""It reaches what is outside of our control, such as the web. True by default."""

Strict: Annotation[bool | None] = Annotation("strict", None, (bool, NoneType))
"""Strict mode: True or False for this tool; None leaves it to the configuration, then to the provider."""

ExplicitNull: Annotation[bool] = Annotation("explicit_null", default=False)
"""In strict mode, a null is distinguished from what is left out, in each optional parameter that admits null.

Otherwise null is sent for both and taken as left out, so that a null cannot be sent where leaving out means something
else; the strict form lists each such place among what it weakens.
"""

JsonText: Annotation[bool] = Annotation("json_text", default=True)
"""JSON text where an object or an array belongs is read as what it says: models often send one nested in another.

It is looked for only where parameters do not fit. False: such a text is refused, as anything else that does not fit.
"""

Meta: Annotation[Mapping[str, Any]] = Annotation("meta", {}, (Mapping,))
"""Anything else, such as the `_meta` of an MCP server's tool."""

# -- what some providers do with a tool; where one does not, its `prepare_tools` warns

Caller: TypeAlias = Literal["direct", "programmatic"]
"""Who may call a tool: the model itself, or a program that the model wrote and the provider runs."""

CacheTime: TypeAlias = Literal["default", "5m", "1h"]
"""How long a provider keeps what it cached: its own default, five minutes, one hour."""


@final
class ToolNamespace(msgspec.Struct, frozen=True):
    """A group of tools, as the model sees it: a name, and what its tools are for. Equal ones are one group."""

    name: str
    description: str


DeferLoading: Annotation[bool] = Annotation("defer_loading", default=False)
"""The model is not show the tool until it has searched for it; a tool search tool must be there as well."""

AllowedCallers: Annotation[tuple[Caller, ...]] = Annotation("allowed_callers", (), (list, tuple))
"""Who may call it; `()` leaves it to the provider, whose default is the model alone."""

OutputSchema: Annotation[JsonSchema | None] = Annotation("output_schema", None)
"""What its results look like, for programs that call it: such as `tool.success.document`. None: no schema."""

CacheControl: Annotation[CacheTime | None] = Annotation("cache_control", None, (str, NoneType))
"""Cache the request up to this tool, and for how long. None: no mark here."""

EagerInputStreaming: Annotation[bool | None] = Annotation("eager_input_streaming", None, (bool, NoneType))
"""Whether parameters are streamed as they are written, not in checked pieces; None: yes, in a streamed answer."""

Namespace: Annotation[ToolNamespace | None] = Annotation("namespace", None, (ToolNamespace, NoneType))
"""The group that it is offered in; None: it stands alone."""


@final
class Annotations:
    """An immutable map from annotation keys to values; what is not set has the default of its key."""

    __slots__ = ("_values",)

    def __init__(self, values: Mapping[Annotation[Any], Any] | None = None) -> None:
        self._values: dict[Annotation[Any], Any] = {k: k.freeze(v) for k, v in (values or {}).items()}

    def get(self, key: Annotation[_K]) -> _K:
        """The value of `key`, or its default."""
        return cast(_K, self._values.get(key, key.default))

    def set(self, key: Annotation[_K], value: _K) -> Annotations:
        """The map with `value` for `key`."""
        return Annotations({**self._values, key: value})

    def merge(self, other: Annotations) -> Annotations:
        """The map of both; for keys in both, the values of `other`."""
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
        return hash(frozenset(k.name for k in self._values))  # values may be anything

    @override
    def __repr__(self) -> str:
        return f"Annotations({', '.join(f'{k.name}={v!r}' for k, v in self._values.items())})"

    def __reduce__(self) -> tuple[type[Annotations], tuple[dict[Annotation[Any], Any]]]:
        return (Annotations, (dict(self._values),))


Validation: TypeAlias = Literal["schema", "none"] | Callable[[Any], Result[Any, Any]]
"""How raw parameters are checked: by their JSON Schema, not at all, or by a function.

The function gets the parsed JSON; its `Success` is what the handler gets, its `Failure` what is wrong: a
`DecodeFailure`, or anything, whose text is shown.
"""

PlainData: TypeAlias = "Mapping[str, Any] | Sequence[Any] | float | None"
"""JSON data, looked at one level deep: a text is a sequence, a boolean a number."""


NeedsApproval: TypeAlias = "bool | Callable[[_P, CallContext], bool | EffectOf[bool, Any, Any]]"
"""Whether a call must be approved first: always, never, or what a function of parameters and call context says."""


class ToolOptions(TypedDict, Generic[_P, _S], total=False):
    """The options that each kind of tool has, one of parameters `P` and success `S`; by default of any."""

    description: str | None
    """What the tool does, for the model. Without one, what the parameters' schema says of itself."""
    failure_mode: FailureMode
    """`"error"` (the default): a typed failure goes into the error channel. `"return"`: to the model, as the result."""
    annotations: Annotations | Mapping[Annotation[Any], Any]
    """Annotations to begin with; `tool.annotate` adds more."""
    needs_approval: NeedsApproval[_P]
    """False by default. A function that fails, breaks or gives anything but False asks."""
    input_examples: Sequence[object]
    """Examples of calls: parameters as plain JSON data, or `Example(request, parameters)`. One that the parameters do
    not allow is refused."""
    to_model_output: Callable[[_S], PlainData] | None
    """Changes what the model is shown of a success, to other plain JSON data; the result itself stays. What it raises
    is a defect that names the tool. None: its encoded form."""
    provider_options: Mapping[str, Any]
    """By provider name, what only that provider understands."""
    dependencies: Iterable[Any]
    """Keys of the services that its handler will need: for readers, not checked."""


class TypeOptions(ToolOptions[_P, _S], Generic[_P, _S, _F], total=False):
    """The options of a tool, and what comes out of it, as classes or schemas."""

    success: type[_S] | Schema[_S]
    """What comes out; by default nothing (`None`)."""
    failure: type[_F] | Schema[_F]
    """What can go wrong; by default nothing can (`Never`)."""


class FormOptions(ToolOptions[_P, _S], Generic[_P, _S, _F], total=False):
    """As `TypeOptions`, for types of any form: a union, `Literal`, `Annotated`, `NewType`, `None`, an alias."""

    success: TypeForm[_S]
    """What comes out; by default nothing (`None`)."""
    failure: TypeForm[_F]
    """What can go wrong; by default nothing can (`Never`)."""


class _Provider(TypedDict):
    id: str
    name: str
    provider_name: str | None
    args: NotRequired[type[msgspec.Struct]]


class TypeProvider(_Provider, Generic[_S, _F]):
    """What a provider knows its tool by, and what comes out of it, as classes or schemas."""

    success: NotRequired[type[_S] | Schema[_S]]
    """What comes out; by default nothing (`None`)."""
    failure: NotRequired[type[_F] | Schema[_F]]
    """What can go wrong; by default nothing can (`Never`)."""


class FormProvider(_Provider, Generic[_S, _F]):
    """As `TypeProvider`, for types of any form."""

    success: NotRequired[TypeForm[_S]]
    """What comes out; by default nothing (`None`)."""
    failure: NotRequired[TypeForm[_F]]
    """What can go wrong; by default nothing can (`Never`)."""


_KNOWN: Final = frozenset(ToolOptions.__annotations__)
_NONE: Final = Annotations()
_NOTHING: Final[EffectOf[None]] = Succeed(None)


def option_fields(options: ToolOptions, name: str) -> dict[str, Any]:
    """The options as fields of the tool `name`, each immutable.

    Raises:
        SchemaError: an option has no meaning, or a value that it cannot have.
    """
    return _read_options(options, name) if options else dict(_DEFAULTS)


def _read_options(options: ToolOptions, name: str) -> dict[str, Any]:
    unknown = set(options) - _KNOWN
    if unknown:
        known = ", ".join(ToolOptions.__annotations__)
        problem = f"tools have no option {', '.join(sorted(map(repr, unknown)))}"
        raise SchemaError(f"the tool {name!r}: {problem}: there are {known}")
    mode = options.get("failure_mode", "error")
    if mode not in ("error", "return"):
        raise SchemaError(f"the tool {name!r}: failure_mode is {mode!r}: it is 'error' or 'return'")
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
    """The name of a tool, which is a text that is not blank; else a `SchemaError` is raised."""
    if not isinstance(name, str) or not name.strip():  # pyright: ignore[reportUnnecessaryIsInstance]
        raise SchemaError(f"a tool's name is a text that is not blank, not {name!r}")
    return name


def _check_functions(options: ToolOptions, name: str) -> None:
    approval: object = options.get("needs_approval", False)
    if not (isinstance(approval, bool) or callable(approval)):
        problem = f"needs_approval is {approval!r}: it is True, False or a function of parameters and context"
        raise SchemaError(f"the tool {name!r}: {problem}")
    show: object = options.get("to_model_output")
    if show is None:
        return
    if not callable(show):
        raise SchemaError(f"the tool {name!r}: to_model_output is {show!r}: it is a function of the success, or None")
    if inspect.iscoroutinefunction(show) or inspect.isasyncgenfunction(show):
        raise SchemaError(f"the tool {name!r}: to_model_output is an async function, which is not awaited: say def")
    try:
        inspect.signature(show).bind(None)
    except TypeError as error:
        problem = f"to_model_output is called with the success alone, which {show!r} does not take: {error}"
        raise SchemaError(f"the tool {name!r}: {problem}") from None
    except ValueError:  # a builtin without a signature
        return


def _examples(given: Any, name: str) -> tuple[Example, ...]:
    """The examples, immutable.

    Raises:
        SchemaError: it is no list of them.
    """
    is_single = isinstance(given, Mapping | str | bytes | Example)
    if is_single or not hasattr(given, "__iter__"):
        problem = f"input_examples is {given!r}: it is a list of examples, each with all parameters of one call"
        raise SchemaError(f"the tool {name!r}: {problem}")
    return tuple([_example(each) for each in given])


def _example(given: Any) -> Example:
    if isinstance(given, Example):
        return Example(given.request, frozen(given.parameters))
    return Example(None, frozen(given))


@final
class Example(msgspec.Struct, frozen=True):
    """An example of a call: its parameters as plain JSON data, and what a user would have asked.

    Only the parameters are sent to providers; a small model in this process learns from the request too.

    >>> Example("Is it cold in Oslo?", {"city": "Oslo"}).parameters
    {'city': 'Oslo'}
    """

    request: str | None
    parameters: PlainData

    def __hash__(self) -> int:
        return hash(self.request)  # parameters are plain data


class ToolInfo(msgspec.Struct, frozen=True):
    """A tool as handlers, calls and aspects see it: its data, and nothing that changes it. Each `Tool` is one."""

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
    needs_approval: NeedsApproval[Any] = False
    """Whether a call must be approved first."""
    input_examples: tuple[Example, ...] = ()
    """Examples of calls."""
    to_model_output: Callable[[Any], Any] | None = None
    """Changes what the model is show of a success."""
    provider_options: Mapping[str, Any] = {}
    """By provider name, what only that provider understands."""
    dependencies: tuple[Any, ...] = ()
    """Keys of the services that its handler needs."""
    provider: ProviderTool | None = None
    """What the provider knows it by; None unless it is provider-defined."""

    @property
    def kind(self) -> Kind:
        """How it was made: `"user-defined"`, `"dynamic"` or `"provider-defined"`."""
        return self.identity.kind

    @property
    def description(self) -> str | None:
        """What it does, for the model: as given, else what the parameters' schema says of itself."""
        if self.given_description is not None:
            return self.given_description
        schema = self.parameters
        text = schema.description if isinstance(schema, Schema) else schema.get("description")
        return text if isinstance(text, str) else None

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

    @override
    def __hash__(self) -> int:
        return hash((self.identity, self.name))


Emitter: TypeAlias = "Callable[[Any], EffectOf[None]]"


@final
class CallContext:
    """What a handler may know of the call that it answers; its second argument, if it takes two."""

    __slots__ = ("_emit", "_prompt", "call_id", "deadline", "key", "tool")

    call_id: str
    """The model's id of the call; empty when no model made it."""
    tool: ToolInfo
    """The tool that was called."""
    deadline: float | None
    """When the run will be cut off, in seconds of the clock's `monotonic`; None: not known to end."""

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
        self.key: CallKey | None = key  # what names it in a durable run

    @property
    def idempotency_key(self) -> str:
        """The same however often this call is run, in a durable run or on a cluster; see `CallKey`. Else empty."""
        return "" if self.key is None else self.key.text

    @property
    def messages(self) -> tuple[Message, ...]:
        """The conversation so far, without the system prompt; empty when no model made the call."""
        return () if self._prompt is None else tuple(m for m in self._prompt if m.role != "system")

    def inside(self, tool: ToolInfo, call_id: str) -> CallContext:
        """The context of a call of `tool` that is a part of this one; its preliminary values are not read."""
        return CallContext(tool, call_id, self._prompt, self.deadline)

    def preliminary(self, value: object) -> EffectOf[None, Never, None]:
        """Shows `value`, of the tool's success type, before the result is there; waits until it was read.

        Where no stream reads the call, nothing is shown. A value of another type stops the handler, and its call fails
        with `InvalidResult`, as for such a result; in `tool.call`, which checks no result either, nothing happens.
        """
        return _NOTHING if self._emit is None else self._emit(value)


class ToolCombinators(Generic[_P, _S]):
    """What changes a tool and keeps its kind and identity; of tools, and of functions that are tools."""

    __slots__ = ()

    def __fx_change__(self, f: Callable[[Any], Any], /) -> Self:
        """The same with its tool changed by `f`."""
        raise NotImplementedError

    def annotate(self, key: Annotation[_K], value: _K) -> Self:
        """The same tool, with an annotation."""
        return self.annotate_all({key: value})

    def annotate_all(self, annotations: Annotations | Mapping[Annotation[Any], Any]) -> Self:
        """The same tool, with annotations; those it has already are replaced."""
        added = annotations if isinstance(annotations, Annotations) else Annotations(annotations)
        return self.__fx_change__(lambda tool: replace(tool, annotations=tool.annotations.merge(added)))

    def rename(self, name: str) -> Self:
        """The same tool, under another name."""
        return self.__fx_change__(lambda tool: replace(tool, name=check_name(name)))

    def prefix(self, prefix: str) -> Self:
        """The same tool, with `prefix` before its name."""
        return self.__fx_change__(lambda tool: replace(tool, name=check_name(prefix + tool.name)))

    def with_description(self, description: str) -> Self:
        """The same tool, described otherwise."""
        return self.__fx_change__(lambda tool: replace(tool, given_description=description))

    def with_options(self, **options: Unpack[ToolOptions[_P, _S]]) -> Self:
        """The same tool, with other options; another failure mode makes another tool."""

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
    """What is wrong with the parameters of an example, by the tool's schema; a function that checks them is not asked.

    Nothing is found where the schema itself cannot be used, or not yet.
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
    """Refuses examples that the parameters do not allow; those of a tool that the provider runs are its own matter.

    Raises:
        SchemaError: one does not fit; the message says which, where and how.
    """
    if tool.provider is not None and not tool.provider.requires_handler:
        return
    for number, example in enumerate(tool.input_examples, 1):
        faults = example_faults(tool, example.parameters)
        if faults:
            problem = "; ".join(map(str, faults))
            remedy = "an example is the parameters of one call as plain JSON data"
            raise SchemaError(f"the tool {tool.name!r}: input example {number} does not fit: {problem}; {remedy}")


_DEFAULTS: Final = _read_options({}, "")
