"""What is decided, how its steps are counted, and what is said where they are used up."""

from __future__ import annotations

from typing import Any

import pytest

from fxai.schema import JsonSchema, SchemaError
from fxai.schema.budget import MAX_CONTAINERS, MAX_FAULTS, MAX_PATTERN, MAX_STEPS, Work
from fxai.schema.engine import Engine, is_multiple
from fxai.schema.pattern import PatternTimeoutError
from tests.kit.every import every

UNDECIDED = f"expected data that is decided within {MAX_STEPS} steps"


def steps(plain: Any, value: Any) -> int:
    """How many steps a decision takes."""
    work = Work(MAX_STEPS)
    Engine(plain).root.takes(value, work)
    return MAX_STEPS - work.left


def test_a_large_constant_is_compared_once_for_each_value() -> None:
    """What is compared costs its size once, however many constants it is held against."""
    large: list[Any] = list(range(10_000))
    once = steps({"const": large}, [*large[:-1], -1])

    assert 10_000 < once < 10_100
    assert steps({"allOf": [{"not": {"const": [*large, n]}} for n in range(50)]}, large) < once + 500
    assert steps({"items": {"const": large}}, [large] * 200) < once + 1_000


def test_a_union_of_constants_is_looked_up() -> None:
    """Two hundred constants cost an item no more than one does."""
    many = {"items": {"anyOf": [{"const": f"c{n}"} for n in range(200)]}}

    assert steps(many, ["c199"] * 1_000) == steps({"items": {"anyOf": [{"const": "c199"}]}}, ["c199"] * 1_000)


@every(
    ("plain", "value"),
    [
        ({"uniqueItems": True}, list(range(1_000))),
        ({"required": [f"p{n}" for n in range(8_000)]}, {}),
        ({"patternProperties": {f"^a{n}": True for n in range(20)}}, {f"b{n}": 1 for n in range(50)}),
        ({"additionalProperties": {"type": "integer"}}, {f"b{n}": 1 for n in range(1_000)}),
        ({"propertyNames": {"maxLength": 9}}, {f"b{n}": 1 for n in range(1_000)}),
        ({"multipleOf": 0.001}, 10**4_000),
        ({"contains": {"const": 1}}, [0] * 1_000),
        ({"oneOf": [{"type": "integer"}] * 1_000}, "a"),
    ],
)
def test_each_keyword_costs_what_it_looks_at(plain: Any, value: Any) -> None:
    """Names, items, patterns and digits are steps: a thousand of them cost hundreds at least."""
    assert 300 < steps(plain, value) < 30_000


def test_what_multiplies_is_decided_once_for_each_value() -> None:
    """A schema that applies itself twice a level takes as many steps as the data is deep."""
    plain = {"properties": {"c": {"allOf": [{"$ref": "#"}, {"$ref": "#"}]}}, "type": "object"}
    value: Any = {}
    for _ in range(60):
        value = {"c": value}

    assert steps(plain, value) < 2_000


HOSTILE: dict[str, tuple[Any, Any]] = {
    "contains": (
        {"allOf": [{"contains": {"const": f"c{n}"}} for n in range(200)]},
        [f"c{n % 100}" for n in range(20_000, 0, -1)] + [f"c{n}" for n in range(100, 200)],
    ),
    "oneOf": (
        {"items": {"oneOf": [{"properties": {"k": {"const": n}}, "required": ["k"]} for n in range(100)]}},
        [{"k": 99} for _ in range(3_000)],
    ),
    "const": ({"items": {"const": list(range(10_000))}}, [list(range(10_000)) for _ in range(20)]),
    "uniqueItems": ({"allOf": [{"uniqueItems": True}] * 500}, list(range(20_000))),
    "unevaluatedItems": (
        {"allOf": [{"contains": {"const": n}} for n in range(50)], "unevaluatedItems": False},
        [*range(50), *[49] * 20_000],
    ),
    "multipleOf": ({"items": {"multipleOf": 0.001}}, [10**4_000 + n for n in range(1_000)]),
}


@pytest.mark.slow
@every("name", HOSTILE)
def test_data_that_asks_for_too_much_is_a_fault_in_time(name: str) -> None:
    """Comparing, counting and reckoning end within the budget, with one verdict."""
    plain, value = HOSTILE[name]
    document = JsonSchema.of(plain)

    (fault,) = document.validate(value)
    assert str(fault).startswith(UNDECIDED)


def test_what_is_right_is_passed_over_when_faults_are_told() -> None:
    """The one wrong item behind ten thousand right ones is found, though faults have a small share of the budget."""
    document = JsonSchema.of({"items": {"properties": {"a": {"type": "integer"}}}})

    faults = document.validate([*({"a": n} for n in range(10_000)), {"a": "x"}])
    assert [str(fault) for fault in faults] == ["/10000/a: expected integer, found string 'x'"]


@pytest.mark.slow
def test_faults_are_told_within_the_budget() -> None:
    """Unions inside of unions, none of which fits, take no more steps than telling may."""
    branches = [{"properties": {"op": {"const": n}, "l": {"$ref": "#"}, "r": {"$ref": "#"}}} for n in range(12)]
    plain = {"oneOf": [{"type": "integer"}, *({**one, "required": ["op"], "type": "object"} for one in branches)]}
    value: Any = "wrong"
    for n in range(7):
        value = {"op": n, "l": value, "r": value}

    assert 0 < len(JsonSchema.of(plain).validate(value)) <= MAX_FAULTS


def test_a_search_for_faults_ends_where_its_share_is_used_up() -> None:
    """If no reason is known then, the error is that the data is not what the document says."""
    plain: dict[str, Any] = {
        "type": "array",
        "not": {},
        "allOf": [{"contains": {"type": "null"}, "minContains": 0}] * 9,
    }
    held = {"allOf": [{"items": {"not": {"contains": {"const": 1}}}}] * 40}
    document = JsonSchema.of({**plain, **held, "not": {"maxItems": 0}, "minItems": 2})

    assert [str(fault) for fault in document.validate([[0] * 5_000])] != []


def test_a_pattern_that_explodes_ends_a_decision() -> None:
    """The time of the patterns is one for a decision."""
    with pytest.raises(PatternTimeoutError):
        Engine({"items": {"pattern": "^(a|aa)+$(?<!b)"}}).root.takes(["a" * 60 + "!"] * 3, Work())


def test_documents_are_held_to_their_patterns_and_containers() -> None:
    """Each pattern costs something however short it is; arrays of arrays in an example count as well."""
    many = {"anyOf": [{"pattern": f"a{n}"} for n in range(MAX_PATTERN // 64)]}
    with pytest.raises(SchemaError, match=f"at most {MAX_PATTERN} characters in all patterns"):
        JsonSchema.of(many)
    with pytest.raises(SchemaError, match=f"at most {MAX_CONTAINERS} arrays and objects in one document, found more"):
        JsonSchema.of({"default": {"a": [[] for _ in range(MAX_CONTAINERS)]}})
    assert JsonSchema.of({"description": "[{" * MAX_CONTAINERS}).validate(1) == ()


@every(
    ("value", "step", "held"),
    [(0.3, 0.1, True), (4.5, 1.5, True), (7, 2, False), (10**308, 1e308, False), (int(1e308) * 3, 1e308, True)],
)
def test_fractions_are_reckoned_as_they_are_written(value: float, step: float, held: bool) -> None:
    """A tenth is a tenth; a float that is whole is the integer that it equals."""
    assert is_multiple(value, step) is held
