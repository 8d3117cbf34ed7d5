"""The JSON Schema of a type, derived from msgspec's: an object at the root, and no noise.

Titles that only repeat a class's name and empty `required` lists are left out, and so are `uniqueItems` of sets, since
the decoder takes doubled items, and `discriminator`, which is no keyword of JSON Schema. A tag is required where it
tells one struct from another, and only there, as by the decoder. What the decoder is open or closed to, the document
is too.

>>> from fxai.schema.plan import plan_of
>>> derive(plan_of(dict[str, int]))
{'type': 'object', 'additionalProperties': {'type': 'integer'}}
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final, Never, NoReturn, cast

import msgspec

from fxai.schema.data import is_array, is_object
from fxai.schema.empty import Empty
from fxai.schema.fault import SchemaError
from fxai.schema.plan import Plan, component_name

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
    if plan.survey.tags:
        _settle_tags(plan.survey.tags, root, components)
    if plan.step is not None:
        for schema in (root, *components.values()):
            _types_first(schema)
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


def _settle_tags(tags: dict[Any, str], root: dict[str, Any], components: dict[str, Any]) -> None:
    """Require a tag where it tells one struct from others, and not where a struct stands alone."""
    fields = {component_name(tp): field for tp, field in tags.items()}
    places = [place for schema in (root, *components.values()) for place in _places(schema)]
    told_apart = [arm for place in places if place.pop("discriminator", None) for arm in place["anyOf"]]
    among = {id(arm) for arm in told_apart}
    alone: dict[str, list[dict[str, Any]]] = {}
    for place in places:
        name = str(place.get("$ref", "")).removeprefix(_DEFS)
        if name in fields and name in components and id(place) not in among:
            alone.setdefault(name, []).append(place)
    shared = {str(arm.get("$ref", "")).removeprefix(_DEFS) for arm in told_apart} & set(alone)
    for name in shared:
        for place in alone[name]:
            place["$ref"] = f"{_DEFS}{name}_alone"
    for name in alone:
        component = components[name]
        if name in shared:
            component = components[f"{name}_alone"] = {**component}
        component["required"] = [one for one in component.get("required", ()) if one != fields[name]]
        _tidy(component)


def _types_first(schema: object) -> None:
    """Put a codec's own keywords behind the type that they are about."""
    for place in _places(schema):
        if "type" in place and next(iter(place)) in ("minimum", "maximum", "maxLength", "pattern", "allOf", "format"):
            said = {"type": place["type"], **place}
            place.clear()
            place.update(said)


def _places(schema: object) -> Iterator[dict[str, Any]]:
    """A schema and all inside it: the schemas of places, never defaults or examples."""
    if not is_object(schema):
        return
    yield schema
    listed = (*schema.get("anyOf", ()), *schema.get("prefixItems", ()), *schema.get("properties", {}).values())
    for inner in (schema.get("items"), schema.get("additionalProperties"), *listed):
        yield from _places(inner)


def _open(schema: object) -> None:
    """Take off the mark of places that take anything."""
    if is_object(schema):
        schema.pop(_ANYTHING, None)
    for inner in schema.values() if is_object(schema) else schema if is_array(schema) else ():
        _open(inner)


def _without_unique(schema: object) -> None:
    """Take off `uniqueItems` where a set is described."""
    for place in _places(schema):
        if place.get("type") == "array" and place.get("uniqueItems") is True:
            del place["uniqueItems"]
