"""Limits: how much a client takes from a server before it says that this is enough.

>>> McpLimits(tools=20).tools, LIMITS.pages
(20, 200)
"""

from __future__ import annotations

from typing import Final, final

import msgspec

from fxai.schema.budget import MAX_LEVELS

__all__ = ["LIMITS", "McpLimits"]


@final
class McpLimits(msgspec.Struct, frozen=True):
    """How much a server may send. What is more is a failure of the kind `"limit"`, or the tool is refused.

    Attributes:
        tools: how many tools it may list; more are a failure.
        pages: how many pages a listing may have; more are a failure.
        message_bytes: the largest message, in bytes; a larger one ends the connection (stdio) or fails its request.
        schema_bytes: the largest input or output schema of a tool, in bytes of JSON; a larger one refuses the tool.
        schema_depth: the deepest nesting of a schema; deeper ones refuse the tool. What a schema may ask for beyond
            size and depth (references that double, patterns that multiply) is bounded for every document alike, by
            `JsonSchema.of`.
        description: how many characters a description may have; more refuse the tool.
        noise: how many lines that are no JSON-RPC messages a server may write to its standard output; more end the
            connection.
        requests: how many requests of a server may wait for our answers; more end the connection.
        stderr: how many bytes of the end of its standard error are kept.
    """

    tools: int = 2_000
    pages: int = 200
    message_bytes: int = 16 * 1024 * 1024
    schema_bytes: int = 512 * 1024
    schema_depth: int = MAX_LEVELS
    description: int = 64 * 1024
    noise: int = 1_000
    requests: int = 256
    stderr: int = 4 * 1024


LIMITS: Final = McpLimits()
"""The limits that hold where none are given."""
