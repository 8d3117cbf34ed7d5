"""Conversions between messages of a page and prompts. Use `to_prompt` on servers that do not store conversations.

`to_prompt` checks only the form of messages, so that a client can invent messages. A client cannot invent an approval
if its request was signed (`StreamOptions.signatures`), because a run rejects a signature of another key. A server that
stores conversations uses its own history instead (`fxai.ui.accept`).

>>> answer = {"type": "tool-weather", "toolCallId": "c1", "state": "output-available", "input": {}, "output": 21}
>>> page = [UIMessage.make("u1", "user", "How warm?"), UIMessage.make("a1", "assistant", answer)]
>>> prompt = to_prompt(page).unwrap()
>>> [message.role for message in prompt]
['user', 'assistant', 'tool']
>>> [message.to_data()["parts"][-1]["type"] for message in from_prompt(prompt)]
['text', 'tool-weather']

Source of the conversion: `convertToModelMessages` of the package `ai` of the npm registry, version 7.0.173.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import count
from typing import Any, Final, final

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
    """Return the prompt for a model from messages of a page.

    Each step of an agent's message becomes one turn. The function omits arguments that are still streaming, sources,
    files of reasoning, and preliminary outputs. It does not validate the outputs of tools. An answer to a request for
    an approval stays an answer. A run that continues from the prompt runs the call, or creates the result of a denial.

    Args:
        messages: The messages from `ChatRequest.read` or `read_messages`.
        limits: The limits for the data of a client, also for files of agents.
        ignore_incomplete: True to omit calls without a result or an answer to their request.
        system: True to accept system messages. By default, the function refuses them, because their sender controls
            the agent.
        metadata: True to accept metadata of providers, such as signatures of reasoning. By default, the function omits
            it. Metadata enters the request unchanged, so that its sender can write any part of the request.
        convert_data: Function that converts data of an application in messages to content for the model. Default:
            omit the data.

    Fails with:
        Refusal: If a user message is empty or contains a forbidden part, if a file is not allowed, or if a system
            message is not accepted. It contains the location.
    """
    reader = _Reader(limits, ignore_incomplete, system, metadata, convert_data)
    try:
        read = [each for index, one in enumerate(messages) for each in reader.read(one, f"messages[{index}]")]
    except RefusalError as refused:
        return Failure(refused.refusal)
    return Success(Prompt(read))


@final
class _Reader(msgspec.Struct, frozen=True, eq=False):
    """A converter from messages of a page to messages of a prompt."""

    limits: RequestLimits
    ignore_incomplete: bool
    system: bool
    metadata: bool
    convert_data: ConvertData | None

    def read(self, message: UIMessage, location: str) -> Iterator[Message]:
        if message.role == "user":
            yield UserMessage(read_content(message.parts, self.limits, location, self.convert_data))
        elif message.role == "assistant":
            yield from self._steps(message.parts, location)
        elif self.system:
            yield SystemMessage(message.text)
        else:
            raise RefusalError("invalid", f"{location}.role", "a client must not send system messages")

    def _steps(self, parts: Sequence[Part], location: str) -> Iterator[Message]:
        content: list[AssistantContent] = []
        answers: list[ToolContent] = []
        for index, whole in enumerate(parts):
            part = {name: value for name, value in whole.items() if self.metadata or name not in METADATA}
            here = f"{location}.parts[{index}]"
            if part["type"] in ("step-start", "steering-message"):
                yield from _turn(content, answers)
                content, answers = [], []
            if part["type"] == "steering-message":
                yield UserMessage(read_content(part["parts"], self.limits, here))
            elif not is_call(part):
                content += self._content(part, here)
            elif part["state"] != "input-streaming" and not (
                self.ignore_incomplete
                and (part["state"] in ("input-available", "approval-requested") or part.get("preliminary") is True)
            ):
                content += _call(part)
                answers += _answer(part)
                (content if part.get("providerExecuted") else answers).extend(_result(part))
        yield from _turn(content, answers)

    def _content(self, part: Part, location: str) -> list[AssistantContent]:
        metadata = part.get("providerMetadata", {})
        if part["type"] == "text":
            return [TextPart(part["text"], metadata=metadata)] if part["text"] or metadata else []
        if part["type"] == "reasoning":
            return [ReasoningPart(part["text"], metadata=metadata)] if part["text"] or metadata else []
        if part["type"] == "file":
            return [msgspec.structs.replace(read_file(part, self.limits, location), metadata=metadata)]
        if not part["type"].startswith("data-") or self.convert_data is None:
            return []
        answered = self.convert_data(part)
        return [] if answered is None else [answered]


def _turn(content: list[AssistantContent], answers: list[ToolContent]) -> Iterator[Message]:
    if content:
        yield AssistantMessage(tuple(content))
    if answers:
        yield ToolMessage(tuple(answers))


def _call(part: Part) -> list[AssistantContent]:
    """Return the call, and the request for its approval."""
    params = part.get("input", part.get("rawInput"))
    is_text = params is None or isinstance(params, str)  # not valid JSON, but the text of the model
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
    """Return the answer to the request for the call's approval. The outcome of a call also shows its answer."""
    approval = part.get("approval")
    answered = {"output-denied": False, "output-available": True}.get(part["state"])
    approved = answered if approval is None or answered is not None else approval.get("approved")
    if approval is None or approved is None:
        return []
    return [ToolApprovalResponsePart(approval["id"], approved, approval.get("reason"))]


