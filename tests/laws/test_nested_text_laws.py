"""Laws of JSON text in the place of objects and arrays, over schemas and data that nobody chose."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st

from fxai.schema import Fault, JsonSchema
from fxai.schema.fault import found_in, pointer_to, pointer_tokens
from fxai.schema.nested_text import read_texts
from fxai.schema.parsing import holds_nested, is_about_leaves
from fxai.testing.strategies import instances, json_schemas
from tests.kit.data import is_array, is_object
from tests.kit.reaching import Reached
from tests.kit.trials import examples

MANY = [HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.data_too_large]


def texted(value: Any, draw: Any, pointer: str, where: list[str]) -> Any:
    """The data, some of its objects and arrays written as JSON text, and where."""
    inner = value
    if is_object(value):
        inner = {name: texted(item, draw, pointer_to(pointer, name), where) for name, item in value.items()}
    elif is_array(value):
        inner = [texted(item, draw, f"{pointer}/{index}", where) for index, item in enumerate(value)]
    if pointer and isinstance(value, (dict, list)) and draw(st.booleans()):
        where.append(pointer)
        return json.dumps(inner)
    return inner


def as_said(value: Any, locations: tuple[str, ...]) -> Any:
    """The data with the texts at these places, the outermost first, as what they say."""
    for location in sorted(locations, key=lambda one: one.count("/")):
        tokens = pointer_tokens(location)
        if not tokens:
            value = json.loads(value)
            continue
        there = value
        for token in tokens[:-1]:
            there = there[int(token)] if is_array(there) else there[token]
        last: Any = int(tokens[-1]) if is_array(there) else tokens[-1]
        there[last] = json.loads(there[last])
    return value


@pytest.mark.slow
def test_what_is_read_is_what_the_texts_say() -> None:
    """Nothing but marked texts changes, each to what it says; what was meant comes back where nothing is ambiguous."""
    reached = Reached()

    @settings(max_examples=examples(150, least=150), suppress_health_check=MANY)
    @given(json_schemas(objects=True), st.data())
    def hold(document: Any, data: st.DataObject) -> None:
        schema = JsonSchema.of(document)
        meant = data.draw(instances(schema), label="meant")
        where: list[str] = []
        given_ = texted(meant, data.draw, "", where)
        copy = json.loads(json.dumps(given_))
        read, locations = read_texts(schema, given_)

        assert given_ == copy, "what was given is not changed"
        assert json.dumps(read, sort_keys=True) == json.dumps(as_said(copy, locations), sort_keys=True)
        assert (read is given_) or locations
        refused = bool(schema.validate(given_))
        reached("texts", refused and bool(where))
        reached("read", refused and bool(locations))
        reached("as_meant", refused and schema.validate(read) == ())

    reached.by(hold, texts=10, as_meant=5)


@given(st.text('[{ \t\n\r"\\a1:,]}', max_size=6))
def test_no_nested_text_is_overlooked(text: str) -> None:
    """An error about a string that starts like an object or an array is never an error about a scalar."""
    event(f"holds: {holds_nested(text)}")

    assert not (holds_nested(text) and is_about_leaves((Fault("", "array", found_in(text)),)))
