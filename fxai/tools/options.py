"""What every constructor of tools takes beside names and schemas.

>>> from fxai.tools.tool import Tool
>>> Tool.make("ping", description="Answers.", failure_mode="return").description
'Answers.'
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, Literal, TypeAlias, TypedDict

from returns.result import Result

from fxai.effects.effect import EffectOf
from fxai.schema.data import frozen
from fxai.schema.fault import DecodeFailure, Fault, SchemaError
from fxai.tools.annotations import Annotation, Annotations
from fxai.tools.example import Example
from fxai.tools.identity import FailureMode

__all__ = ["NeedsApproval", "ToolOptions", "Validation", "described", "taken"]

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
    """Examples of calls: parameters as plain JSON data, or `Example(request, parameters)`."""
    to_model_output: Callable[[Any], Any] | None
    """Changes what the model is shown of a success, to other plain JSON data; the result itself stays. None: its
    encoded form."""
    provider_options: Mapping[str, Any]
    """By provider name, what only that provider understands."""
    dependencies: Iterable[Any]
    """Keys of the services that its handler will need: told, not checked."""


_KNOWN: Final = frozenset(ToolOptions.__annotations__)
_NONE: Final = Annotations()


def taken(options: ToolOptions) -> dict[str, Any]:
    """The options as fields of a tool, each immutable.

    Raises:
        SchemaError: an option has no meaning, or a value that it cannot have.
    """
    unknown = set(options) - _KNOWN
    if unknown:
        known = ", ".join(ToolOptions.__annotations__)
        raise SchemaError(f"tools have no option {', '.join(sorted(map(repr, unknown)))}: there are {known}")
    mode = options.get("failure_mode", "error")
    if mode not in ("error", "return"):
        raise SchemaError(f"failure_mode is {mode!r}: it is 'error' or 'return'")
    _hold_callable(options)
    annotations = options.get("annotations", _NONE)
    examples = tuple(_example(given) for given in options.get("input_examples", ()))
    return {
        "given_description": options.get("description"),
        "annotations": annotations if isinstance(annotations, Annotations) else Annotations(annotations),
        "needs_approval": options.get("needs_approval", False),
        "input_examples": examples,
        "to_model_output": options.get("to_model_output"),
        "provider_options": frozen(dict(options.get("provider_options", {}))),
        "dependencies": tuple(options.get("dependencies", ())),
    }


def _hold_callable(options: ToolOptions) -> None:
    approval: object = options.get("needs_approval", False)
    if not (isinstance(approval, bool) or callable(approval)):
        raise SchemaError(f"needs_approval is {approval!r}: it is True, False or a function of parameters and context")
    shown: object = options.get("to_model_output")
    if not (shown is None or callable(shown)):
        raise SchemaError(f"to_model_output is {shown!r}: it is a function of the success, or None")


def _example(given: Any) -> Example:
    if isinstance(given, Example):
        return Example(given.request, frozen(given.parameters))
    return Example(None, frozen(given))


def described(error: Any) -> DecodeFailure:
    """What a validation function says is wrong, as faults."""
    if isinstance(error, DecodeFailure):
        return error
    return DecodeFailure((Fault("", "what the tool's own validation accepts", str(error)),))
