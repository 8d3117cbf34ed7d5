"""The values of a run that a journal restores: which value of a key the store contains."""

from __future__ import annotations

from itertools import permutations
from typing import Any, Final

import pytest

from fxai.agents.state import Cell, PromptState, RenderError, StateStore
from tests.kit.every import every

RECORDS: Final = [({"a": 1, "b": 1}, 1), ({"a": 2}, 2), ({"b": 3, "c": 3}, 3)]


def _values(store: StateStore) -> dict[str, Any]:
    return dict(store.snapshot().values)


@every("order", list(permutations(RECORDS)))
def test_the_latest_record_of_each_key_counts(order: Any) -> None:
    """Records can be restored in any order. Each key has the value of its record with the highest number."""
    store = StateStore()

    for changes, number in order:
        store.restore(changes, number)

    assert _values(store) == {"a": 2, "b": 3, "c": 3}


@every("names", list(permutations("abc")))
def test_an_old_value_of_one_key_does_not_hide_the_other_keys(names: Any) -> None:
    """A record contains an old value and new values. Only the old value is ignored, wherever it is in the record."""
    store = StateStore()
    store.restore({"a": "new"}, 5)

    store.restore(dict.fromkeys(names, "restored"), 4)

    assert _values(store) == {"a": "new", "b": "restored", "c": "restored"}


def test_the_first_of_two_records_with_the_same_number_counts() -> None:
    """A record that is restored twice changes nothing."""
    store = StateStore()

    store.restore({"a": 1}, 1)
    store.restore({"a": 2}, 1)

    assert _values(store) == {"a": 1}


def test_a_restored_value_replaces_the_value_of_the_state() -> None:
    """The state that a run starts with is older than each record."""
    store = StateStore(PromptState({"a": Cell(0), "b": Cell(0)}))

    store.restore({"a": 1}, 1)

    assert _values(store) == {"a": 1, "b": 0}


def test_a_restored_value_has_the_type_of_its_key() -> None:
    """The value of a declared key is read as its type. A value of another type is an error and changes nothing."""
    store = StateStore()
    store.declare("a", (0,), tuple[int, ...], {})

    store.restore({"a": [1, 2]}, 1)
    with pytest.raises(RenderError, match="'a'"):
        store.restore({"a": "words"}, 2)

    assert _values(store) == {"a": (1, 2)}


def test_a_restored_value_is_read_as_the_type_that_is_declared_later() -> None:
    """A record can arrive before the render that declares its key."""
    store = StateStore()

    store.restore({"a": [1, 2]}, 1)

    store.declare("a", (), tuple[int, ...], {})

    assert _values(store) == {"a": (1, 2)}


def test_only_changed_keys_are_recorded() -> None:
    """The changes since a moment contain a key that a call set, even to an equal value, and no other key."""
    store = StateStore()
    for key in ("a", "b", "c"):
        store.declare(key, 0, int, {})
    before = store.start_changes()

    store.change("a", lambda value: (None, value + 1))
    store.change("b", lambda value: (None, value))

    assert store.changes_since(before) == {"a": 1, "b": 0}
