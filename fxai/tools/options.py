"""What every constructor of tools takes beside names and schemas.

>>> from fxai.tools.tool import Tool
>>> Tool.make("ping", description="Answers.", failure_mode="return").description
'Answers.'
"""

from __future__ import annotations

import inspect
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
