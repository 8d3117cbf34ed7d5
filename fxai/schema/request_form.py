"""The request form of a document. Use this module to convert a schema and its values for the request of an API.

An API refuses some documents in any tool, strict or not. `request_form` rewrites these documents after the strict form.

>>> page = JsonSchema.of({"type": "object", "properties": {"$top": {"type": "integer"}}, "required": ["$top"]})
>>> form = request_form(page, MESSAGES).unwrap()
>>> form.document.get("properties"), form.back({"top": 9}), form.forth({"$top": 9})
({'top': {'type': 'integer', 'description': "parameter '$top'"}}, {'$top': 9}, <Success: {'top': 9}>)
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any, Final, TypeAlias, final

import msgspec
from returns.result import Failure, Result, Success

from fxai.schema.budget import ExhaustedError, with_stack
from fxai.schema.data import JsonObject, copy_data, every_object, is_array, is_object
from fxai.schema.dialect import LATEST, dialect_of
from fxai.schema.document import document_faults, relocate
from fxai.schema.fault import NOTHING, DecodeFailure, Fault, found_in, pointer_to
from fxai.schema.json_schema import JsonSchema, with_whole_numbers
from fxai.schema.location import ANNOTATIONS, DocumentReader, LocationError, Site, names_inside, walk
from fxai.schema.strict.form import StrictForm, strict_form
from fxai.schema.strict.node import describe, keyword_words
from fxai.schema.strict.rules import StrictRules, UnsupportedFeature, Weakening

# ---- the rules of APIs


@final
class RequestRules(msgspec.Struct, frozen=True):
    """The rules of one API for the tools of a request. A limit of None is unknown."""

    name: str
    """The name of the API in messages."""
    refused_at_root: frozenset[str]
    """The keywords that the root of a document must not have."""
    properties: bool = False
    """True if the root must have the keyword `properties`."""
    items: bool = False
    """True if each array must have the keyword `items`, at any depth."""
    property_name: str | None = None
    """The pattern of the names of the properties at the root, or None for any name."""
    longest_name: int = 64
    """The maximum length of the name of a tool, in characters."""
    most_tools: int | None = None
    """The maximum number of tools in a request."""
    longest_description: int | None = None
    """The maximum length of the description of a tool, in characters."""

    def accepts_name(self, name: str) -> bool:
        """Return True if the API accepts the name of a property at the root."""
        return self.property_name is None or re.fullmatch(self.property_name, name, re.ASCII) is not None


_UNIONS: Final = frozenset(("oneOf", "anyOf", "allOf"))

# sources: public reports of refused requests, 2025 and 2026; pydantic-ai-slim 2.68.0, profiles/openai.py; anthropic
# 2.14.0, types/tool_param.py
RESPONSES: Final = RequestRules(
    name="OpenAI's Responses API",
    refused_at_root=_UNIONS | {"enum", "not", "const"},
    properties=True,
    items=True,
)
"""The rules of OpenAI's Responses API."""

CHAT: Final = msgspec.structs.replace(
    RESPONSES, name="OpenAI's Chat Completions API", most_tools=128, longest_description=1024
)
"""The rules of OpenAI's Chat Completions API."""

COMPATIBLE_CHAT: Final = msgspec.structs.replace(RESPONSES, name="Chat Completions")
"""The rules for other servers of Chat Completions: OpenAI's rules for documents, without limits."""

MESSAGES: Final = RequestRules(
    name="Anthropic's Messages API",
    refused_at_root=_UNIONS,
    property_name=r"[a-zA-Z0-9_.-]{1,64}",
    longest_name=128,
)
"""The rules of Anthropic's Messages API. Anthropic checks only the names of properties at the root."""

REQUEST_RULES: Final[Mapping[str, tuple[RequestRules, ...]]] = {"openai": (RESPONSES, CHAT), "anthropic": (MESSAGES,)}
"""The rules of the APIs of each provider."""


def refusals(plain: JsonObject, rules: RequestRules) -> Iterator[Fault]:
    """Iterate over the reasons why the API would refuse a usable document of JSON Schema 2020-12."""
    if plain.get("type") != "object":
        yield Fault("/type", '"object"', found_in(plain["type"]) if "type" in plain else NOTHING)
    for keyword, value in plain.items():
        if keyword in rules.refused_at_root:
            yield Fault(pointer_to("", keyword), f"a root without {keyword}", found_in(value))
    properties = plain.get("properties")
    if rules.properties and not is_object(properties):
        yield Fault("/properties", "properties", found_in(properties) if "properties" in plain else NOTHING)
    for name in properties if is_object(properties) else ():
        if not rules.accepts_name(name):
            yield Fault(pointer_to("/properties", name), f"a name that matches {rules.property_name}", repr(name))
    for location in walk(plain) if rules.items else ():
        if lacks_items(location.schema):
            yield Fault(f"{location.pointer}/items", "a schema for the items", NOTHING)


