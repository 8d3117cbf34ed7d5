"""A server of Anthropic's Messages API for tests, which binds thinking blocks to their prefix as the API does.

The rules are those of the API's page "Preserved thinking". This code shares nothing with the library: it keeps what it
received when it signed each block, and compares whole contents, not digests.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import httpx2

from fxai.effects import Layer
from fxai.messages import AiError
from fxai.models import LanguageModel
from fxai.providers import anthropic
from tests.kit.data import is_array, is_object

__all__ = ["BETA", "BOUND", "MODEL", "BindingServer", "calls", "states"]

BETA = "thinking-binding-controls-2026-08-01"
BOUND = "The block is bound to a different conversation."
MODEL = "claude-fable-5-1"

Blocks = list[dict[str, Any]]


def states(text: str) -> Blocks:
    """Return the blocks of an answer with thinking and a text."""
    return [_thought(), {"type": "text", "text": text}]


def calls(*names: str, **params: Any) -> Blocks:
    """Return the blocks of an answer with a thinking block before each call."""
    return [block for name in names for block in (_thought(), {"type": "tool_use", "name": name, "input": params})]


def _thought() -> dict[str, Any]:
    return {"type": "thinking", "thinking": ""}


class BindingServer:
    """A server that answers with written turns, signs their thinking, and checks the thinking that comes back."""

    def __init__(self, turns: Iterable[Blocks] | Callable[[int], Blocks], *, model: str = MODEL) -> None:
        self._turns = turns if callable(turns) else iter([*turns])
        self._model = model
        self._signed: dict[str, tuple[Any, str]] = {}  # by signature: the prefix, and the signature before
        self._count = 0
        self.bodies: list[dict[str, Any]] = []
        """The accepted requests."""
        self.refused: list[str] = []
        """The messages of the requests that failed."""
        self.dropped: list[int] = []
        """The number of blocks that each accepted request had dropped."""
        self.sent: list[int] = []
        """The number of thinking blocks of each accepted request."""

    def go_on(self, turns: Callable[[int], Blocks]) -> None:
        """Answer with other turns from now on."""
        self._turns = turns

    @property
    def layer(self) -> Layer[LanguageModel, AiError]:
        """The layer of the model."""
        return self.of(self._model)

    def of(self, model: str) -> Layer[LanguageModel, AiError]:
        """Return the layer of another model of the server."""
        transport = httpx2.MockTransport(self._serve)
        return anthropic.layer(model, api_key="sk", max_tokens=1000, retry=None, transport=transport)

    def _serve(self, request: httpx2.Request) -> httpx2.Response:
        body = json.loads(request.content)
        betas = request.headers.get("anthropic-beta", "").split(",")
        dropped = self.receive(body, betas)
        if dropped is None:
            error = {"type": "invalid_request_error", "message": self.refused[-1]}
            return httpx2.Response(400, json={"type": "error", "error": error})
        content = self.answer(body, dropped)
        stop = "tool_use" if any(block["type"] == "tool_use" for block in content) else "end_turn"
        usage = {"input_tokens": 1, "output_tokens": 1}
        about = {"id": f"msg_{self._count}", "type": "message", "role": "assistant", "model": body["model"]}
        message = {**about, "content": content, "stop_reason": stop, "usage": usage}
        if body.get("stream"):
            return httpx2.Response(200, content=_events(message), headers={"content-type": "text/event-stream"})
        return httpx2.Response(200, json=message)

    def receive(self, body: dict[str, Any], betas: Sequence[str]) -> set[str] | None:
        """Check a request. Return the places of the blocks that are dropped, or None if the request is refused."""
        problem, dropped = self._check(body, betas)
        if problem is not None:
            self.refused.append(problem)
            return None
        self.bodies.append(body)
        self.dropped.append(len(dropped))
        self.sent.append(sum(1 for _, block, _ in _blocks(body) if _is_thinking(block)))
        return dropped

    def _check(self, body: dict[str, Any], betas: Sequence[str]) -> tuple[str | None, set[str]]:
        """Return the error of the request, and the places of the blocks that are dropped."""
        misplaced = _check_changes(body, betas)
        if misplaced is not None:
            return misplaced, set()
        binding = body.get("thinking", {}).get("block_binding")
        if binding is not None and BETA not in betas:
            return "block_binding: Extra inputs are not permitted", set()
        if binding is not None and body["thinking"]["type"] != "adaptive":
            return "thinking.block_binding: only with adaptive thinking", set()
        drops = binding is not None and binding.get("prefix_mismatch_behavior") == "drop_block"
        dropped: set[str] = set()
        before: list[Any] = []
        previous = ""
        for location, block, role in _blocks(body):
            if not _is_thinking(block):
                before.append([role, _plain(block)])
                continue
            known = self._signed.get(block.get("signature", ""))
            if known is None:
                return f"{location}: Invalid `signature` in `thinking` block", set()
            prefix, last = known
            broken = json.dumps([_head(body), before]) != prefix or previous not in ("", last)
            if broken and not drops:
                remedy = 'Remove the block, or set `thinking.block_binding.prefix_mismatch_behavior` to "drop_block".'
                return f"{location}: Invalid `signature` in `thinking` block. {BOUND} {remedy}", set()
            if broken:
                dropped.add(location)
            else:
                previous = block["signature"]
        return None, dropped

    def answer(self, body: dict[str, Any], dropped: set[str]) -> Blocks:
        """Return the next answer, with ids and signatures."""
        turn = self._turns(self._count) if callable(self._turns) else next(self._turns)
        self._count += 1
        kept = [
            (location, block) for location, block, _ in _blocks(body) if _is_thinking(block) and location not in dropped
        ]
        previous = kept[-1][1]["signature"] if kept else ""
        before = [[role, _plain(block)] for _, block, role in _blocks(body) if not _is_thinking(block)]
        content: Blocks = []
        for at, given in enumerate(turn):
            block = dict(given)
            if _is_thinking(block):
                block["signature"] = f"sig_{self._count}_{at}"
                self._signed[block["signature"]] = (json.dumps([_head(body), before]), previous)
                previous = block["signature"]
            elif block["type"] == "tool_use":
                block["id"] = f"toolu_{self._count}_{at}"
            if not _is_thinking(block):
                before.append(["assistant", _plain(block)])
            content.append(block)
        return content


def _check_changes(body: dict[str, Any], betas: Sequence[str]) -> str | None:
    """Return the error of system messages between others: their place, and the tools that they add and remove."""
    roles = [message["role"] for message in body["messages"]]
    declared = {tool["name"] for tool in body.get("tools", [])}
    offered = set(declared)
    for at, message in enumerate(body["messages"]):
        if message["role"] != "system":
            continue
        if at == 0 or roles[at - 1] != "user" or roles[at + 1 : at + 2] not in ([], ["assistant"]):
            return f"messages.{at}: role 'system' must follow a user turn and precede an assistant turn or be last"
        for block in message["content"]:
            if block["type"] == "text":
                continue
            tool, adds = block["tool"], block["type"] == "tool_addition"
            by_value = tool["type"] == "tool_definition"
            name = tool["definition"]["name"] if by_value else tool["name"]
            needed = "inline-tools-2026-09-15" if by_value else "mid-conversation-tool-changes-2026-07-01"
            if needed not in betas and "inline-tools-2026-09-15" not in betas:
                return f"messages.{at}: {block['type']} needs the beta {needed}"
            if by_value == (name in declared) or (not by_value and (name in offered) == adds):
                return f"messages.{at}: {block['type']} of {name!r}, which is {'not ' * (name not in offered)}offered"
            declared.add(name)
            offered = offered | {name} if adds else offered - {name}
    return None


def _is_thinking(block: dict[str, Any]) -> bool:
    return block["type"] in ("thinking", "redacted_thinking")


def _blocks(body: dict[str, Any]) -> list[tuple[str, Any, str]]:
    """Return the blocks of all messages, with their places and roles."""
    found: list[tuple[str, Any, str]] = []
    for at, message in enumerate(body["messages"]):
        content = message["content"]
        blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
        found += [
            (f"messages.{at}.content.{location}", block, message["role"]) for location, block in enumerate(blocks)
        ]
    return found


def _head(body: dict[str, Any]) -> Any:
    tools = sorted((_plain(tool) for tool in body.get("tools", [])), key=lambda tool: str(tool.get("name")))
    return [_plain(body.get("system", [])), tools]


def _plain(value: Any) -> Any:
    """Return the value without marks for the cache, in one order of keys."""
    if is_array(value):
        return [_plain(one) for one in value]
    if is_object(value):
        return {key: _plain(value[key]) for key in sorted(value) if key != "cache_control"}
    return value


def _events(message: dict[str, Any]) -> bytes:
    start: dict[str, Any] = {**message, "content": [], "stop_reason": None}
    events: list[dict[str, Any]] = [{"type": "message_start", "message": start}]
    for index, block in enumerate(message["content"]):
        empty: dict[str, Any] = {**block}
        deltas: list[dict[str, Any]] = []
        if block["type"] == "thinking":
            empty = {"type": "thinking", "thinking": "", "signature": ""}
            deltas = [{"type": "signature_delta", "signature": block["signature"]}]
        elif block["type"] == "text":
            empty, deltas = {"type": "text", "text": ""}, [{"type": "text_delta", "text": block["text"]}]
        elif block["type"] == "tool_use":
            empty = {**block, "input": {}}
            deltas = [{"type": "input_json_delta", "partial_json": json.dumps(block["input"])}]
        events.append({"type": "content_block_start", "index": index, "content_block": empty})
        events += [{"type": "content_block_delta", "index": index, "delta": delta} for delta in deltas]
        events.append({"type": "content_block_stop", "index": index})
    end = {"stop_reason": message["stop_reason"]}
    events += [{"type": "message_delta", "delta": end, "usage": message["usage"]}, {"type": "message_stop"}]
    return b"".join(f"event: {one['type']}\ndata: {json.dumps(one)}\n\n".encode() for one in events)
