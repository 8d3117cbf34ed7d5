"""Memories that are used as something else, or are not whole."""

from __future__ import annotations

from fxai.agents import Compaction, Memory, MemoryFailure
from fxai.effects import Effect, fx
from fxai.messages import Prompt


class Half(Memory):
    def load(self) -> Effect[Prompt, MemoryFailure]:
        return fx.succeed(Prompt.empty)


def spelled(_: Prompt) -> str:
    return "many"


Half()  # wrong: it cannot commit
Memory.in_process().commit("I am Ann.")  # wrong: no prompt
Memory.file("memory.jsonl", 20)  # wrong: a number is not a window
Compaction.window(tokens=100, count=spelled)  # wrong: it does not count
fx.run(fx.service(Memory))  # wrong: no memory
surely: Effect[Prompt] = Memory.in_process().load()  # wrong: it can fail