def lacks_items(schema: Mapping[str, Any]) -> bool:
    """Return True if a schema accepts arrays and does not have the keyword `items`."""
    kind = schema.get("type")
    return (kind == "array" or (is_array(kind) and "array" in kind)) and "items" not in schema


# ---- the form

VALUE: Final = "value"
"""The property that contains the value of a schema that cannot be at the root."""
NAMES_OF_PROPERTIES: Final = "names of properties"
"""The rule of a rewrite of the name of a property."""

_ROOT: Final = "object at the root"
_WHERE: Final = f"/properties/{VALUE}"
_REFERENCES: Final = ("$ref", "$dynamicRef", "$recursiveRef")
_LONGEST: Final = 64
_TOO_MUCH: Final = "the rewritten document exceeds the budget, so simplify the schema or split the tool"

Way: TypeAlias = Callable[[object], object]
"""A conversion of a value."""
_Forth: TypeAlias = Callable[[object], Result[Any, DecodeFailure]]


@final
class Rewrite(msgspec.Struct, frozen=True):
    """A change of a document: its JSON pointer in the original, the rule, and the description of the change."""

    pointer: str
    """The JSON pointer in the original document."""
    rule: str
    """The rule."""
    change: str
    """The description of the change."""

    def __str__(self) -> str:
        """Return the location, the rule, and the change in one line."""
        return f"{self.pointer or '/'}: {self.rule}: {self.change}"


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

    def __init__(self, original: JsonSchema) -> None:
        """Store the original document. Use `request_form`, which also rewrites it."""
        self.original: JsonSchema = original
        """The original document."""
        self.document: JsonSchema = original
        """The document in the request."""
        self.strict: StrictForm | None = None
        """The strict form, or None if the tool is not strict."""
        self.rewrites: tuple[Rewrite, ...] = ()
        """The changes of the request form, without the changes of the strict form."""
        self.weakened: tuple[Weakening, ...] = ()
        """The keywords that the provider does not enforce. fxai still validates values by the original document."""
        self._ways: list[tuple[Way, _Forth]] = []
        self._plain: Any = original.to_dict()

    def back(self, value: object) -> object:
        """Convert a value of `document` to the original value. Other values do not change."""
        for back, _ in reversed(self._ways):
            value = back(value)
        return value

    def forth(self, value: object) -> Result[Any, DecodeFailure]:
        """Convert an original value to a value of `document`. A value without this form is a failure."""
        for _, forth in self._ways:
            found = forth(value)
            if not isinstance(found, Success):
                return found
            value = found.unwrap()
        faults = self.document.validate(value) if self._ways else ()
        return Failure(DecodeFailure(faults)) if faults else Success(value)

    def __repr__(self) -> str:
        return f"RequestForm({self.document!r}, rewrites={[str(one) for one in self.rewrites]})"

    # ---- the conversion

    def __rewrite__(
        self, rules: RequestRules, strict: StrictRules | None, *, explicit_null: bool
    ) -> tuple[UnsupportedFeature, ...]:
        """Rewrite the document for an API. Return the unsupported features, or `()` if the API accepts the result."""
        given = copy_data(self._plain)
        if given is False or given == {"not": {}}:
            return (UnsupportedFeature("", "schema", "the schema accepts no value"),)
        self._modernize()
        if strict is None:
            self._repair_root(rules.refused_at_root)
        elif unsupported := self._convert(rules, strict, explicit_null=explicit_null):
            return unsupported
        self._complete(rules)
        self._rename(rules)
        if self._plain != given:
            self.document = JsonSchema.trust(self._plain)
        return tuple(UnsupportedFeature(fault.pointer, "schema", str(fault)) for fault in refusals(self._plain, rules))

    def _note(self, pointer: str, rule: str, change: str) -> None:
        self.rewrites = (*self.rewrites, Rewrite(pointer, rule, change))

    def _modernize(self) -> None:
        """Rewrite an old draft, and state the type of the root."""
        if not is_object(self._plain):
            return
        if dialect_of(self._plain).name == "draft-04":
            self._ways.append((with_whole_numbers, Success))
        latest = modern(self._plain)
        if latest is not self._plain:
            self._note("/$schema", "JSON Schema 2020-12", "keywords of the older draft rewritten")
        self._plain = with_type(latest)
        if self._plain is not latest:
            self._note("/type", _ROOT, 'the type "object"')

    def _convert(
        self, rules: RequestRules, strict: StrictRules, *, explicit_null: bool
    ) -> tuple[UnsupportedFeature, ...]:
        """Convert the document to its strict form. Return its unsupported features, or `()` if the form exists."""
        found = strict_form(JsonSchema.trust(self._plain), strict, explicit_null=explicit_null)
        if not isinstance(found, Success):
            if is_object(self._plain) and _is_plain_root(self._plain, rules.refused_at_root):
                return found.failure()
            self._wrap()
            found = strict_form(JsonSchema.trust(self._plain), strict, explicit_null=explicit_null)
            if not isinstance(found, Success):
                return tuple(msgspec.structs.replace(one, pointer=_outer(one.pointer)) for one in found.failure())
        form = self.strict = found.unwrap()
        self._ways.append((form.back, form.forth))
        self.weakened = tuple(msgspec.structs.replace(one, pointer=_outer(one.pointer)) for one in form.weakened)
        self._plain = form.document.to_dict()
        return ()

    def _repair_root(self, refused: frozenset[str]) -> None:
        """Rewrite the root as one object without the refused keywords."""
        plain: Any = {} if self._plain is True else self._plain
        if not is_object(plain) or _is_plain_root(plain, refused):
            return
        if not plain.keys() - ANNOTATIONS - _SILENT - _IDENTIFIERS:
            self._note("", _ROOT, "an open object, with other values in the property 'value'")
            self._plain = {"type": "object", **plain, "properties": {}}
            self._ways.append((unwrap, _wrap_others))
        elif (folded := _fold(plain, refused)) is not None:
            self._plain, self.weakened = folded
            words = " with its alternatives in the description" if self.weakened else ""
            self._note("", _ROOT, f"one object schema{words}")
        else:
            self._wrap()

    def _wrap(self) -> None:
        """Move the document into the property `value` of an object."""
        definitions: JsonObject = {}
        inner: Any = relocate(self._plain, _WHERE, definitions, "")
        self._plain = {
            "type": "object",
            "properties": {VALUE: {True: {}, False: {"not": {}}}[inner] if isinstance(inner, bool) else inner},
            "required": [VALUE],
            "additionalProperties": False,
            **({"$defs": definitions} if definitions else {}),
        }
        self._note("", _ROOT, "the value is in the property 'value'")
        self._ways.append((unwrap, lambda value: Success({VALUE: value})))

    def _complete(self, rules: RequestRules) -> None:
        if rules.properties and "properties" not in self._plain:
            self._note("/properties", "properties at the root", "no properties")
            self._plain["properties"] = {}
        for location in walk(self._plain) if rules.items else ():
            schema = location.schema
            if not lacks_items(schema):
                continue
            if "unevaluatedItems" in schema and any(keyword in schema for keyword in _LOOKS_AT_ITEMS):
                continue  # other keywords decide about the items after the numbered items
            self._note(f"{location.pointer}/items", "items of arrays", "any items")
            schema["items"] = schema.pop("unevaluatedItems", {})

    def _rename(self, rules: RequestRules) -> None:
        names: Any = self._plain.get("properties", {})
        refused = [name for name in names if not rules.accepts_name(name)]
        if not refused:
            return
        if not _is_renamable(self._plain):
            if self.strict is None:
                for name in refused:
                    inside = f"unchanged, in the property {VALUE!r}"
                    self._note(pointer_to("/properties", name), NAMES_OF_PROPERTIES, inside)
                self._wrap()
            return
        aliases = _aliases(refused, {*names, *self._plain.get("required", ())})
        for name, alias in aliases.items():
            self._note(pointer_to("/properties", name), NAMES_OF_PROPERTIES, f"as {alias!r}")
        self._plain["properties"] = {aliases.get(n, n): _with_name(inner, n, aliases) for n, inner in names.items()}
        if "required" in self._plain:
            self._plain["required"] = [aliases.get(name, name) for name in self._plain["required"]]
        self._ways.append(_renaming(aliases))


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
        form = RequestForm(document)
        unsupported = with_stack(lambda: form.__rewrite__(rules, strict, explicit_null=explicit_null))
    except (ExhaustedError, RecursionError) as error:
        at = str(error) if isinstance(error, ExhaustedError) else ""
        unsupported = (UnsupportedFeature(at, "schema", _TOO_MUCH),)
        return Failure(unsupported)
    return Failure(unsupported) if unsupported else Success(form)


