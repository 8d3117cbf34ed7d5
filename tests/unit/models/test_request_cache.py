"""Request caches: what is kept of earlier requests, within bounds."""

from __future__ import annotations

from math import inf
from typing import Any

import pytest

from fxai.messages import Prompt, UserMessage
from fxai.models.request_cache import HistoryText, RequestCache
from fxai.tools import Tool

ADD, SAME = Tool.make("add"), Tool.make("add")


def _said(*texts: str) -> Prompt:
    return Prompt(map(UserMessage.make, texts))


def test_tools_are_prepared_once_for_the_same_tools_and_options() -> None:
    """Another tool that is equal is another one; so are other options; what was raised is not kept."""
    cache = RequestCache[object, object]()
    first = cache.tools((ADD,), ("auto",), object)

    def broken() -> object:
        raise ValueError("no")

    assert cache.tools((ADD,), ("auto",), object) is first
    assert cache.tools((SAME,), ("auto",), object) is not first
    assert cache.tools((ADD,), ("none",), object) is not first
    for _ in range(2):
        with pytest.raises(ValueError, match="no"):
            cache.tools((), (), broken)


def test_the_tools_that_were_used_longest_ago_go_first() -> None:
    """Those that are used again stay."""
    cache = RequestCache[object, object](most_tools=2)
    first = cache.tools((ADD,), (), object)
    second = cache.tools((SAME,), (), object)
    cache.tools((ADD,), (), object)
    cache.tools((), (), object)

    assert cache.tools((ADD,), (), object) is first
    assert cache.tools((SAME,), (), object) is not second


def test_the_longest_history_that_messages_begin_with_is_taken_once() -> None:
    """The same messages, with the same tools; whoever comes second begins anew."""
    cache, tools = RequestCache[Any, str](), object()
    short = _said("one")
    long = short.append(UserMessage.make("two"))
    messages = long.append(UserMessage.make("three"))
    cache.keep(short, tools, "short", 5)
    cache.keep(long, tools, "long", 7)

    assert cache.take(_said("one", "two", "three"), tools) is None
    assert cache.take(messages, object()) is None
    assert cache.take(messages, tools) == ("long", 2, 7)
    assert cache.take(messages, tools) == ("short", 1, 5)
    assert cache.take(messages, tools) is None


def test_histories_are_kept_within_bounds() -> None:
    """By their number and by their size in all; the oldest go first, and one that is too large is not kept."""
    cache, tools = RequestCache[Any, int](most_histories=2, most_bytes=10), object()
    said = [_said(str(number)) for number in range(5)]
    for number in range(3):
        cache.keep(said[number], tools, number, 2)

    assert [cache.take(one, tools) for one in said[:3]] == [None, (1, 1, 2), (2, 1, 2)]

    cache.keep(said[3], tools, 3, 6)
    cache.keep(said[4], tools, 4, 5)
    cache.keep(said[0], tools, 0, 11)
    cache.keep(said[1], tools, 1, inf)

    assert [cache.take(one, tools) for one in said] == [None, None, None, None, (4, 1, 5)]


def test_a_history_that_is_kept_twice_counts_once() -> None:
    """The later one takes the place of the earlier one."""
    cache, tools, said = RequestCache[Any, str](most_bytes=10), object(), _said("one")
    cache.keep(said, tools, "first", 6)
    cache.keep(said, tools, "second", 6)

    assert cache.take(said, tools) == ("second", 1, 6)


def test_a_text_counts_the_noted_strings_of_each_item_once() -> None:
    """The copy of a later request counts the strings of all items in its pieces."""
    text, items = HistoryText((b'"mark"',)), [{"mark": 1}, {"mark": 2}, {"other": "a mark"}]
    copies = [text.copy(items, end) for end in (1, 3, 3)]

    assert [copy.notes for copy in copies] == [(1,), (2,), (2,)]


def test_an_item_that_json_cannot_represent_ends_the_text() -> None:
    """The items after it have no text, and no cache stores the history."""
    text = HistoryText()
    copy = text.copy([1, object(), 3], 3)

    assert (copy.pieces, copy.rest[1:], text.size) == ((b"1",), [3], inf)
