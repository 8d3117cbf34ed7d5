"""The request form of a document. Use this module to convert a schema and its values for the request of an API.

An API refuses some documents in any tool, strict or not. `request_form` rewrites these documents after the strict form.

>>> from fxai.schema.request_form.request_rules import MESSAGES
>>> page = JsonSchema.of({"type": "object", "properties": {"$top": {"type": "integer"}}, "required": ["$top"]})
>>> form = request_form(page, MESSAGES).unwrap()
>>> form.document.get("properties"), form.back({"top": 9}), form.forth({"$top": 9})
({'top': {'type': 'integer', 'description': "parameter '$top'"}}, {'$top': 9}, <Success: {'top': 9}>)
"""

from __future__ import annotations

import re
from collections.abc import Callable, Container, Iterable, Mapping
from functools import lru_cache
from typing import Any, Final, TypeAlias, final

from returns.result import Failure, Result, Success

from fxai.schema.budget import ExhaustedError, with_stack
from fxai.schema.data import copy_data, every_object, is_array, is_object
from fxai.schema.dialect import dialect_of
from fxai.schema.fault import DecodeFailure, Fault, pointer_to
from fxai.schema.json_schema import JsonSchema
from fxai.schema.location import walk
from fxai.schema.request_form.request_rules import RequestRules, inner_refusals, lacks_items
from fxai.schema.request_form.root_form import (
    VALUE,
    WRAPPED,
    Rewrite,
    Way,
    is_plain_root,
    modern,
    root_form,
    unwrap,
    with_type,
    wrap,
)
from fxai.schema.strict.form import StrictForm, strict_form, without_weakenings
from fxai.schema.strict.rules import StrictRules, UnsupportedFeature, Weakening

_WHERE: Final = f"/properties/{VALUE}"
_ABOUT_NAMES: Final = frozenset(
    (
        *("patternProperties", "propertyNames", "dependentSchemas", "dependencies", "dependentRequired", "if", "not"),
        *("allOf", "anyOf", "oneOf", "enum", "const", "unevaluatedProperties"),
    )
)
_REFUSED_SIGNS: Final = re.compile(r"[^a-zA-Z0-9_.-]+")
NAMES_OF_PROPERTIES: Final = "names of properties"
"""The rule of a rewrite of the name of a property."""

_LOOKS_AT_ITEMS: Final = ("$ref", "allOf", "anyOf", "oneOf", "if", "not", "contains", "$dynamicRef")
_REFERENCES: Final = ("$ref", "$dynamicRef", "$recursiveRef")
_LONGEST: Final = 64
_TOO_MUCH: Final = "the rewritten document exceeds the budget, so simplify the schema or split the tool"


@final
class RequestForm:
    """A document that an API accepts in a tool, with the conversions of its values.

    Two laws apply to every request form:

    - `back` converts every instance of `document` to a value that satisfies the original without the `weakened`
      keywords.
    - `forth` converts every instance of the original without undeclared properties to an instance of `document`, and
      `back` returns the original value.

    If the root of the original has keywords of objects and no type, fxai reads the document as a schema of objects.
    """

    __slots__ = ("_draft", "document", "original", "rewrites", "strict", "weakened")

    def __init__(self, original: JsonSchema, draft: _Draft) -> None:
        self.original: JsonSchema = original
        """The original document."""
        self.document: JsonSchema = original if draft.plain == draft.given else JsonSchema.trust(draft.plain)
        """The document in the request."""
        self.strict: StrictForm | None = draft.strict
        """The strict form, or None if the tool is not strict."""
        self.rewrites: tuple[Rewrite, ...] = tuple(draft.rewrites)
        """The changes of the request form, without the changes of the strict form."""
        self.weakened: tuple[Weakening, ...] = draft.weakened
        """The keywords that the provider does not enforce. fxai still validates values by the original document."""
        self._draft = draft

    def back(self, value: Any) -> Any:
        """Convert a value of `document` to the original value. Other values do not change."""
        for back, _ in reversed(self._draft.ways):
            value = back(value)
        return value

    def forth(self, value: Any) -> Result[Any, DecodeFailure]:
        """Convert an original value to a value of `document`. A value without this form is a failure."""
        for _, forth in self._draft.ways:
            found = forth(value)
            if not isinstance(found, Success):
                return found
            value = found.unwrap()
        faults = self.document.validate(value) if self._draft.ways else ()
        return Failure(DecodeFailure(faults)) if faults else Success(value)

    def relaxed_faults(self, value: Any) -> tuple[Fault, ...]:
        """Return the errors of an original value by the original document without the weakened keywords."""
        return self._draft.relaxed_faults(value)

    def __repr__(self) -> str:
        return f"RequestForm({self.document!r}, rewrites={[str(one) for one in self.rewrites]})"


_Forth: TypeAlias = Callable[[Any], Result[Any, DecodeFailure]]