def _outer(pointer: str) -> str:
    return pointer.removeprefix(_WHERE)


_LOOKS_AT_ITEMS: Final = ("$ref", "allOf", "anyOf", "oneOf", "if", "not", "contains", "$dynamicRef")


# -- names

_ABOUT_NAMES: Final = frozenset(
    (
        *("patternProperties", "propertyNames", "dependentSchemas", "dependencies", "dependentRequired", "if", "not"),
        *("allOf", "anyOf", "oneOf", "enum", "const", "unevaluatedProperties"),
    )
)
_REFUSED_SIGNS: Final = "[^a-zA-Z0-9_.-]+"


def _is_renamable(plain: JsonObject) -> bool:
    """Return True if the names of the properties appear only in `properties` and `required`."""
    if any(keyword in plain for keyword in _ABOUT_NAMES) or is_object(plain.get("additionalProperties")):
        return False
    references = [one.get(keyword) for one in every_object(plain) for keyword in _REFERENCES]
    return all(one.startswith(("#/$defs/", "#/definitions/")) for one in references if isinstance(one, str))


def _aliases(refused: Iterable[str], taken: Container[str]) -> dict[str, str]:
    aliases: dict[str, str] = {}
    for number, name in enumerate(refused, 1):
        plain = re.sub(_REFUSED_SIGNS, "_", name).strip("_")[:_LONGEST] or f"property_{number}"
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
    members: JsonObject = {} if schema is True else dict(schema)
    description = members.get("description")
    members["description"] = (
        f"{description} (parameter {name!r})" if isinstance(description, str) and description else f"parameter {name!r}"
    )
    return members


