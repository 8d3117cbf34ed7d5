"""Memories as the type checkers see them."""

from __future__ import annotations

from typing import Never, assert_type

from fxai.agents import Compaction, Memory, MemoryFailure
from fxai.agents.stateful import PromptState
from fxai.effects import Effect, EffectOf, Gen, LayerOf, fx
from fxai.messages import Prompt

memory = Memory.sqlite("memory.db", Compaction.window(20), conversation="ann", keep=1000)
assert_type(memory, Memory)
assert_type(memory.load(), EffectOf[Prompt, MemoryFailure])
assert_type(memory.turns(), EffectOf[tuple[Prompt, ...], MemoryFailure])
assert_type(memory.load_state(), EffectOf[PromptState | None, MemoryFailure])
assert_type(memory.commit_with(Prompt.make("I am Ann."), None), EffectOf[None, MemoryFailure])
assert_type(memory.layer, LayerOf[Memory, Never, None])


@fx.gen
def greeted(name: str) -> Gen[int, MemoryFailure, Memory]:
    """What is remembered, with a greeting."""
    found = yield from Memory
    yield from found.commit(Prompt.make(f"I am {name}."))
    return len((yield from found.load()))


served: Effect[int, MemoryFailure] = greeted("Ann").provide(Memory.in_process().layer)
both: Compaction = Compaction.window(3, tokens=100)
counted: Compaction = Compaction.window(tokens=100, count=len)
