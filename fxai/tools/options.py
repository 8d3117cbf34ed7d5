"""What every constructor of tools takes beside names and schemas, and what every tool says of itself.

>>> from fxai.tools.tool import Tool
>>> Tool.make("ping", description="Answers.", failure_mode="return").description
'Answers.'
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, Literal, Protocol, TypeAlias, TypedDict, TypeVar, final

import msgspec
from returns.result import Failure, Result

from fxai.effects.effect import EffectOf
from fxai.schema.codec import Schema
from fxai.schema.data import frozen
from fxai.schema.fault import DecodeFailure, Fault, SchemaError
from fxai.schema.json_schema import JsonSchema
from fxai.schema.parsing import is_plain, plain_faults
from fxai.tools.annotations import Annotation, Annotations
from fxai.tools.identity import FailureMode, Identity, Kind, ProviderTool

__all__ = [
    "Example",
    "NeedsApproval",
    "ToolInfo",
    "ToolOptions",
    "Validation",
    "described",
    "example_faults",
    "hold_examples",
    "taken",
]

_K = TypeVar("_K")

Validation: TypeAlias = Literal["schema", "none"] | Callable[[Any], Result[Any, Any]]
"""How raw parameters are checked: by their JSON Schema, not at all, or by a function.

The function gets the parsed JSON; its `Success` is what the handler gets, its `Failure` what is wrong: a
`DecodeFailure`, or anything, told in words.
"""

NeedsApproval: TypeAlias = bool | Callable[[Any, Any], bool | EffectOf[bool, Any, Any]]
"""Whether a call must be approved first: always, never, or what a function of parameters and call context says."""


class ToolOptions(TypedDict, total=False):
    """The options that each kind of tool has."""

    description: str | None
    """What the tool does, for the model. Without one, what the parameters' schema says of itself."""
    failure_mode: FailureMode
    """`"error"` (the default): a typed failure goes into the error channel. `"return"`: to the model, as the result."""
    annotations: Annotations | Mapping[Annotation[Any], Any]
    """Annotations to begin with; `tool.annotate` adds more."""
    needs_approval: NeedsApproval
    """False by default. A function that fails, breaks or gives anything but False asks."""
    input_examples: Iterable[Any]
    """Examples of calls: parameters as plain JSON data, or `Example(request, parameters)`. One that the parameters do
    not allow is refused."""
    to_model_output: Callable[[Any], Any] | None
    """Changes what the model is shown of a success, to other plain JSON data; the result itself stays. What it raises
    is a defect that names the tool. None: its encoded form."""
    provider_options: Mapping[str, Any]
    """By provider name, what only that provider understands."""
    dependencies: Iterable[Any]
    """Keys of the services that its handler will need: told, not checked."""


_KNOWN: Final = frozenset(ToolOptions.__annotations__)
_NONE: Final = Annotations()


def taken(options: ToolOptions, name: str) -> dict[str, Any]:
    """The options as fields of the tool `name`, each immutable.

    Raises:
        SchemaError: an option has no meaning, or a value that it cannot have.
    """
    unknown = set(options) - _KNOWN
    if unknown:
        known = ", ".join(ToolOptions.__annotations__)
        said = f"tools have no option {', '.join(sorted(map(repr, unknown)))}"
        raise SchemaError(f"the tool {name!r}: {said}: there are {known}")
    mode = options.get("failure_mode", "error")
    if mode not in ("error", "return"):
        raise SchemaError(f"the tool {name!r}: failure_mode is {mode!r}: it is 'error' or 'return'")
    _hold_callable(options, name)
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


def _hold_callable(options: ToolOptions, name: str) -> None:
    approval: object = options.get("needs_approval", False)
    if not (isinstance(approval, bool) or callable(approval)):
        said = f"needs_approval is {approval!r}: it is True, False or a function of parameters and context"
        raise SchemaError(f"the tool {name!r}: {said}")
    shown: object = options.get("to_model_output")
    if shown is None:
        return
    if not callable(shown):
        raise SchemaError(f"the tool {name!r}: to_model_output is {shown!r}: it is a function of the success, or None")
    if inspect.iscoroutinefunction(shown) or inspect.isasyncgenfunction(shown):
        raise SchemaError(f"the tool {name!r}: to_model_output is an async function, and nobody awaits it: say def")
    try:
        inspect.signature(shown).bind(None)
    except TypeError as error:
        said = f"to_model_output is called with the success alone, which {shown!r} does not take: {error}"
        raise SchemaError(f"the tool {name!r}: {said}") from None
    except ValueError:  # a builtin without a signature
        return