def _renaming(aliases: Mapping[str, str]) -> tuple[Way, _Forth]:
    """Return the conversions from aliases to names, and from names to aliases."""
    names = {alias: name for name, alias in aliases.items()}

    def back(value: object) -> object:
        if not is_object(value):
            return value
        return {key if names.get(key) in value else names.get(key, key): inner for key, inner in value.items()}

    def forth(value: object) -> Result[Any, DecodeFailure]:
        if not is_object(value):
            return Success(value)
        clash = next((key for key in value if key in names), None)
        if clash is not None:
            expected = f"no property {clash!r}, because the request uses it for {names[clash]!r}"
            return Failure(DecodeFailure((Fault(pointer_to("", clash), expected, "the property"),)))
        return Success({aliases.get(key, key): inner for key, inner in value.items()})

    return back, forth


# -- the root

_SILENT: Final = frozenset(("$schema", "$comment", "$defs", "definitions", "$vocabulary", "readOnly", "writeOnly"))
_OBJECT: Final = frozenset(
    (
        *("properties", "required", "additionalProperties", "patternProperties", "propertyNames", "minProperties"),
        *("maxProperties", "dependentRequired", "dependentSchemas", "dependencies", "unevaluatedProperties"),
    )
)
_NARROWING: Final = ("anyOf", "oneOf", "not")
_IDENTIFIERS: Final = frozenset(("$id", "id", "$anchor", "$dynamicAnchor", "$recursiveAnchor"))
_MERGED: Final = frozenset(("type", "properties", "required", "$ref", "allOf")) | ANNOTATIONS | _SILENT
_REWRITTEN: Final = frozenset((*_NARROWING, "$ref", "allOf", "type", "required", "description"))


def _is_plain_root(document: Mapping[str, Any], refused: Iterable[str]) -> bool:
    """Return True if a root is one object schema without a refused keyword and without a reference."""
    if document.get("type") != "object" or any(keyword in document for keyword in refused):
        return False
    return not any(keyword in document for keyword in _REFERENCES)


def modern(document: JsonObject) -> JsonObject:
    """Return the document if it is also a usable document of 2020-12. Otherwise, rewrite it for 2020-12.

    >>> modern({"$schema": "http://json-schema.org/draft-07/schema#", "items": [{}], "additionalItems": False})
    {'prefixItems': [{}], 'items': False}
    """
    if dialect_of(document) is LATEST:
        return document
    if not document_faults({key: value for key, value in document.items() if key != "$schema"}):
        return document
    definitions: JsonObject = {}
    moved: JsonObject = relocate(document, "", definitions, "")
    return {**moved, "$defs": definitions} if definitions else moved


