"""Messages of a page as prompts, and prompts as messages of a page.

A server that keeps no conversations takes what its client says was said: `to_prompt` checks the form of it and no
more, and a client may have made it up. What it can not make up is an approval, where its request was sent signed
(`StreamOptions.signatures`): a run refuses one whose signature is not of its key. A server that keeps conversations
believes its own history, and has no need of this (`fxai.ui.accept`).

>>> answer = {"type": "tool-weather", "toolCallId": "c1", "state": "output-available", "input": {}, "output": 21}
>>> page = [UIMessage.make("u1", "user", "How warm?"), UIMessage.make("a1", "assistant", answer)]
>>> prompt = to_prompt(page).unwrap()
>>> [message.role for message in prompt]
['user', 'assistant', 'tool']
>>> [message.to_data()["parts"][-1]["type"] for message in from_prompt(prompt)]
['text', 'tool-weather']

Source of what becomes of each part: `convertToModelMessages` of the package `ai` of the npm registry, version 7.0.173.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from itertools import count
from typing import Any, final

import msgspec
from returns.result import Failure, Result, Success

from fxai.messages.message import (
    AssistantContent,
    AssistantMessage,
    Content,
    Message,
    ReasoningPart,
    SystemMessage,
    TextPart,
    ToolApprovalRequestPart,
    ToolApprovalResponsePart,
    ToolCallPart,
    ToolContent,
    ToolMessage,
    ToolResultPart,
    UserContent,
    UserMessage,
)
from fxai.messages.part import ApprovalRequest, File, Finish, Reasoning, StreamPart, Text, ToolCall, ToolResult
from fxai.messages.part import Part as ResponsePart
from fxai.messages.prompt import Prompt
from fxai.messages.response import stream_of
from fxai.models.approved_calls import encode_denial
from fxai.schema.data import is_object
from fxai.tools.tool_error import Denied
from fxai.ui.chunk import Chunk, ChunkEncoder, StreamOptions, Version, file_url
from fxai.ui.message_builder import ChunkError, MessageBuilder
from fxai.ui.request import LIMITS, ConvertData, Refusal, RefusalError, RequestLimits, read_content, read_file
from fxai.ui.ui_message import METADATA, Part, UIMessage, is_call, read_signature, tool_name


def to_prompt(
    messages: Iterable[UIMessage],
    *,
    limits: RequestLimits = LIMITS,
    ignore_incomplete: bool = False,
    system: bool = False,
    metadata: bool = False,
    convert_data: ConvertData | None = None,
) -> Result[Prompt, Refusal]:
    """The conversation that messages of a page are, as a model reads it.

    A message of an agent is one turn for each of its steps. Parameters that are still streaming, sources, and files of
    reasoning are left out, and preliminary outputs are none. The outputs of tools are taken as they stand. An answer to
    a request for an approval is an answer to it: a run that goes on from there runs the call, or makes the result of
    one that was denied.

    Args:
        messages: as `ChatRequest.read` or `read_messages` gives them.
        limits: what a client may send at most; for files of agents, too.
        ignore_incomplete: whether calls are left out that have neither a result nor an answer to their request.
        system: whether messages with instructions are taken. By default they are refused: who sends them leads the
            agent.
        metadata: whether what providers added is taken, such as signatures of reasoning. By default it is not: it goes
            to the provider as it stands, and who makes it up writes the request, also instructions.
        convert_data: says what a model is told of data of an application, in messages of users and of agents; by
            default, nothing.

    Fails with:
        Refusal: A message of the user's says nothing, or something that is no text, file or data; a file may not be
            sent; there is a message with instructions. It says where.
    """
    reader = _Reader(limits, ignore_incomplete, system, metadata, convert_data)
    try:
        read = [each for index, one in enumerate(messages) for each in reader.read(one, f"messages[{index}]")]
    except RefusalError as refused:
        return Failure(refused.refusal)
    return Success(Prompt(read))


@final
class _Reader(msgspec.Struct, frozen=True, eq=False):
    """Makes messages of a prompt of messages of a page."""

    limits: RequestLimits
    ignore_incomplete: bool
    system: bool
    metadata: bool
    convert_data: ConvertData | None

    def read(self, message: UIMessage, place: str) -> Iterator[Message]:
        if message.role == "user":
            yield UserMessage(read_content(message.parts, self.limits, place, self.convert_data))
        elif message.role == "assistant":
            yield from self._steps(message.parts, place)
        elif self.system:
            yield SystemMessage(message.text)
        else:
            raise RefusalError("invalid", f"{place}.role", "a client sends no system messages")

    def _steps(self, parts: Sequence[Part], place: str) -> Iterator[Message]:
        content: list[AssistantContent] = []
        answers: list[ToolContent] = []
        for index, whole in enumerate(parts):
            part = whole if self.metadata else _without_metadata(whole)
            here = f"{place}.parts[{index}]"
            if part["type"] in ("step-start", "steering-message"):
                yield from _turn(content, answers)
                content, answers = [], []
            if part["type"] == "steering-message":
                yield UserMessage(read_content(part["parts"], self.limits, here))
            elif not is_call(part):
                content += self._content(part, here)
            elif part["state"] != "input-streaming" and not (self.ignore_incomplete and _is_incomplete(part)):
                content += _call(part)
                answers += _answer(part)
                (content if part.get("providerExecuted") else answers).extend(_result(part))
        yield from _turn(content, answers)

    def _content(self, part: Part, place: str) -> list[AssistantContent]:
        metadata = part.get("providerMetadata", {})
        if part["type"] == "text":
            return [TextPart(part["text"], metadata=metadata)] if part["text"] or metadata else []
        if part["type"] == "reasoning":
            return [ReasoningPart(part["text"], metadata=metadata)] if part["text"] or metadata else []
        if part["type"] == "file":
            return [msgspec.structs.replace(read_file(part, self.limits, place), metadata=metadata)]
        if not part["type"].startswith("data-") or self.convert_data is None:
            return []
        told = self.convert_data(part)
        return [] if told is None else [told]


def _without_metadata(part: Part) -> Part:
    return {name: value for name, value in part.items() if name not in METADATA}


def _turn(content: list[AssistantContent], answers: list[ToolContent]) -> Iterator[Message]:
    if content:
        yield AssistantMessage(tuple(content))
    if answers:
        yield ToolMessage(tuple(answers))


def _is_incomplete(part: Part) -> bool:
    return part["state"] in ("input-available", "approval-requested") or part.get("preliminary") is True


def _call(part: Part) -> list[AssistantContent]:
    """The call, and the request for its approval."""
    params = part.get("input", part.get("rawInput"))
    is_text = params is None or isinstance(params, str)  # no JSON: the text that the model wrote
    call = ToolCallPart(
        part["toolCallId"],
        tool_name(part),
        None if is_text else params,
        part.get("providerExecuted", False),
        part["type"] == "dynamic-tool",
        params or "" if is_text else None,
        metadata=part.get("callProviderMetadata", {}),
    )
    approval = part.get("approval")
    if approval is None:
        return [call]
    return [call, ToolApprovalRequestPart(approval["id"], call.id, *read_signature(approval.get("signature", "")))]


def _answer(part: Part) -> list[ToolContent]:
    """The answer to the request for its approval, which what became of the call tells, too."""
    approval = part.get("approval")
    told = {"output-denied": False, "output-available": True}.get(part["state"])
    approved = told if approval is None or told is not None else approval.get("approved")
    if approval is None or approved is None:
        return []
    return [ToolApprovalResponsePart(approval["id"], approved, approval.get("reason"))]


def _result(part: Part) -> list[ToolResultPart]:
    """The result of the call, if it has one."""
    if part["state"] == "output-available" and not part.get("preliminary"):
        result, failed = part["output"], False
    elif part["state"] == "output-error":
        result, failed = part["errorText"], True
    elif part["state"] == "output-denied":
        result, failed = encode_denial(part.get("approval", {}).get("reason")), True
    else:
        return []
    return [
        ToolResultPart(
            part["toolCallId"],
            tool_name(part),
            result,
            failed,
            part.get("providerExecuted", False),
            part["type"] == "dynamic-tool",
            metadata=part.get("resultProviderMetadata", {}),
        )
    ]


# -- from a prompt


def from_prompt(
    prompt: Prompt, new_id: Callable[[], str] | None = None, *, version: Version = 7
) -> tuple[UIMessage, ...]:
    """The messages that a page shows of a conversation.

    The turns of an agent up to the next message of a user are one message, a step each, and each call is one part with
    what came of it. Requests for approvals carry their signatures. A failed call says what
    the model reads, as one text.

    Args:
        prompt: the conversation.
        new_id: gives the ids of the messages; by default they are m1, m2 and so on.
        version: of the AI SDK that the page has. In version 5 a denied call is one that failed.
    """
    ids = (f"m{number}" for number in count(1))
    writer = _Writer(new_id or (lambda: next(ids)), StreamOptions(version, signatures=True))
    for message in prompt:
        writer.write(message)
    return writer.end()


@final
class _Writer:
    """Makes messages of a page of the messages of a prompt: of the chunks that a run of these would be."""

    def __init__(self, new_id: Callable[[], str], options: StreamOptions) -> None:
        self._new_id = new_id
        self._options = options
        self._messages: list[UIMessage] = []
        self._encoder = ChunkEncoder(self._options)
        self._builder: MessageBuilder | None = None  # of the agent's message that goes on
        self._asked: set[str] = set()  # the calls of which an approval was asked for

    def write(self, message: Message) -> None:
        if message.role == "system":
            self.end()
            self._messages.append(UIMessage.make(self._new_id(), "system", message.content))
        elif message.role == "user":
            self.end()
            self._messages.append(UIMessage(self._new_id(), "user", tuple(map(_user_part, message.content))))
        else:
            if self._builder is None:
                self._builder, self._encoder = MessageBuilder(self._new_id()), ChunkEncoder(self._options)
            elif message.role == "assistant":
                self._add_parts(self._builder, Finish("stop"))  # of the step before
            for part in message.content:
                self._add(self._builder, part)

    def end(self) -> tuple[UIMessage, ...]:
        """The messages, of which the agent's is at its end."""
        if self._builder is not None:
            self._messages.append(self._builder.message)
            self._builder = None
        return tuple(self._messages)

    def _add(self, builder: MessageBuilder, part: Content) -> None:
        if part.type == "tool-approval-response":
            answer = {"approvalId": part.approval_id, "approved": part.approved}
            reason = {} if part.reason is None else {"reason": part.reason}
            _build(builder, [{"type": "tool-approval-response", **answer, **reason}])
        else:
            self._asked |= {part.tool_call_id} if part.type == "tool-approval-request" else set()
            self._add_parts(builder, *stream_of([self._response_part(part)]))

    def _add_parts(self, builder: MessageBuilder, *parts: StreamPart) -> None:
        _build(builder, [chunk for part in parts for chunk in self._encoder.encode(part)])

    def _response_part(self, part: AssistantContent | ToolResultPart) -> ResponsePart:
        """What a part of the history was in the response."""
        members: dict[str, Any] = {name: getattr(part, name) for name in part.__struct_fields__}
        match part.type:
            case "tool-result":
                reason = _denial(part) if part.id in self._asked else None
                result: Any = part.result if reason is None else Denied(part.name, reason)
                return ToolResult(**{**members, "result": result, "encoded_result": part.result})
            case "tool-call":
                return ToolCall(**members)
            case "tool-approval-request":
                return ApprovalRequest(**members)
            case "text":
                return Text(**members)
            case "reasoning":
                return Reasoning(**members)
            case "file":
                return File(**members)


def _build(builder: MessageBuilder, chunks: Iterable[Chunk]) -> None:
    for chunk in chunks:
        with suppress(ChunkError):  # the answer to a call that is not there
            builder.add(chunk)


def _denial(result: ToolResultPart) -> str | None:
    """Why a call was denied; None: it was not."""
    data = result.result
    if not result.is_failure or not is_object(data) or data.get("type") != encode_denial(None)["type"]:
        return None
    return str(data.get("reason", ""))


def _user_part(part: UserContent) -> Part:
    if part.type == "text":
        return {"type": "text", "text": part.text}
    named = {} if part.file_name is None else {"filename": part.file_name}
    return {"type": "file", "mediaType": part.media_type, "url": file_url(part), **named}
