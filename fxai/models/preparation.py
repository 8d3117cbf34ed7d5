"""Preparation: what every provider has to settle of a toolkit before it writes a request.

Which tools a choice leaves, whether each is sent as strict, what its options for one provider are, and what could not
be done.

>>> from fxai.schema.strict import OPENAI
>>> from fxai.tools.tool import Tool
>>> notes = Notes()
>>> settled = settle(Tool.make("ping"), OPENAI, config=None, default=True, notes=notes)
>>> settled.strict, settled.document["additionalProperties"], notes.warnings
(True, False, [])
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from typing import Any, TypeAlias, cast, final

import msgspec
from returns.result import Success
from typing_extensions import TypeVar

from fxai.messages.part import WarningKind, WarningPart
from fxai.messages.reason import UnsupportedSchemaError
from fxai.models.choice import ToolChoice, ToolChoices
from fxai.models.prepared import PreparationError
from fxai.schema.codec import Schema
from fxai.schema.data import is_array, is_object
from fxai.schema.strict import Obstacle, StrictForm, StrictRules, resolve_strict, strict_form
from fxai.tools.annotations import ExplicitNull, Strict
from fxai.tools.tool import Tool

__all__ = [
    "AnyTool",
    "Notes",
    "Settled",
    "chosen",
    "option_names",
    "options_of",
    "refuse_approval",
    "settle",
    "without_nulls",
]

_O = TypeVar("_O", bound=msgspec.Struct)

AnyTool: TypeAlias = Tool[Any, Any, Any]
"""A tool, whatever it takes and gives."""


@final
class Notes:
    """What is collected while a request is prepared: warnings, and beta features that it must name."""

    def __init__(self) -> None:
        self.warnings: list[WarningPart] = []
        self.betas: list[str] = []

    def warn(self, kind: WarningKind, subject: str | None, message: str) -> None:
        """Add a warning."""
        self.warnings.append(WarningPart(message=message, kind=kind, subject=subject))

    def lost(self, tool: AnyTool, what: str, where: str) -> None:
        """Add the warning that a wire has no place for something."""
        self.warn("unsupported-option", tool.name, f"the tool {tool.name!r}: {where} has no place for its {what}")


@final
class Settled(msgspec.Struct, frozen=True):
    """How one tool is sent."""

    tool: AnyTool
    strict: bool | None
    """The flag; None: it is left out."""
    form: StrictForm | None = None
    """Its strict form, when the flag is true."""

    @property
    def document(self) -> dict[str, Any]:
        """The parameters' schema as it is sent, a fresh plain copy: strict, or exactly as given."""
        return self.tool.json_schema() if self.form is None else cast("dict[str, Any]", self.form.document.to_dict())

    def loosened(self) -> Settled:
        """The same tool, sent as it is."""
        return Settled(self.tool, None if self.strict is None else False)


def settle(tool: AnyTool, rules: StrictRules, *, config: bool | None, default: bool | None, notes: Notes) -> Settled:
    """Whether a tool is sent as strict, and its strict form.

    Args:
        tool: the tool; its annotation `Strict` says what it wants.
        rules: what the provider takes.
        config: what the configuration wants of each tool that says nothing.
        default: what the provider does by itself; None where the model has no strict mode.
        notes: where a tool that cannot be strict is noted.

    Raises:
        PreparationError: the tool's annotation asks for strict, and its schema cannot be.
    """
    asked = tool.get(Strict)
    strict = resolve_strict(asked, config, default)
    if strict is None and (asked or config):
        notes.warn(
            "not-strict", tool.name, f"the tool {tool.name!r} is not sent as strict: the model has no strict mode"
        )
    if not strict:
        return Settled(tool, strict)
    document = tool.parameters.document if isinstance(tool.parameters, Schema) else tool.parameters
    found = strict_form(document, rules, explicit_null=tool.get(ExplicitNull))
    if isinstance(found, Success):
        return Settled(tool, True, found.unwrap())
    obstacles = found.failure()
    if asked:
        raise _impossible(tool, rules, obstacles)
    why = "; ".join(map(str, obstacles))
    notes.warn(
        "not-strict", tool.name, f"the tool {tool.name!r} is not sent as strict: {rules.name} has no form for {why}"
    )
    return Settled(tool, False)


def _impossible(tool: AnyTool, rules: StrictRules, obstacles: tuple[Obstacle, ...]) -> PreparationError:
    first = obstacles[0]
    said = f"the tool {tool.name!r} is annotated as strict, and {rules.name} has no strict form for it: "
    remedy = "; or annotate it with Strict, None to send it as it is"
    description = said + "; ".join(map(str, obstacles)) + remedy
    return PreparationError(
        UnsupportedSchemaError(description=description, pointer=first.pointer, keyword=first.keyword)
    )


def chosen(tools: Iterable[AnyTool], choice: ToolChoices | None, field: str = "tool_choice") -> tuple[AnyTool, ...]:
    """The tools that are sent: all, or with `ToolChoice.one_of` those alone that it names.

    Raises:
        PreparationError: a name that no tool has, or no choice at all; `field` says where it stands.
    """
    given = tuple(tools)
    if not isinstance(choice, ToolChoice):
        if choice not in (None, "auto", "none", "required"):
            said = f"there is no choice {choice!r}: it is 'auto', 'none', 'required', or ToolChoice.tool({choice!r})"
            raise PreparationError.of(field, said)
        return given
    names = [tool.name for tool in given]
    unknown = [name for name in choice.names if name not in names]
    if unknown:
        there = ", ".join(names) or "none"
        raise PreparationError.of(field, f"there is no tool {', '.join(map(repr, unknown))}; the tools are: {there}")
    return given if choice.mode == "tool" else tuple(tool for tool in given if choice.allows(tool.name))


def refuse_approval(tool: AnyTool) -> None:
    """Refuses a tool that the provider runs and that asks for an approval: nobody is asked there.

    Raises:
        PreparationError: it is such a tool.
    """
    if tool.provider is None or tool.provider.requires_handler or tool.needs_approval is False:
        return
    said = f"the tool {tool.name!r} is run by the provider, where nobody is asked before: leave needs_approval out"
    raise PreparationError.of("needs_approval", f"{said}, or use what the provider's own tool has for it")


@cache
def option_names(form: type[msgspec.Struct]) -> dict[str, str]:
    """The options of one provider as they are written, each with its attribute: found out once, which takes long."""
    return {field.encode_name: field.name for field in msgspec.structs.fields(form)}


def options_of(tool: AnyTool, provider: str, form: type[_O]) -> _O:
    """The tool's `provider_options` for one provider, checked.

    Raises:
        PreparationError: they are none, with the place, what belongs there and which options there are.
    """
    given: Any = tool.provider_options.get(provider, {})
    where = f"provider_options[{provider!r}] of the tool {tool.name!r}"
    fields = option_names(form)
    unknown = [key for key in given if key not in fields] if is_object(given) else []
    if unknown:
        there = ", ".join(sorted(fields))
        raise PreparationError.of(where, f"there is no option {', '.join(map(repr, unknown))}; there are: {there}")
    try:
        return msgspec.convert(given, form)
    except msgspec.ValidationError as error:
        raise PreparationError.of(where, str(error)) from None


def without_nulls(value: Any) -> Any:
    """Plain data without the members of objects that are null: a provider takes their absence for the same."""
    if is_object(value):
        return {key: without_nulls(inner) for key, inner in value.items() if inner is not None}
    return [without_nulls(inner) for inner in value] if is_array(value) else value
