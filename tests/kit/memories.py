"""Memories of every kind, and turns to keep in them."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

from typing_extensions import override

from fxai.agents import Compaction, Memory
from fxai.effects import fx
from fxai.messages import (
    AssistantMessage,
    Prompt,
    ToolApprovalRequestPart,
    ToolApprovalResponsePart,
    ToolCallPart,
    ToolMessage,
    ToolResultPart,
    UserMessage,
)

__all__ = [
    "KINDS",
    "OwnMemory",
    "answered",
    "approved",
    "asked",
    "begun_with",
    "chat",
    "commit_all",
    "looked_up",
    "memory_of",
    "window_of",
]

KINDS: Final = ("in process", "file", "sqlite")


class OwnMemory(Memory):
    """A memory of the user's own, which knows of no state."""

    def __init__(self) -> None:
        self.kept: list[Prompt] = []

    @override
    def load(self) -> Any:
        return fx.sync(lambda: Prompt(message for turn in self.kept for message in turn))

    @override
    def commit(self, messages: Prompt) -> Any:
        return fx.sync(lambda: self.kept.append(messages))

    @override
    def turns(self) -> Any:
        return fx.sync(lambda: tuple(self.kept))

    @override
    def clear(self) -> Any:
        return fx.sync(self.kept.clear)


def memory_of(kind: str, folder: Path, window: Compaction | None = None, keep: int | None = None) -> Memory:
    """A memory of a kind; those of a file and of a database are the same in the same folder."""
    if kind == "file":
        return Memory.file(folder / "deep" / "memory.jsonl", window, keep=keep)
    if kind == "sqlite":
        return Memory.sqlite(folder / "deep" / "memory.db", window, keep=keep)
    return Memory.in_process(window, keep=keep)


def window_of(compaction: Compaction) -> Any:
    """The window that a compaction consists of."""
    (stage,) = compaction.stages
    return stage


def begun_with(turn: Prompt) -> str:
    """What the user said at the beginning of a turn."""
    first = turn[0]
    return first.text if first.role == "user" else ""


def chat(said: str) -> Prompt:
    """A turn of words alone."""
    return Prompt([UserMessage.make(said), AssistantMessage.make(f"{said}!")])


def looked_up(said: str, id: str = "c1") -> Prompt:
    """A turn with a call and its result."""
    call = AssistantMessage.make(ToolCallPart(id, "look", {"for": said}))
    result = ToolMessage.make(ToolResultPart(id, "look", [1, None, "two"]))
    return Prompt([UserMessage.make(said), call, result, AssistantMessage.make("Found.")])


def asked(said: str, id: str = "c1", approval_id: str = "a1") -> Prompt:
    """A turn that ends with a call that waits to be approved."""
    call = ToolCallPart(id, "wipe", {"disk": said})
    return Prompt([UserMessage.make(said), AssistantMessage.make(call, ToolApprovalRequestPart(approval_id, id))])


def approved(id: str = "c1", approval_id: str = "a1") -> Prompt:
    """What a run says that goes on from `asked`: the answer, the result and the model's words."""
    answer = ToolMessage.make(ToolApprovalResponsePart(approval_id, True))
    result = ToolMessage.make(ToolResultPart(id, "wipe", "ok"))
    return Prompt([answer, result, AssistantMessage.make("Wiped.")])


def answered(id: str = "c1") -> Prompt:
    """What a run says that goes on with a result of somebody else."""
    return Prompt([ToolMessage.make(ToolResultPart(id, "wipe", "ok")), AssistantMessage.make("Done.")])


@fx.gen
def commit_all(memory: Memory, turns: Any) -> Any:
    """Commits one after another."""
    for turn in turns:
        yield from memory.commit(turn)
