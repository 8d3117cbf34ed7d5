"""The data of a tool and of one of its calls, without handlers. Handlers, calls, and aspects read this data.

>>> from fxai.tools.tool import Tool
>>> tool: ToolInfo = Tool.make("ping", description="Answers.")
>>> tool.description, tool.kind, CallContext(tool, "call-1").call_id
('Answers.', 'user-defined', 'call-1')
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import count
from typing import TYPE_CHECKING, Any, Literal, Never, TypeAlias, cast, final

import msgspec
from returns.result import Failure, Result
from typing_extensions import TypeVar, override

from fxai.effects.effect import EffectOf
from fxai.effects.scope import NOTHING
from fxai.schema.codec import Schema
from fxai.schema.fault import Fault, SchemaError
from fxai.schema.json_schema import JsonSchema
from fxai.schema.parsing import is_plain, plain_faults
from fxai.tools.annotation import Annotation, Annotations
from fxai.tools.identity import FailureMode, Identity, Kind, ProviderTool

if TYPE_CHECKING:
    from fxai.messages.message import Message
    from fxai.messages.prompt import Prompt

_K = TypeVar("_K")
_P = TypeVar("_P", default=Any)

Validation: TypeAlias = Literal["schema", "none"] | Callable[[Any], Result[Any, Any]]
"""The check of raw arguments: `"schema"` (by their JSON Schema), `"none"` (no check), or a function.

The function receives the parsed JSON. The handler receives the value of its `Success`. The value of its `Failure` is a
`DecodeFailure`, or any other value, whose string the model receives.
"""

PlainData: TypeAlias = "Mapping[str, Any] | Sequence[Any] | float | None"
"""A JSON value, typed one level deep. A string is a sequence, and a boolean is a number."""


NeedsApproval: TypeAlias = "bool | Callable[[_P, CallContext], bool | EffectOf[bool, Any, Any]]"
"""The condition of an approval, which is a bool or a function of the parameters and the call context."""


@final
class Example(msgspec.Struct, frozen=True):
    """An example of a call: the parameters as a JSON value, and a user's request that leads to the call.

    fxai sends only the parameters to providers. A small local model also reads the request.

    >>> Example("Is it cold in Oslo?", {"city": "Oslo"}).parameters
    {'city': 'Oslo'}
    """

    request: str | None
    """The request of a user that leads to the call, or None."""
    parameters: PlainData
    """The parameters as a JSON value."""

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
    """The description that the tool declares, or None."""
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


@final
class CallKey(msgspec.Struct, frozen=True, eq=False):
    """A key that stays the same each time that the call runs, in any process.

    A durable run creates the key. If the run resumes, the key stays the same until a person decides to repeat the
    call. If another worker of a cluster runs the call, the key also stays the same. Keys of different calls differ.
    """

    text: str
    started_before: bool = False
    """True if an earlier program started the call and its outcome is unknown."""
    uses: Iterator[int] = msgspec.field(default_factory=count)
    """The number of each use in this program, from 0. Each retry of a handler is another use."""
    finalizers: list[Callable[[], object]] = []
    """Functions to call when the run has recorded the outcome. No process needs the key after that."""


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
        return NOTHING if self._emit is None else self._emit(value)


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
            remedy = "Pass the parameters of one call as a JSON value."
            raise SchemaError(f"tool {tool.name!r}: input example {number} is invalid: {problem}. {remedy}")
