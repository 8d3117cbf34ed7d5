"""The strict form of a document. Use this module to convert a schema and its values for strict mode.

>>> from fxai.schema.strict.rules import OPENAI
>>> page = JsonSchema.of({"type": "object", "properties": {"limit": {"type": "integer", "default": 9}}})
>>> form = strict_form(page, OPENAI).unwrap()
>>> form.document.get("properties")
{'limit': {'description': 'default: 9', 'anyOf': [{'type': 'integer'}, {'type': 'null'}]}}
>>> form.back({"limit": None}), form.forth({})
({}, <Success: {'limit': None}>)
"""

from __future__ import annotations

from functools import cached_property, lru_cache
from typing import Any, Final, final

import msgspec
from returns.result import Failure, Result, Success

from fxai.schema.budget import MAX_LOCATIONS, ExhaustedError, with_stack
from fxai.schema.data import is_array, is_object
from fxai.schema.fault import DecodeFailure, Fault, found_in, pointer_tokens
from fxai.schema.json_schema import JsonSchema
from fxai.schema.strict.node import Node, NoFormError
from fxai.schema.strict.rules import StrictRules, UnsupportedFeature, Weakening, rule_faults
from fxai.schema.strict.transformer import AS_ANY_OF, Transformer


def resolve_strict(annotation: bool | None, config: bool | None, default: bool | None) -> bool | None:
    """Return the strict flag of one tool, or None if the request omits the flag.

    Args:
        annotation: The tool's annotation `Strict`, or None.
        config: The provider's setting `strict_json_schema`, or None.
        default: The provider's default, or None if the model has no strict mode.
    """
    if default is None:
        return None
    if annotation is not None:
        return annotation
    return default if config is None else config


_LARGEST: Final = 5 * MAX_LOCATIONS
_BEYOND: Final = (
    f"the strict form needs more than {MAX_LOCATIONS} steps, so declare fewer alternatives or split the tool"
)


@final
class StrictForm(msgspec.Struct, frozen=True, eq=False, dict=True):
    """A document for strict mode, with the conversions of its values.

    Two laws apply to every strict form:

    - `back` converts every instance of `document` to an instance of `relaxed`.
    - `forth` converts every instance of `original` without undeclared properties to a strict value, and `back` returns
      the original value. Without `explicit_null`, a null can become an absent property if an optional property accepts
      null. `weakened` lists each such property, unless null is its default.
    """

    original: JsonSchema
    """The original document."""
    document: JsonSchema
    """The strict document for the request."""
    weakened: tuple[Weakening, ...]
    """The keywords that the provider does not enforce. fxai still validates values by the original document."""
    whole: Node
    """The conversion of the whole value."""
    explicit_null: bool
    """True if the form distinguishes a null from an absent property."""

    @cached_property
    def relaxed(self) -> JsonSchema:
        """The original document without the weakened keywords. fxai creates it at the first use."""
        return without_weakenings(self.original, self.weakened)

    @property
    def node(self) -> Node | None:
        """The conversion of the whole value by its members, or None if `back` changes no value."""
        return None if self.whole.back is None else self.whole

    def back(self, value: Any) -> Any:
        """Convert a strict value to the original value. Parts that do not fit the strict document do not change."""
        way = self.whole.back
        return value if way is None else with_stack(lambda: way(value))

    def forth(self, value: Any) -> Result[Any, DecodeFailure]:
        """Convert an original value to the strict value. A value without a strict form is a failure."""
        way = self.whole.forth
        try:
            candidate = value if way is None else with_stack(lambda: way(value))
        except NoFormError as none:
            return Failure(DecodeFailure((Fault("", f"a value with a strict form ({none})", found_in(value)),)))
        faults = self.document.validate(candidate)
        return Failure(DecodeFailure(faults)) if faults else Success(candidate)

    def __repr__(self) -> str:
        return f"StrictForm({self.document!r}, weakened={[str(one) for one in self.weakened]})"


@lru_cache(maxsize=2048)
def strict_form(
    document: JsonSchema, rules: StrictRules, *, explicit_null: bool = False
) -> Result[StrictForm, tuple[UnsupportedFeature, ...]]:
    """Return the strict form of a document for a provider. A document without a strict form is a failure.

    fxai caches the result. The failure contains every unsupported feature with its location and keyword.

    Args:
        document: The JSON Schema, for example of a tool's parameters.
        rules: The provider's rules.
        explicit_null: True to distinguish a null from an absent property, in each optional property that accepts null.
            Then null means that the property is absent, and `{"__null__": true}` means null. Otherwise, both are null
            in the strict form, and `back` removes the property. Default: False.
    """
    return with_stack(lambda: _transform(document, rules, explicit_null=explicit_null))


def _transform(
    document: JsonSchema, rules: StrictRules, *, explicit_null: bool
) -> Result[StrictForm, tuple[UnsupportedFeature, ...]]:
    plain = document.to_dict()
    if not is_object(plain):
        return Failure((UnsupportedFeature("", "schema", "providers require an object at the root"),))
    to = Transformer(plain, rules, explicit_null=explicit_null)
    try:
        node = to.convert()
    except ExhaustedError as error:
        return Failure((UnsupportedFeature(str(error), "schema", _BEYOND),))
    if node is None:
        return Failure(tuple(to.unsupported) or (UnsupportedFeature("", "schema", "the schema accepts no value"),))
    if to.unsupported:
        return Failure(tuple(to.unsupported))
    defs = {name: one.schema for name, one in to.nodes.items()}
    strict = {**node.schema, "$defs": defs} if defs else node.schema
    if to.size(strict) > _LARGEST:
        return Failure((UnsupportedFeature("", "schema", _BEYOND),))
    refused = tuple(
        UnsupportedFeature(fault.pointer, "schema", f"invalid strict form: {fault}")
        for fault in rule_faults(strict, rules)
    )
    if refused:
        return Failure(refused)
    sent = JsonSchema.trust(strict)
    return Success(StrictForm(document, sent, tuple(to.weakened), node, explicit_null))


def without_weakenings(original: JsonSchema, weakened: tuple[Weakening, ...]) -> JsonSchema:
    """Return the document without the weakened keywords."""
    document = original.to_dict()
    as_any_of = {one.pointer for one in weakened if one.reason == AS_ANY_OF}
    as_any_of -= {one.pointer for one in weakened if one.keyword == "oneOf" and one.reason != AS_ANY_OF}
    for one in sorted(weakened, key=lambda one: one.pointer.count("/"), reverse=True):  # inner schemas first
        schema = document
        for token in pointer_tokens(one.pointer):
            schema = schema[int(token)] if is_array(schema) else schema[token]
        if one.reason == AS_ANY_OF and one.pointer in as_any_of:
            schema.setdefault("allOf", []).append({"anyOf": schema.pop("oneOf")})
        else:
            schema.pop(one.keyword, None)
    return JsonSchema.trust(document)