@final
class _Draft:
    """The state of a document during the conversion to the request form."""

    def __init__(self, given: Any) -> None:
        self.given: Any = copy_data(given)
        self.plain: Any = given
        self.ways: list[tuple[Way, _Forth]] = []
        self.rewrites: list[Rewrite] = []
        self.weakened: tuple[Weakening, ...] = ()
        self.strict: StrictForm | None = None
        self._read: JsonSchema | None = None
        self._wrapped = False

    def read(self) -> None:
        """Rewrite an old draft, and state the type of the root."""
        if not is_object(self.plain):
            return
        if dialect_of(self.plain).name == "draft-04":
            self.ways.append((_whole_numbers, Success))
        latest = modern(self.plain)
        if latest is not self.plain:
            self.rewrites.append(Rewrite("/$schema", "JSON Schema 2020-12", "keywords of the older draft rewritten"))
        self.plain = with_type(latest)
        if self.plain is not latest:
            self.rewrites.append(Rewrite("/type", "object at the root", 'the type "object"'))

    def hold(self, rules: RequestRules, strict: StrictRules, *, explicit_null: bool) -> tuple[UnsupportedFeature, ...]:
        """Convert the document to its strict form. Return its unsupported features, or `()` if the form exists."""
        self._read = JsonSchema.trust(self.plain)
        found = strict_form(self._read, strict, explicit_null=explicit_null)
        if not isinstance(found, Success):
            if is_object(self.plain) and is_plain_root(self.plain, rules.refused_at_root):
                return found.failure()
            self._wrap()
            found = strict_form(JsonSchema.trust(self.plain), strict, explicit_null=explicit_null)
            if not isinstance(found, Success):
                return tuple(_outside(one) for one in found.failure())
        form = self.strict = found.unwrap()
        self.ways.append((form.back, form.forth))
        self.weakened = tuple(Weakening(_outer(one.pointer), one.keyword, one.reason) for one in form.weakened)
        self.plain = form.document.to_dict()
        return ()

    def _wrap(self) -> None:
        self._wrapped = True
        self.plain = wrap(self.plain)
        self.rewrites.append(WRAPPED)
        self.ways.append((unwrap, lambda value: Success({VALUE: value})))

    def repair_root(self, rules: RequestRules) -> None:
        """Rewrite the root as one object."""
        self._read = JsonSchema.trust(self.plain)
        root = root_form(self.plain, rules.refused_at_root)
        self.plain = root.document
        self.rewrites += root.rewrites
        self.weakened = root.weakened
        if root.back is not None and root.forth is not None:
            forth = root.forth
            self.ways.append((root.back, lambda value: Success(forth(value))))

    def complete(self, rules: RequestRules) -> None:
        """Add missing keywords."""
        if rules.properties and "properties" not in self.plain:
            self.rewrites.append(Rewrite("/properties", "properties at the root", "no properties"))
            self.plain["properties"] = {}
        for location in walk(self.plain) if rules.items else ():
            if lacks_items(location.schema) and (items := _items(location.schema)) is not None:
                self.rewrites.append(Rewrite(f"{location.pointer}/items", "items of arrays", "any items"))
                location.schema["items"] = items

    def rename(self, rules: RequestRules) -> None:
        """Rename the properties of the root whose names the API refuses."""
        names: Any = self.plain.get("properties", {})
        refused = [name for name in names if not rules.accepts_name(name)]
        if not refused:
            return
        if not _is_renamable(self.plain):
            if self.strict is None:
                inside = f"unchanged, in the property {VALUE!r}"
                self.rewrites += [Rewrite(pointer_to("/properties", n), NAMES_OF_PROPERTIES, inside) for n in refused]
                self._wrap()
            return
        aliases = _aliases(refused, {*names, *self.plain.get("required", ())})
        for name, alias in aliases.items():
            self.rewrites.append(Rewrite(pointer_to("/properties", name), NAMES_OF_PROPERTIES, f"as {alias!r}"))
        self.plain["properties"] = {aliases.get(n, n): _with_name(inner, n, aliases) for n, inner in names.items()}
        if "required" in self.plain:
            self.plain["required"] = [aliases.get(name, name) for name in self.plain["required"]]
        self.ways.append(_renaming(aliases))

    def relaxed_faults(self, value: Any) -> tuple[Fault, ...]:
        """Return the errors of a value by the read document without the weakened keywords."""
        if self.strict is not None:
            return self.strict.relaxed.validate({VALUE: value} if self._wrapped else value)
        read = self._read or JsonSchema.trust(self.given)
        return without_weakenings(read, self.weakened).validate(value)


