"""Annotations: what is known of a tool, by typed keys."""

from __future__ import annotations

import pickle
from typing import Any

import pytest

from fxai.annotations import (
    AllowedCallers,
    Annotation,
    Annotations,
    CacheControl,
    DeferLoading,
    Destructive,
    EagerInputStreaming,
    Idempotent,
    Meta,
    Namespace,
    OpenWorld,
    OutputSchema,
    Readonly,
    Strict,
    Title,
    ToolNamespace,
)
from fxai.schema import JsonSchema
from fxai.tools import Tool


def test_the_defaults_are_those_of_mcp() -> None:
    """Not read-only, destructive, not idempotent, open; no title; strict is undecided; nothing else."""
    tool = Tool.make("t")

    assert tool.get(Title) is None
    assert tool.get(Readonly) is False
    assert tool.get(Destructive) is True
    assert tool.get(Idempotent) is False
    assert tool.get(OpenWorld) is True
    assert tool.get(Strict) is None
    assert not tool.get(Meta)


def test_annotating_gives_another_tool() -> None:
    """The original stays as it was; of the same key the later value holds."""
    tool = Tool.make("t")
    titled = tool.annotate(Title, "A").annotate(Title, "B")

    assert tool.get(Title) is None
    assert titled.get(Title) == "B"


def test_annotate_all_lets_the_later_keys_win() -> None:
    """Keys that the tool has are replaced, others stay."""
    tool = Tool.make("t").annotate(Title, "A").annotate(Readonly, True)
    merged = tool.annotate_all({Title: "B", Strict: False})

    assert (merged.get(Title), merged.get(Readonly), merged.get(Strict)) == ("B", True, False)
    assert merged == tool.annotate_all(Annotations({Title: "B", Strict: False}))


def test_order_does_not_count() -> None:
    """Two maps of the same values are equal, however they came to be."""
    one = Annotations().set(Title, "A").set(Readonly, True)
    other = Annotations().set(Readonly, True).set(Title, "A")

    assert one == other
    assert hash(one) == hash(other)
    assert one != Annotations().set(Title, "A")


def test_a_key_of_ones_own_has_its_default() -> None:
    """Users make keys; two keys of one name are one."""
    team = Annotation("team", default="nobody")
    tool = Tool.make("t")

    assert tool.get(team) == "nobody"
    assert tool.annotate(team, "us").get(Annotation("team", default="else")) == "us"
    assert team.default == "nobody"
    assert "team" in repr(team)


def test_annotations_are_a_map() -> None:
    """It is asked for its keys, its length and its members, and has no way to set one."""
    annotations: Any = Annotations({Title: "A", Strict: None})

    assert (Title in annotations, Readonly in annotations, len(annotations)) == (True, False, 2)
    assert list(annotations) == [Title, Strict]
    with pytest.raises(TypeError):
        annotations[Title] = "B"
    with pytest.raises(AttributeError):
        annotations.other = 1


def test_a_map_as_a_value_cannot_be_changed() -> None:
    """What is set is kept as it was; what is got cannot be set."""
    tool: Any = Tool.make("t").annotate(Meta, {"a": 1})

    with pytest.raises(TypeError):
        tool.get(Meta)["a"] = 2
    assert dict(tool.get(Meta)) == {"a": 1}


def test_annotations_can_be_pickled() -> None:
    """A map goes through a pickle, maps inside it too."""
    annotations = Annotations().set(Meta, {"a": {"b": 1}}).set(Strict, True)

    assert pickle.loads(pickle.dumps(annotations)) == annotations
    assert pickle.loads(pickle.dumps(Title)) == Title


def test_what_providers_do_with_a_tool_has_keys() -> None:
    """None of them says anything by default; their values are immutable and survive pickling."""
    keys: list[Annotation[Any]] = [DeferLoading, AllowedCallers, OutputSchema]
    keys += [CacheControl, EagerInputStreaming, Namespace]
    tool = Tool.make("t")
    group = ToolNamespace("crm", "Customers.")
    said = tool.annotate(Namespace, group).annotate(OutputSchema, JsonSchema.of({"type": "string"}))

    assert [tool.get(key) for key in keys] == [False, (), None, None, None, None]
    assert (said.get(Namespace), said.get(OutputSchema)) == (group, JsonSchema.of({"type": "string"}))
    assert pickle.loads(pickle.dumps(said.annotations)) == said.annotations
