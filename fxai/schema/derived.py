"""The JSON Schema of a type, derived from msgspec's: an object at the root, and no noise.

Titles that only repeat a class's name and empty `required` lists are left out, and so is `uniqueItems` of sets, since
the decoder takes doubled items. What the decoder is open or closed to, the document is too.

>>> from fxai.schema.plan import plan_of
>>> derive(plan_of(dict[str, int]))
{'type': 'object', 'additionalProperties': {'type': 'integer'}}
"""

from __future__ import annotations

from typing import Any, Final, Never, NoReturn, cast

import msgspec

from fxai.schema.data import is_array, is_object
from fxai.schema.empty import Empty
from fxai.schema.fault import SchemaError
from fxai.schema.plan import Plan

__all__ = ["derive"]

_ANYTHING: Final = "x-fxai-anything"  # stands for a moment where nothing is to be said: the hook may not say nothing
_DEFS: Final = "#/$defs/"


def derive(plan: Plan) -> dict[str, Any]:
    """The JSON Schema document (2020-12) of a plan's wire type, as plain data that is the caller's own.

    Raises:
        SchemaError: a default of the type has no JSON form.
    """
    if plan.wire in (Never, NoReturn):
        return {"not": {}}
    if plan.wire is Empty:
        return {"type": "object", "properties": {}, "additionalProperties": False}
    root, components = _components(plan)
    for component in components.values():
        _tidy(component)
    for mirror, defaults in plan.defaults.items():
        _tell_defaults(components.get(mirror.__name__), defaults)
    root = _inlined(root, components)
    if plan.survey.sets:
        for schema in (root, *components.values()):
            _without_unique(schema)
    document = {**root, "$defs": components} if components else root
    if plan.survey.objects:
        _open(document)
    return document


def _components(plan: Plan) -> tuple[dict[str, Any], dict[str, Any]]:
    try:
        (root,), components = msgspec.json.schema_components(
            [plan.wire], ref_template=_DEFS + "{name}", schema_hook=_anything
        )
    except (TypeError, ValueError, NotImplementedError) as error:
        raise SchemaError(f"no JSON Schema of {plan.type!r}: {error}") from None
    return root, dict(components)


def _anything(tp: Any) -> dict[str, Any]:
    if tp is object:
        return {_ANYTHING: True}
    raise NotImplementedError


def _tidy(component: dict[str, Any]) -> None:
    component.pop("title", None)
    if component.get("required") == []:
        del component["required"]


def _tell_defaults(component: dict[str, Any] | None, defaults: dict[str, Any]) -> None:
    properties = cast("dict[str, dict[str, Any]]", (component or {}).get("properties", {}))
    for name, default in defaults.items():
        if name in properties:
            properties[name].setdefault("default", default)


def _inlined(root: dict[str, Any], components: dict[str, Any]) -> dict[str, Any]:
    """The root with the component it refers to in its place; kept below as well where it is referred to again."""
    reference = root.get("$ref")
    if not isinstance(reference, str):
        return root
    name = reference.removeprefix(_DEFS)
    component = components[name]
    if msgspec.json.encode({"$ref": reference})[1:-1] not in msgspec.json.encode(components):
        del components[name]
    return {**component, **{key: value for key, value in root.items() if key != "$ref"}}


def _open(schema: object) -> None:
    """Take off the mark of places that take anything."""
    if is_object(schema):
        schema.pop(_ANYTHING, None)
    for inner in schema.values() if is_object(schema) else schema if is_array(schema) else ():
        _open(inner)


def _without_unique(schema: object) -> None:
    """Take off `uniqueItems` where a set is described: in the schemas of places, never in defaults or examples."""
    if not is_object(schema):
        return
    members = schema
    if members.get("type") == "array" and members.get("uniqueItems") is True:
        del members["uniqueItems"]
    for inner in (members.get("items"), members.get("additionalProperties")):
        _without_unique(inner)
    for inner in (*members.get("anyOf", ()), *members.get("prefixItems", ()), *members.get("properties", {}).values()):
        _without_unique(inner)