@lru_cache(maxsize=2048)
def request_form(
    document: JsonSchema, rules: RequestRules, *, strict: StrictRules | None = None, explicit_null: bool = False
) -> Result[RequestForm, tuple[UnsupportedFeature, ...]]:
    """Return the form of a document that an API accepts. A document without this form is a failure.

    fxai caches the result. The failure contains every unsupported feature with its location and keyword.

    Args:
        document: The JSON Schema of the parameters of a tool.
        rules: The rules of the API.
        strict: The rules of strict mode, or None if the tool is not strict. Default: None.
        explicit_null: True if the strict form must distinguish a null from an absent property. Default: False.
    """
    try:
        return with_stack(lambda: _form(document, rules, strict, explicit_null=explicit_null))
    except (ExhaustedError, RecursionError) as error:
        return Failure(
            (UnsupportedFeature(str(error) if isinstance(error, ExhaustedError) else "", "schema", _TOO_MUCH),)
        )


def _form(
    document: JsonSchema, rules: RequestRules, strict: StrictRules | None, *, explicit_null: bool
) -> Result[RequestForm, tuple[UnsupportedFeature, ...]]:
    draft = _Draft(document.to_dict())
    if draft.plain is False or draft.plain == {"not": {}}:
        return Failure((UnsupportedFeature("", "schema", "the schema accepts no value"),))
    draft.read()
    if strict is None:
        draft.repair_root(rules)
    elif unsupported := draft.hold(rules, strict, explicit_null=explicit_null):
        return Failure(unsupported)
    draft.complete(rules)
    draft.rename(rules)
    left = tuple(
        UnsupportedFeature(fault.pointer, "schema", str(fault)) for fault in inner_refusals(draft.plain, rules)
    )
    return Failure(left) if left else Success(RequestForm(document, draft))


def _outer(pointer: str) -> str:
    return pointer.removeprefix(_WHERE)


def _outside(feature: UnsupportedFeature) -> UnsupportedFeature:
    return UnsupportedFeature(_outer(feature.pointer), feature.keyword, feature.reason)


def _whole_numbers(value: Any) -> Any:
    """Convert whole numbers such as `3.0` to integers, because draft 4 does not accept `3.0` as an integer."""
    if is_object(value):
        return {name: _whole_numbers(inner) for name, inner in value.items()}
    if is_array(value):
        return [_whole_numbers(inner) for inner in value]
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _items(schema: dict[str, Any]) -> Any:
    """Return the schema of the items after the numbered items, or None if other keywords decide about these items."""
    if "unevaluatedItems" not in schema:
        return {}
    return None if any(keyword in schema for keyword in _LOOKS_AT_ITEMS) else schema.pop("unevaluatedItems")


# -- names


def _is_renamable(plain: dict[str, Any]) -> bool:
    """Return True if the names of the properties appear only in `properties` and `required`."""
    if any(keyword in plain for keyword in _ABOUT_NAMES) or is_object(plain.get("additionalProperties")):
        return False
    return not any(_leads_to_root(one.get(keyword)) for one in every_object(plain) for keyword in _REFERENCES)


def _leads_to_root(reference: object) -> bool:
    """Return True if a reference can lead to the root or into its properties."""
    return isinstance(reference, str) and not reference.startswith(("#/$defs/", "#/definitions/"))


def _aliases(refused: Iterable[str], taken: Container[str]) -> dict[str, str]:
    """Return an unused alias for each refused name."""
    aliases: dict[str, str] = {}
    for number, name in enumerate(refused, 1):
        plain = _REFUSED_SIGNS.sub("_", name).strip("_")[:_LONGEST] or f"property_{number}"
        alias, count = plain, 1
        while alias in taken or alias in aliases.values():
            count += 1
            alias = f"{plain[: _LONGEST - len(str(count)) - 1]}_{count}"
        aliases[name] = alias
    return aliases


def _with_name(schema: Any, name: str, aliases: Mapping[str, str]) -> Any:
    """Return the schema of a property. If the property has an alias, add its name to the description."""
    if name not in aliases or schema is False:
        return schema
    members: dict[str, Any] = {} if schema is True else dict(schema)
    description = members.get("description")
    members["description"] = (
        f"{description} (parameter {name!r})" if isinstance(description, str) and description else f"parameter {name!r}"
    )
    return members


def _renaming(aliases: Mapping[str, str]) -> tuple[Way, _Forth]:
    """Return the conversions from aliases to names, and from names to aliases."""
    names = {alias: name for name, alias in aliases.items()}

    def back(value: Any) -> Any:
        if not is_object(value):
            return value
        return {key if names.get(key) in value else names.get(key, key): inner for key, inner in value.items()}

    def forth(value: Any) -> Result[Any, DecodeFailure]:
        if not is_object(value):
            return Success(value)
        clash = next((key for key in value if key in names), None)
        if clash is not None:
            expected = f"no property {clash!r}, because the request uses it for {names[clash]!r}"
            return Failure(DecodeFailure((Fault(pointer_to("", clash), expected, "the property"),)))
        return Success({aliases.get(key, key): inner for key, inner in value.items()})

    return back, forth
