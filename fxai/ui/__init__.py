"""Level 6. Web user interfaces for agents. Use it to stream runs to `useChat`, to store and to serve conversations."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fxai.lazy import import_later
from fxai.ui.chunk import DONE, HEADERS, Chunk, ChunkEncoder, DataPart, StreamOptions, Version, encode_stream, to_event

if TYPE_CHECKING:
    from fxai.ui.access import LOOPBACK, Access, Action, Authorize, Identify, bearer_token
    from fxai.ui.ag_ui import AgUiEncoder, AgUiEvent, AgUiMessage, RunInput, encode_ag_ui, to_ag_ui
    from fxai.ui.app import AppArgs, AppOptions, ChatApp, TurnAnswerer, chat_app, dispatch, mount
    from fxai.ui.conversation import Conversation, ConversationSummary, Turn
    from fxai.ui.conversation_store import Busy, ConversationError, Conversations
    from fxai.ui.message_builder import ChunkError, MessageBuilder
    from fxai.ui.request import Accepted, ChatRequest, Refusal, RequestLimits, accept
    from fxai.ui.signal import SentMessage, Signal, Stop, UserReply
    from fxai.ui.stream_store import StreamStore, StreamStoreError, StreamWriter
    from fxai.ui.turn import Answerer, ChatPage, ChatTurn, OnLeave, Question, TurnPages
    from fxai.ui.ui_message import UIMessage, read_message, read_messages
    from fxai.ui.ui_prompt import from_prompt, to_prompt

__all__ = [
    "DONE",
    "HEADERS",
    "LOOPBACK",
    "Accepted",
    "Access",
    "Action",
    "AgUiEncoder",
    "AgUiEvent",
    "AgUiMessage",
    "Answerer",
    "AppArgs",
    "AppOptions",
    "Authorize",
    "Busy",
    "ChatApp",
    "ChatPage",
    "ChatRequest",
    "ChatTurn",
    "Chunk",
    "ChunkEncoder",
    "ChunkError",
    "Conversation",
    "ConversationError",
    "ConversationSummary",
    "Conversations",
    "DataPart",
    "Identify",
    "MessageBuilder",
    "OnLeave",
    "Question",
    "Refusal",
    "RequestLimits",
    "RunInput",
    "SentMessage",
    "Signal",
    "Stop",
    "StreamOptions",
    "StreamStore",
    "StreamStoreError",
    "StreamWriter",
    "Turn",
    "TurnAnswerer",
    "TurnPages",
    "UIMessage",
    "UserReply",
    "Version",
    "accept",
    "bearer_token",
    "chat_app",
    "dispatch",
    "encode_ag_ui",
    "encode_stream",
    "from_prompt",
    "mount",
    "read_message",
    "read_messages",
    "to_ag_ui",
    "to_event",
    "to_prompt",
]

# These modules require Starlette or are rarely needed, so they are imported at the first use of a name.
_LATER = {
    "access": "Access Action Authorize Identify LOOPBACK bearer_token",
    "ag_ui": "AgUiEncoder AgUiEvent AgUiMessage RunInput encode_ag_ui to_ag_ui",
    "app": "AppArgs AppOptions ChatApp TurnAnswerer chat_app dispatch mount",
    "conversation": "Conversation ConversationSummary Turn",
    "conversation_store": "Busy ConversationError Conversations",
    "message_builder": "ChunkError MessageBuilder",
    "request": "Accepted ChatRequest Refusal RequestLimits accept",
    "signal": "UserReply SentMessage Signal Stop",
    "stream_store": "StreamStore StreamStoreError StreamWriter",
    "turn": "Answerer ChatPage ChatTurn OnLeave Question TurnPages",
    "ui_message": "UIMessage read_message read_messages",
    "ui_prompt": "from_prompt to_prompt",
}

if not TYPE_CHECKING:  # otherwise type checkers would accept any name
    __getattr__ = import_later(__name__, _LATER)
