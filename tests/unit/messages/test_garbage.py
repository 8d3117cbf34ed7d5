"""What the garbage collector sees of parts and messages."""

from __future__ import annotations

import gc

from fxai.messages import Finish, Text, ToolCall, ToolResult, UserMessage


def test_plain_data_is_not_looked_at_and_objects_are() -> None:
    """Parts and messages that hold plain data are left out; a result, which may hold any object, is not."""
    plain = [Text("a"), ToolCall("c", "add", {"a": [1]}), Finish("stop"), UserMessage.make("Hello")]

    assert not any(map(gc.is_tracked, plain))
    assert gc.is_tracked(ToolResult("c", "add", [1]))
