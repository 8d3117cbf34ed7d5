"""Floor 6. User interfaces: a run as a stream that `useChat` of the AI SDK reads, an ASGI application, and a page."""

from __future__ import annotations

from fxai.ui.chunk import (
    DONE,
    HEADERS,
    Chunk,
    ChunkEncoder,
    DataPart,
    StreamOptions,
    Version,
    encode_stream,
    to_event,
)

__all__ = [
    "DONE",
    "HEADERS",
    "Chunk",
    "ChunkEncoder",
    "DataPart",
    "StreamOptions",
    "Version",
    "encode_stream",
    "to_event",
]