def with_type(document: JsonObject) -> JsonObject:
    """Return the document with the type `object` at its root if the root has only keywords of objects."""
    if document.get("type") == ["object"]:
        return {**document, "type": "object"}
    restricting = document.keys() - ANNOTATIONS - _SILENT - _IDENTIFIERS
    if not restricting or not restricting <= _OBJECT:
        return document
    return {"type": "object", **document}


def _wrap_others(value: object) -> Result[Any, DecodeFailure]:
    return Success(value if is_object(value) and value.keys() != {VALUE} else {VALUE: value})


def unwrap(value: object) -> Any:
    """Return the value of the property `value` if an object has only this property. Otherwise, return the value."""
    return value[VALUE] if is_object(value) and value.keys() == {VALUE} else value


_Folded: TypeAlias = tuple[JsonObject, tuple[Weakening, ...]]


def _fold(document: JsonObject, refused: frozenset[str]) -> _Folded | None:
    """Return the root as one object schema, and the keywords that this schema only describes.

    Return None if one object schema cannot express the root.
    """
    into = tuple(f"#/{keyword}/" for keyword in ("allOf", *_NARROWING))
    if names_inside([document]) or any(str(one.get("$ref", "")).startswith(into) for one in every_object(document)):
        return None
    try:
        reader = DocumentReader(document)
        sites = [site for site in reader.together((reader.root,)) if site.schema is not True]
        return _merge(document, sites, reader, refused) if _is_one_object(sites) else None
    except (LocationError, ExhaustedError):
        return None


def _is_one_object(sites: Sequence[Site]) -> bool:
    """Return True if the schemas describe objects and one schema can express all of them."""
    if not all(is_object(site.schema) for site in sites):
        return False
    keywords = Counter(keyword for site in sites for keyword in site.schema if keyword in site)
    kinds = [site.get("type") for site in sites if "type" in site]
    if any(kind not in ("object", ["object"]) for kind in kinds) or not (kinds or _OBJECT & keywords.keys()):
        return False
    if keywords["enum"] or keywords["const"] or any(isinstance(site.get("required"), bool) for site in sites):
        return False
    if any(count > 1 and keyword not in (*_MERGED, *_NARROWING) for keyword, count in keywords.items()):
        return False
    closed = [site for site in sites if site.get("additionalProperties", True) not in (True, {})]
    names = {name for site in sites for name in site.get("properties", {})}
    return len(sites) == 1 or not (  # a keyword about other properties must keep its meaning
        keywords["unevaluatedProperties"]
        or (closed and keywords["patternProperties"])
        or any(names - site.get("properties", {}).keys() for site in closed)
    )


def _merge(
    document: JsonObject, sites: Sequence[Site], reader: DocumentReader, refused: frozenset[str]
) -> _Folded | None:
    """Merge the schemas and describe their unions.

    Return None if a union adds properties, describes other values than objects, or is too long to describe.
    """
    merged: JsonObject = {"type": "object"}
    required: dict[str, None] = {}
    texts: dict[str, None] = {}
    for site in sites:
        properties: JsonObject = merged.setdefault("properties", {}) if "properties" in site else {}
        for name, inner in site.get("properties", {}).items():
            known = properties.setdefault(name, inner)
            properties[name] = inner if known == inner else {"allOf": [known, inner]}
        required.update(dict.fromkeys(site.get("required", ())))
        texts.update({site.get("description"): None} if isinstance(site.get("description"), str) else {})
        for keyword, value in site.schema.items():
            if keyword in site and keyword not in _REWRITTEN:
                merged.setdefault(keyword, value)
    merged |= {"required": list(required)} if required else {}
    merged |= {keyword: document[keyword] for keyword in ("$schema", "$defs", "definitions") if keyword in document}
    names = set(merged.get("properties", ()))
    weakened: list[Weakening] = []
    words: list[str] = []
    for site, keyword in ((site, keyword) for site in sites for keyword in _NARROWING if keyword in site):
        if keyword not in refused and len(sites) == 1:
            merged[keyword] = site.get(keyword)
            continue
        steps = [()] if keyword == "not" else [(index,) for index in range(len(site.get(keyword)))]
        inside = [site.under(keyword, *step) for step in steps]
        is_typed = "type" in site or all(
            is_object(one.schema) and one.schema.keys() <= _OBJECT | ANNOTATIONS for one in inside
        )
        words.append(keyword_words(keyword, site.get(keyword)))
        if not (words[-1] and is_typed and all(reader.declared_names(one) <= names for one in inside)):
            return None
        weakened.append(Weakening(site.pointer, keyword, "in the description, because the root cannot contain a union"))
    return describe(merged, [], ["\n".join(filter(None, texts))], words), tuple(weakened)
