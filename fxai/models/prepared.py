"""Prepared tools: what a request says of a toolkit, in one provider's form, and the way back from the provider's calls.

Each provider's `prepare_tools` gives one, from a toolkit and a model's name alone; nothing is sent.

>>> from fxai.tools.naming import NameMap
>>> names = NameMap({"Calculator.add": "Calculator__add"})
>>> prepared = PreparedTools.make({"tools": [{"name": "Calculator__add"}]}, names)
>>> prepared.tools, prepared.call("Calculator__add", {"a": 1})
([{'name': 'Calculator__add'}], ('Calculator.add', {'a': 1}))
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cached_property
from types import MappingProxyType
from typing import Any, cast, final

import msgspec

from fxai.messages.part import WarningPart
from fxai.messages.reason import InvalidRequestError, Reason
from fxai.schema.data import is_object
from fxai.schema.json_schema import JsonSchema
from fxai.schema.strict import StrictForm, StrictRules, strict_form
from fxai.tools.naming import NameMap

__all__ = ["PreparationError", "PreparedTools", "Toolset", "WireCall"]


class PreparationError(ValueError):
    """The tools cannot be sent as they are: found before the request. `reason` says it as a value."""

    def __init__(self, reason: Reason) -> None:
        super().__init__(str(reason))
        self.reason = reason

    def __reduce__(self) -> tuple[type[PreparationError], tuple[Reason]]:
        return (PreparationError, (self.reason,))

    @staticmethod
    def of(parameter: str, description: str) -> PreparationError:
        """The error of a wrong argument of `prepare_tools`."""
        return PreparationError(InvalidRequestError(parameter=parameter, description=description))


@final
class Toolset(msgspec.Struct, frozen=True):
    """One tool of ours that a provider shows the model as several, each for one kind of action.

    Attributes:
        wire: what the provider calls the set.
        tool: the tool's own name.
        field: which field of the tool's parameters says the action; on the wire, it is the name of the call.
    """

    wire: str
    tool: str
    field: str = "action"


@final
class WireCall(msgspec.Struct, frozen=True):
    """A call as the provider writes it: for the history of a conversation that goes on."""

    name: str
    params: Any
    toolset: str | None = None

    def __hash__(self) -> int:
        return hash((self.name, self.toolset))  # parameters are plain data


@final
class PreparedTools(msgspec.Struct, frozen=True, dict=True):
    """What a request says of its tools, and the way back from calls. Frozen, hashable, comparable and picklable."""

    # The dictionary of an instance holds what is found out once, such as strict forms; it is no part of the value.

    encoded: bytes
    """The fields of the request, as JSON."""
    naming: NameMap
    """The names, both ways."""
    warnings: tuple[WarningPart, ...] = ()
    """What was asked for and not done: for the response."""
    betas: tuple[str, ...] = ()
    """The beta features that the request must name; Anthropic alone has such."""
    rules: StrictRules | None = None
    """What the provider takes in strict mode; None where nothing is sent as strict."""
    originals: tuple[tuple[str, JsonSchema], ...] = ()
    """The tools that are sent as strict, by their own names, each with the document that it has itself."""
    toolsets: tuple[Toolset, ...] = ()
    """The tools that the model sees as several."""
    explicit_null: frozenset[str] = frozenset()
    """Those of the strict tools whose form tells a null from what is left out."""

    @staticmethod
    def make(
        fields: Mapping[str, Any],
        naming: NameMap,
        *,
        warnings: Iterable[WarningPart] = (),
        betas: Iterable[str] = (),
        rules: StrictRules | None = None,
        originals: Mapping[str, JsonSchema] | None = None,
        toolsets: Iterable[Toolset] = (),
        explicit_null: Iterable[str] = (),
    ) -> PreparedTools:
        """The prepared tools of a request's fields; a field of None, and a list of no tools, is left out."""
        sent = {key: value for key, value in fields.items() if value is not None and value != []}
        encoded = msgspec.json.encode(sent)
        held = tuple((originals or {}).items())
        once, several = tuple(dict.fromkeys(betas)), tuple(toolsets)
        return PreparedTools(encoded, naming, tuple(warnings), once, rules, held, several, frozenset(explicit_null))

    @property
    def fields(self) -> dict[str, Any]:
        """The fields of the request that are about tools, as a fresh plain copy: `tools`, `tool_choice` and the like.

        What is not to be sent is not in it.
        """
        fields: dict[str, Any] = msgspec.json.decode(self.encoded)
        return fields

    @property
    def tools(self) -> list[dict[str, Any]]:
        """The tools as they are sent, as fresh plain copies; `[]`: the request has no such field."""
        return cast("list[dict[str, Any]]", self.fields.get("tools", []))

    @property
    def tool_choice(self) -> Any:
        """The tool choice as it is sent, a fresh plain copy; None: the request has no such field."""
        return self.fields.get("tool_choice")

    @property
    def names(self) -> Mapping[str, str]:
        """From the name on the wire to the tool's own."""
        return self.naming.names

    @property
    def strict(self) -> Mapping[str, StrictForm]:
        """The tools that are sent as strict, by their own names: what is sent, and what that weakens."""
        forms = {name: self._form(name) for name, _ in self.originals}
        return MappingProxyType({name: form for name, form in forms.items() if form is not None})

    def call(self, wire: str, params: Any, *, toolset: str | None = None) -> tuple[str, Any]:
        """The tool that a call means, and its parameters as the tool's own schema has them.

        Args:
            wire: the name in the call. A name that nobody sent stands for itself.
            params: the parameters in the call, parsed. Those of a strict tool are mapped back; whatever does not look
                like its strict form stays as it is, to be refused with its place when it is decoded.
            toolset: the set that the call names, where a provider has such.
        """
        for held in self.toolsets:
            if held.wire == toolset:
                return held.tool, {held.field: wire, **(params if is_object(params) else {})}
        name = self.naming.meant(wire)
        form = self._form(name)
        return name, (params if form is None else form.back(params))

    def wire_call(self, name: str, params: Any) -> WireCall:
        """The call of the tool `name` as the provider wrote it, for the history; the opposite of `call`.

        Parameters that have no strict form stay as they are: providers do not check what is past.
        """
        for held in self.toolsets:
            if held.tool == name and is_object(params) and held.field in params:
                rest = {key: value for key, value in params.items() if key != held.field}
                return WireCall(str(params[held.field]), rest, held.wire)
        form = self._form(name)
        given = params if form is None else form.forth(params).value_or(params)
        return WireCall(self.naming.sent(name), given)

    @cached_property
    def plain_fields(self) -> Mapping[str, Any]:
        """The fields of the request, decoded once for all requests: to be read and sent, never changed."""
        return MappingProxyType(self.fields)

    @cached_property
    def _documents(self) -> dict[str, JsonSchema]:
        return dict(self.originals)

    @cached_property
    def _forms(self) -> dict[str, StrictForm | None]:
        """The strict forms that were asked for."""
        return {}

    def _form(self, name: str) -> StrictForm | None:
        """The strict form of one tool; None where it is not sent as strict."""
        if name not in self._documents or self.rules is None:
            return None
        if name not in self._forms:
            made = strict_form(self._documents[name], self.rules, explicit_null=name in self.explicit_null)
            self._forms[name] = made.unwrap()
        return self._forms[name]
