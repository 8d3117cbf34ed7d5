"""A long conversation: large results behind handles, compaction by tokens, and the costs of the cache.

Run it with `python examples/99_long_conversation.py`. It needs no network and no key.
"""

from __future__ import annotations

from returns.result import Success

from fxai import Agent, Memory, Tool, fx
from fxai.agents import Compaction, LargeResults
from fxai.models import estimated_tokens
from fxai.storage import ResultStore
from fxai.testing import ScriptedModel, call, text

search = Tool.make("search", description="Search the archive.", parameters=str, success=list[str])
live = search.handler(lambda words: Success([f"{words}, page {number}" for number in range(1_000)]))

store = ResultStore.in_process()
compaction = Compaction.clear_results(keep=2).then(Compaction.window(3)).at_tokens(600, count=estimated_tokens)
memory = Memory.in_process(results=store)
agent = Agent.make(
    "archivist",
    toolkit=search,
    compaction=compaction,
    large_results=LargeResults(store, max_tokens=100),
).with_memory(memory)

questions = ("dragons", "castles", "knights", "swords", "maps", "ships")
model = ScriptedModel.make([turn for one in questions for turn in (call("search", one), text(f"I know {one}."))])

for question in questions:
    answer = fx.run(agent.execute(f"What do you know about {question}?").provide(live).provide(model.layer))
    found = answer.steps[0].results_of(search)[0].unwrap()
    breaks = [step.record.prefix_break for step in answer.steps]
    print(f"{question}: {len(found)} pages for the program, {len(answer.history)} messages, breaks: {breaks}")

sizes = [estimated_tokens(request.prompt) for request in model.requests]
print(f"requests: at most {max(sizes)} tokens")
assert max(sizes) <= 600
assert len(fx.run(memory.load())) == 4 * len(questions)

fx.run(memory.clear())
print("The memory is empty, and the store has removed its results.")
