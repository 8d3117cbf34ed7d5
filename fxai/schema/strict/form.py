"""The strict form of a document: what is sent, what of the original it cannot say, and the ways between their values.

>>> from fxai.schema.strict.rules import OPENAI
>>> page = JsonSchema.of({"type": "object", "properties": {"limit": {"type": "integer", "default": 9}}})
>>> form = strict_form(page, OPENAI).unwrap()
>>> form.document.get("properties")
{'limit': {'description': 'default: 9', 'anyOf': [{'type': 'integer'}, {'type': 'null'}]}}
>>> form.back({"limit": None}), form.forth({})
({}, <Success: {'limit': None}>)
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, Final, final

from returns.result import Failure, Result, Success

from fxai.schema.budget import MAX_PLACES, Exhausted, with_stack
from fxai.schema.data import is_array, is_object
from fxai.schema.fault import DecodeFailure, Fault, found_in, pointer_tokens
from fxai.schema.json_schema import JsonSchema
from fxai.schema.strict.location import Obstacle, StrictError, Weakening
from fxai.schema.strict.node import Node, NoForm
from fxai.schema.strict.refusal import rule_faults
from fxai.schema.strict.rules import StrictRules
from fxai.schema.strict.transform import Transformer

__all__ = ["StrictForm", "strict_form"]


_LARGEST: Final = 5 * MAX_PLACES
_BEYOND: Final = f"its strict form takes more than {MAX_PLACES} steps: say fewer alternatives, or split the tool"


@final
class StrictForm:
    """A document that a provider takes in strict mode, made of another one.

    Every instance of `document`, led `back`, is an instance of `relaxed`. Every instance of `original` without
    undeclared properties has a form by `forth` that leads back to it: exactly with `explicit_null`, else up to null
    and absence where an optional property itself admits null (see `weakened`, unless null is its default).
    """

    __slots__ = ("_node", "_relaxed", "document", "explicit_null", "original", "weakened")

    def __init__(
        self,
        original: JsonSchema,
        document: JsonSchema,
        weakened: tuple[Weakening, ...],
        node: Node,
        *,
        explicit_null: bool = False,
    ) -> None:
        self.original = original
        """What the tool says."""
        self.explicit_null = explicit_null
        """Whether a null and what is left out are told apart."""
        self.document = document
        """What is sent."""
        self.weakened = weakened
        """What of the original the provider cannot carry; the original is validated after all."""
        self._node = node
        self._relaxed: JsonSchema | None = None

    @property
    def relaxed(self) -> JsonSchema:
        """The original without what was weakened; no request needs it, so it is made when it is first asked for."""
        if self._relaxed is None:
            self._relaxed = _relaxed(self.original, self.weakened)
        return self._relaxed

    def back(self, value: Any) -> Any:
        """The value of the original that a strict one stands for; what it does not recognise it leaves as it is."""
        way = self._node.back
        return value if way is None else with_stack(lambda: way(value))

    def forth(self, value: Any) -> Result[Any, DecodeFailure]:
        """The strict value that stands for one of the original; fails for what has none."""
        way = self._node.forth
        try:
            candidate = value if way is None else with_stack(lambda: way(value))
        except NoForm as none:
            return Failure(DecodeFailure((Fault("", f"a value that has a strict form ({none})", found_in(value)),)))
        faults = self.document.validate(candidate)
        return Failure(DecodeFailure(faults)) if faults else Success(candidate)

    def __repr__(self) -> str:
        return f"StrictForm({self.document!r}, weakened={[str(one) for one in self.weakened]})"


@lru_cache(maxsize=2048)
def strict_form(
    document: JsonSchema, rules: StrictRules, *, explicit_null: bool = False
) -> Result[StrictForm, tuple[Obstacle, ...]]:
    """The strict form of a document by a provider's rules, made once; else every obstacle, with pointer and keyword.

    Args:
        document: what the tool says.
        rules: what the provider takes.
        explicit_null: tell a null from what is left out, in each optional property that admits null: null is sent for
            what is left out, and `{"__null__": true}` for a null. Otherwise both are null, and lead back to left out.
    """
    return with_stack(lambda: _made(document, rules, explicit_null=explicit_null))


def _made(document: JsonSchema, rules: StrictRules, *, explicit_null: bool) -> Result[StrictForm, tuple[Obstacle, ...]]:
    plain = document.to_dict()
    if not is_object(plain):
        return Failure((Obstacle("", "schema", "providers take an object at the root"),))
    to = Transformer(plain, rules, explicit_null=explicit_null)
    try:
        node = to.convert()
    except StrictError as error:
        return Failure((error.obstacle,))
    except Exhausted as error:
        return Failure((Obstacle(str(error), "schema", _BEYOND),))
    if node is None:
        return Failure(tuple(to.obstacles) or (Obstacle("", "schema", "no value can be an instance of it"),))
    if to.obstacles:
        return Failure(tuple(to.obstacles))
    defs = {name: one.schema for name, one in to.nodes.items()}
    strict = {**node.schema, "$defs": defs} if defs else node.schema
    if to.size(strict) > _LARGEST:
        return Failure((Obstacle("", "schema", _BEYOND),))
    refused = tuple(
        Obstacle(fault.pointer, "schema", f"its strict form: {fault}") for fault in rule_faults(strict, rules)
    )
    if refused:
        return Failure(refused)
    sent = JsonSchema.trusted(strict)
    return Success(StrictForm(document, sent, tuple(to.weakened), node, explicit_null=explicit_null))


def _relaxed(original: JsonSchema, weakened: tuple[Weakening, ...]) -> JsonSchema:
    document = original.to_dict()
    for one in sorted(weakened, key=lambda one: one.pointer.count("/"), reverse=True):  # the innermost first
        schema = document
        for token in pointer_tokens(one.pointer):
            schema = schema[int(token)] if is_array(schema) else schema[token]
        if one.keyword == "oneOf" and one.reason == "sent as anyOf":
            schema.setdefault("allOf", []).append({"anyOf": schema.pop("oneOf")})
        else:
            schema.pop(one.keyword, None)
    return JsonSchema.trusted(document)