def _examples(given: Any, name: str) -> tuple[Example, ...]:
    """The examples, immutable.

    Raises:
        SchemaError: it is no list of them.
    """
    is_single = isinstance(given, Mapping | str | bytes | Example)
    if is_single or not hasattr(given, "__iter__"):
        said = f"input_examples is {given!r}: it is a list of examples, each with all parameters of one call"
        raise SchemaError(f"the tool {name!r}: {said}")
    return tuple([_example(one) for one in given])


def _example(given: Any) -> Example:
    if isinstance(given, Example):
        return Example(given.request, frozen(given.parameters))
    return Example(None, frozen(given))


def described(error: Any) -> DecodeFailure:
    """What a validation function says is wrong, as faults."""
    if isinstance(error, DecodeFailure):
        return error
    return DecodeFailure((Fault("", "what the tool's own validation accepts", str(error)),))


@final
class Example(msgspec.Struct, frozen=True):
    """An example of a call: its parameters as plain JSON data, and what a user would have asked.

    Only the parameters are sent to providers; a small model in this process learns from the request too.

    >>> Example("Is it cold in Oslo?", {"city": "Oslo"}).parameters
    {'city': 'Oslo'}
    """

    request: str | None
    parameters: Any

    def __hash__(self) -> int:
        return hash(self.request)  # parameters are plain data


class ToolInfo(Protocol):
    """A tool as handlers, calls and aspects see it: all that it says of itself, and nothing that changes it.

    Each `Tool` is one.
    """

    @property
    def identity(self) -> Identity:
        """Which tool this is, whatever it is called since."""
        ...

    @property
    def kind(self) -> Kind:
        """How it was made."""
        ...

    @property
    def name(self) -> str:
        """What it is called."""
        ...

    @property
    def description(self) -> str | None:
        """What it does, for the model."""
        ...

    @property
    def parameters(self) -> Schema[Any] | JsonSchema:
        """What goes in."""
        ...

    @property
    def success(self) -> Schema[Any]:
        """What comes out."""
        ...

    @property
    def failure(self) -> Schema[Any]:
        """What can go wrong, in the handler's own terms."""
        ...

    @property
    def failure_mode(self) -> FailureMode:
        """Where a typed failure goes."""
        ...

    @property
    def validation(self) -> Validation:
        """How raw parameters are checked."""
        ...

    @property
    def annotations(self) -> Annotations:
        """What is known of it, by typed keys."""
        ...

    @property
    def needs_approval(self) -> NeedsApproval:
        """Whether a call must be approved first."""
        ...

    @property
    def input_examples(self) -> tuple[Example, ...]:
        """Examples of calls."""
        ...

    @property
    def to_model_output(self) -> Callable[[Any], Any] | None:
        """Changes what the model is shown of a success."""
        ...

    @property
    def provider_options(self) -> Mapping[str, Any]:
        """By provider name, what only that provider understands."""
        ...

    @property
    def dependencies(self) -> tuple[Any, ...]:
        """Keys of the services that its handler needs."""
        ...

    @property
    def provider(self) -> ProviderTool | None:
        """What the provider knows it by; None unless it is provider-defined."""
        ...

    @property
    def requires_handler(self) -> bool:
        """False for a tool that no handler of ours answers."""
        ...

    def json_schema(self) -> dict[str, Any]:
        """The JSON Schema of the parameters, as a fresh plain copy."""
        ...

    def get(self, key: Annotation[_K], /) -> _K:
        """The value of an annotation, or its default."""
        ...


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


def hold_examples(tool: ToolInfo) -> None:
    """Refuses examples that the parameters do not allow; those of a tool that the provider runs are its own matter.

    Raises:
        SchemaError: one does not fit; the message says which, where and how.
    """
    if tool.provider is not None and not tool.provider.requires_handler:
        return
    for number, example in enumerate(tool.input_examples, 1):
        faults = example_faults(tool, example.parameters)
        if faults:
            said = "; ".join(map(str, faults))
            remedy = "an example is the parameters of one call as plain JSON data"
            raise SchemaError(f"the tool {tool.name!r}: input example {number} does not fit: {said}; {remedy}")
