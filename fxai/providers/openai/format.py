"""Formats: how a model is held to a JSON Schema, and the way back from what it wrote to what the schema says.

A schema is sent in its strict form where it has one. One that is no object is sent as the only property of an object,
which is what the provider takes at the root. A model that cannot be held to a schema must call a tool instead.

>>> from fxai.models.preparation import Notes
>>> form = prepare_response_format(JsonSchema.of({"type": "integer"}), model="gpt-5.5", notes=Notes())
>>> form.fields["text"]["format"]["schema"]["properties"], form.text('{"value": 5}')
({'value': {'type': 'integer'}}, '5')
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any, Final, final

import msgspec
from returns.result import Success

from fxai.messages.reason import UnsupportedSchemaError
from fxai.models.preparation import Notes
from fxai.models.prepared import PreparationError
from fxai.providers.openai.trait import supports_schema
from fxai.providers.openai.wire import Api
from fxai.schema.data import is_object
from fxai.schema.json_schema import JsonSchema
from fxai.schema.parsing import parse_json
from fxai.schema.strict import OPENAI, Obstacle, StrictForm, strict_form

__all__ = ["ResponseFormat", "prepare_response_format"]

_VALUE: Final = "value"
_ANSWER: Final = "final_answer"
_SAID: Final = "Gives the final answer. Call it once, with the whole answer."
_ROOT: Final = re.compile(rb'"\$ref":"#"|"\$ref":"#/(?!\$defs/|definitions/)|"\$(?:id|anchor|dynamicRef)"')


@final
class ResponseFormat(msgspec.Struct, frozen=True):
    """What a request says of the form of its answer, and the way back."""

    fields: dict[str, Any]
    """The fields of the request; empty where a tool stands for them."""
    form: StrictForm | None = None
    """The strict form; None where the schema is sent as it is."""
    wrapped: bool = False
    """Whether the answer is the only property of an object."""
    tool: dict[str, Any] | None = None
    """The tool that must be called instead, as it is sent."""

    def __hash__(self) -> int:
        return hash((self.wrapped, self.tool_name))

    @property
    def tool_name(self) -> str | None:
        """The name of that tool on the wire; None without one."""
        tool = self.tool
        return None if tool is None else str(tool.get("name") or tool["function"]["name"])

    @property
    def is_plain(self) -> bool:
        """Whether the answer is the text as the model writes it, so that it can be shown while it comes."""
        return self.form is None and not self.wrapped

    def text(self, written: str) -> str:
        """The answer by the original schema, as JSON text; what is not in the strict form stays as it is."""
        if self.is_plain:
            return written
        read = parse_json(written)
        if not isinstance(read, Success) or not written.strip():
            return written
        value: Any = read.unwrap() if self.form is None else self.form.back(read.unwrap())
        if self.wrapped and is_object(value) and _VALUE in value:
            value = value[_VALUE]
        return msgspec.json.encode(value).decode()


def prepare_response_format(
    schema: JsonSchema,
    *,
    model: str,
    notes: Notes,
    api: Api = "responses",
    strict_json_schema: bool | None = None,
    supported: bool | None = None,
    taken: Iterable[str] = (),
) -> ResponseFormat:
    """What a request says of the form of its answer: a pure function, nothing is sent.

    Args:
        schema: the JSON Schema that the answer must be an instance of.
        model: the model's name, by which it is known whether it can be held to a schema.
        notes: where a schema that cannot be strict is noted.
        api: Responses or Chat Completions.
        strict_json_schema: True: what cannot be strict is an error. False: it is sent as it is. None: strict where it
            can be, else as it is, with a warning.
        supported: whether the model can be held to a schema at all; None: as its name says.
        taken: the names of the request's tools on the wire.

    Raises:
        PreparationError: the schema must be strict and has no strict form.
    """
    document, wrapped = _rooted(schema)
    form = _form(document, strict_json_schema, notes)
    strict = form is not None
    sent: Any = document.to_dict() if form is None else form.document.to_dict()
    if form is not None and form.document == document:
        form = None  # nothing is to be led back
    if not (supports_schema(model) if supported is None else supported):
        return ResponseFormat({}, form, wrapped, _tool(sent, api, taken))
    about = {"name": _name(schema), "schema": sent, "strict": strict}
    if api == "responses":
        return ResponseFormat({"text": {"format": {"type": "json_schema", **about}}}, form, wrapped)
    return ResponseFormat({"response_format": {"type": "json_schema", "json_schema": about}}, form, wrapped)


def _form(document: JsonSchema, config: bool | None, notes: Notes) -> StrictForm | None:
    if config is False:
        return None
    found = strict_form(document, OPENAI)
    if isinstance(found, Success):
        form: StrictForm = found.unwrap()
        return form
    obstacles: tuple[Obstacle, ...] = found.failure()
    why = "; ".join(map(str, obstacles))
    if config:
        first = obstacles[0]
        said = f"the answer must be strict, and {OPENAI.name} has no strict form for its schema: {why}"
        reason = UnsupportedSchemaError(description=said, pointer=first.pointer, keyword=first.keyword)
        raise PreparationError(reason)
    notes.warn("not-strict", None, f"the answer's schema is not sent as strict: {OPENAI.name} has no form for {why}")
    return None


def _rooted(schema: JsonSchema) -> tuple[JsonSchema, bool]:
    """The schema with an object at its root, and whether it had to be wrapped; one that names its root cannot be."""
    given = schema.to_dict()
    document: Any = {} if given is True else given
    if not is_object(document) or document.get("type") == "object" or "properties" in document:
        return schema, False
    if isinstance(strict_form(schema, OPENAI), Success) or _ROOT.search(msgspec.json.encode(document)):
        return schema, False
    hoisted: dict[str, Any] = {key: document.pop(key) for key in ("$schema", "$defs", "definitions") if key in document}
    whole = {"type": "object", "properties": {_VALUE: document}, "required": [_VALUE], "additionalProperties": False}
    return JsonSchema.of({**hoisted, **whole}), True


def _name(schema: JsonSchema) -> str:
    title = schema.get("title")
    name = re.sub(r"[^a-zA-Z0-9_-]+", "_", title)[:64] if isinstance(title, str) else ""
    return name.strip("_") or "answer"


def _tool(sent: dict[str, Any], api: Api, taken: Iterable[str]) -> dict[str, Any]:
    name, used = _ANSWER, set(taken)
    while name in used:
        name += "_"
    about = {"name": name, "description": _SAID, "parameters": sent}
    if api == "chat":
        return {"type": "function", "function": about}
    return {"type": "function", **about, "strict": False}
