"""Names on the wire, and back."""

from __future__ import annotations

import pickle
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fxai.tools import NameConflictError, NameMap, NameRule, Tool
from tests.kit.every import every

OPENAI, ANTHROPIC = NameRule(64), NameRule(128)


@every(
    ("name", "wire"),
    [
        ("add", "add"),
        ("Calculator.add", "Calculator__add"),
        ("files: read / write", "files__read__write"),
        ("a-b_c9", "a-b_c9"),
    ],
)
def test_other_signs_become_two_underscores(name: str, wire: str) -> None:
    """Letters, digits, `_` and `-` stay; each run of anything else is `__`."""
    assert OPENAI.of(name) == wire


@every("rule", [OPENAI, ANTHROPIC])
@given(st.lists(st.text(st.characters(exclude_categories=["Cs", "Cc"]), min_size=1), unique=True, max_size=8))
def test_names_in_other_scripts_are_distinct(rule: NameRule, names: list[str]) -> None:
    """Every name has its own legal name on the wire, unless two names differ only in signs of ASCII."""
    foreign = [name for name in names if not name.isascii()]
    sent = [rule.of(name) for name in ("查询天气", "获取时间", "größe", "grüße", "погода", *foreign)]

    assert len(set(sent)) == len({"查询天气", "获取时间", "größe", "grüße", "погода", *foreign})
    assert all(re.fullmatch(rf"[a-zA-Z0-9_-]{{1,{rule.length}}}", wire) for wire in sent)
    assert NameMap.of(map(Tool.make, ("查询天气", "获取时间")), rule).meant(sent[1]) == "获取时间"


@pytest.mark.parametrize(("rule", "length"), [(OPENAI, 64), (ANTHROPIC, 128)])
def test_long_names_end_in_a_digest(rule: NameRule, length: int) -> None:
    """What is too long is cut to the length that is allowed, and stays apart from its like."""
    names = ["x" * (length - 1), "x" * length, "x" * (length + 1), "x" * 300, "x" * 300 + "y"]
    sent = [rule.of(name) for name in names]

    assert sent[:2] == names[:2]
    assert {len(wire) for wire in sent[1:]} == {length}
    assert len(set(sent)) == len(sent)


def test_a_map_leads_both_ways() -> None:
    """From a tool's name to the wire and back; unknown names stand for themselves."""
    names = NameMap.of([Tool.make("Calculator.add"), Tool.make("ping")], OPENAI)

    assert (names.sent("Calculator.add"), names.meant("Calculator__add")) == ("Calculator__add", "Calculator.add")
    assert (names.sent("ping"), names.meant("ping")) == ("ping", "ping")
    assert (names.sent("no.such"), names.meant("no_such")) == ("no.such", "no_such")
    assert dict(names.names) == {"Calculator__add": "Calculator.add", "ping": "ping"}


def test_a_collision_names_both_tools() -> None:
    """Two tools that would have one name on the wire are refused, with the way out."""
    with pytest.raises(NameConflictError) as raised:
        NameMap.of([Tool.make("a.b"), Tool.make("a/b")], OPENAI)

    assert "'a.b'" in str(raised.value)
    assert "'a/b'" in str(raised.value)
    assert "Rename one" in str(raised.value)


def test_a_tool_collides_with_a_providers_name() -> None:
    """A tool of ours cannot be called what a provider's tool is called on the wire."""
    search: Any = Tool.provider_defined(id="acme.search", name="Search", provider_name="web_search")()

    assert NameMap.of([search], OPENAI).sent("Search") == "web_search"
    with pytest.raises(NameConflictError, match="'Search' and 'web_search'"):
        NameMap.of([search, Tool.make("web_search")], OPENAI)


def test_a_providers_tool_may_be_called_by_its_own_name() -> None:
    """Where the provider has no name for it, the rule gives one; several such tools stand side by side."""
    make: Any = Tool.provider_defined(id="acme.text", name="sql.query", provider_name=None)
    names = NameMap.of([make(), make().rename("other")], OPENAI)

    assert (names.sent("sql.query"), names.meant("sql__query"), names.sent("other")) == (
        "sql__query",
        "sql.query",
        "other",
    )


def test_a_map_is_a_value() -> None:
    """Maps of the same names are equal, and survive pickling."""
    one, other = NameMap({"a.b": "a__b"}), NameMap({"a": "a"})

    assert one == NameMap({"a.b": "a__b"})
    assert hash(one) == hash(NameMap({"a.b": "a__b"}))
    assert one != other
    assert pickle.loads(pickle.dumps(one)) == one
    assert "a__b" in repr(one)


def test_the_names_of_a_map_cannot_be_changed() -> None:
    """What the map gives is a view that refuses changes."""
    names: Any = NameMap.of([Tool.make("a")], OPENAI).names

    with pytest.raises(TypeError):
        names["a"] = "b"
    assert dict(names) == {"a": "a"}
