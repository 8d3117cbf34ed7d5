"""Request caches: what is kept of earlier requests, within bounds."""

from __future__ import annotations

from typing import Any

import pytest

from fxai.messages import Message, UserMessage
from fxai.models.request_cache import RequestCache, size_as_json
from fxai.tools import Tool

ADD, SAME = Tool.make("add"), Tool.make("add")


def _said(*texts: str) -> tuple[Message, ...]:
    return tuple(map(UserMessage.make, texts))


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
    messages = _said("one", "two", "three")
    cache.keep(messages[:1], tools, "short", 5)
    cache.keep(messages[:2], tools, "long", 7)

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
    cache.keep(said[1], tools, 1, size_as_json(object()))

    assert [cache.take(one, tools) for one in said] == [None, None, None, None, (4, 1, 5)]


def test_a_history_that_is_kept_twice_counts_once() -> None:
    """The later one takes the place of the earlier one."""
    cache, tools, said = RequestCache[Any, str](most_bytes=10), object(), _said("one")
    cache.keep(said, tools, "first", 6)
    cache.keep(said, tools, "second", 6)

    assert cache.take(said, tools) == ("second", 1, 6)