def _result(part: Part) -> list[ToolResultPart]:
    """Return the result of the call, if it has one."""
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
    """Return the messages that a page shows for a prompt.

    All turns of an agent up to the next user message become one message, with one step per turn. Each call becomes one
    part that contains its result. Requests for approvals include their signatures. The text of a failed call is the
    text that the model reads.

    Args:
        prompt: The conversation.
        new_id: Function that returns the id of a message. Default: m1, m2, and so on.
        version: The version of the AI SDK of the page. In version 5, a denied call is a failed call.
    """
    ids = (f"m{number}" for number in count(1))
    writer = _Writer(new_id or (lambda: next(ids)), StreamOptions(version, signatures=True))
    for message in prompt:
        writer.write(message)
    return writer.end()


@final
class _Writer:
    """A converter from messages of a prompt to messages of a page. It uses the chunks of an equivalent run."""

    def __init__(self, new_id: Callable[[], str], options: StreamOptions) -> None:
        self._new_id = new_id
        self._options = options
        self._messages: list[UIMessage] = []
        self._encoder = ChunkEncoder(self._options)
        self._builder: MessageBuilder | None = None  # the builder of the agent's open message
        self._asked: set[str] = set()  # the calls with a request for an approval

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
                self._add_parts(self._builder, Finish("stop"))  # end the previous step
            for part in message.content:
                self._add(self._builder, part)

    def end(self) -> tuple[UIMessage, ...]:
        """End the open message of the agent, and return all messages."""
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
        """Return the part of the response that created a part of the history."""
        members: dict[str, Any] = {name: getattr(part, name) for name in part.__struct_fields__}
        if part.type != "tool-result":
            return _RESPONSE[part.type](**members)
        reason = _denial(part) if part.id in self._asked else None
        result: Any = part.result if reason is None else Denied(part.name, reason)
        return ToolResult(**{**members, "result": result, "encoded_result": part.result})


_RESPONSE: Final[Mapping[str, Callable[..., ResponsePart]]] = {
    "tool-call": ToolCall,
    "tool-approval-request": ApprovalRequest,
    "text": Text,
    "reasoning": Reasoning,
    "file": File,
}


def _build(builder: MessageBuilder, chunks: Iterable[Chunk]) -> None:
    for chunk in chunks:
        with suppress(ChunkError):  # the answer to an unknown call
            builder.add(chunk)


def _denial(result: ToolResultPart) -> str | None:
    """Return the reason of a denied call, or None if the call was not denied."""
    data = result.result
    if not result.is_failure or not is_object(data) or data.get("type") != encode_denial(None)["type"]:
        return None
    return str(data.get("reason", ""))


def _user_part(part: UserContent) -> Part:
    if part.type == "text":
        return {"type": "text", "text": part.text}
    named = {} if part.file_name is None else {"filename": part.file_name}
    return {"type": "file", "mediaType": part.media_type, "url": file_url(part), **named}
