"""Plain data that nobody can change: what it refuses, and that it is the same data for everybody else."""

from __future__ import annotations

import copy
import json
import pickle
from collections.abc import Callable
from types import MappingProxyType
from typing import Any

import msgspec
import pytest

from fxai.annotations import Annotation, Meta
from fxai.messages import Prompt
from fxai.models import ModelRequest
from fxai.schema.data import FrozenArray, FrozenObject, copy_data, frozen
from fxai.tools import Tool
from tests.kit.every import every

DATA: dict[str, Any] = {"a": {"b": [3, 1], "c": {"x": None}}, "d": "e"}

CHANGES: list[Callable[[Any], object]] = [
    lambda data: data.__setitem__("x", 1),
    lambda data: data.__delitem__("d"),
    lambda data: data.__ior__({"x": 1}),
    lambda data: data.clear(),
    lambda data: data.pop("d"),
    lambda data: data.popitem(),
    lambda data: data.setdefault("x", 1),
    lambda data: data.update(x=1),
    lambda data: data["a"].clear(),
    lambda data: data["a"]["b"].__setitem__(0, 2),
    lambda data: data["a"]["b"].__delitem__(0),
    lambda data: data["a"]["b"].__iadd__([1]),
    lambda data: data["a"]["b"].__imul__(2),
    lambda data: data["a"]["b"].append(1),
    lambda data: data["a"]["b"].extend([1]),
    lambda data: data["a"]["b"].insert(0, 1),
    lambda data: data["a"]["b"].remove(1),
    lambda data: data["a"]["b"].reverse(),
    lambda data: data["a"]["b"].sort(),
    lambda data: data["a"]["c"].clear(),
]


@every("change", CHANGES)
def test_frozen_data_refuses_to_be_changed(change: Callable[[Any], object]) -> None:
    """At each depth, in each way; what was given can be changed, and does not show."""
    given = copy_data(DATA)
    held = frozen(given)
    change(given)
    with pytest.raises(TypeError, match="cannot change immutable data"):
        change(held)

    assert held == DATA != given


def test_every_way_to_change_is_refused() -> None:
    """No method that a dict or a list has and its read-only kin has not is left."""
    proxy: Any = MappingProxyType(DATA)
    kinds: list[tuple[type[Any], type[Any], Any]] = [(dict, FrozenObject, proxy), (list, FrozenArray, ())]
    left = {
        name
        for plain, kind, reading in kinds
        for name in {*dir(plain)} - {*dir(reading)} - {*dir(object)}
        if getattr(kind, name) is getattr(plain, name)
    }

    assert left <= {"copy", "fromkeys", "__reversed__"}  # which change nothing


def test_frozen_data_is_the_same_data() -> None:
    """For equality, JSON, the decoder, pickles and copies; what is frozen already is itself."""
    held = frozen(DATA)

    assert held == DATA == copy_data(held)
    assert json.loads(json.dumps(held)) == DATA == msgspec.json.decode(msgspec.json.encode(held))
    assert msgspec.convert(held, dict[str, Any]) == DATA
    for same in (pickle.loads(pickle.dumps(held)), copy.deepcopy(held), copy.copy(held)):
        assert (same, type(same), type(same["a"]["b"])) == (held, type(held), type(held["a"]["b"]))
    assert frozen(held) is held
    assert frozen(MappingProxyType({"a": [1]})) == {"a": [1]}
    assert type(copy_data(held)["a"]["b"]) is list


def test_what_values_are_given_is_frozen_all_the_way_down() -> None:
    """Options of tools and of requests, annotations, defaults of keys, examples."""
    own = Annotation("own", {"a": [1]})
    anything = {"type": "object"}
    options: dict[str, Any] = {"provider_options": {"acme": DATA}, "annotations": {Meta: DATA}}
    tool = Tool.dynamic("t", parameters=anything, input_examples=[DATA], **options)
    request = ModelRequest(Prompt.make("Hello"), provider_options={"acme": DATA})
    held: list[Any] = [
        tool.provider_options["acme"],
        tool.input_examples[0].parameters,
        tool.get(Meta),
        own.default,
        request.provider_options["acme"],
    ]

    for data in held:
        with pytest.raises(TypeError):
            data["a"].clear()
    assert pickle.loads(pickle.dumps(tool)).provider_options == {"acme": DATA}
    assert pickle.loads(pickle.dumps(request)).provider_options == {"acme": DATA}
