"""Structured output: an invoice as a pydantic model."""

from pydantic import BaseModel, Field

from fxai import Agent, LanguageModel, fx
from fxai.testing import ScriptedModel, text


class Item(BaseModel):
    """A line of an invoice."""

    name: str
    cents: int = Field(gt=0, description="The price in cents.")


class Invoice(BaseModel):
    """An invoice with its number and its lines."""

    number: str
    items: list[Item]


LETTER = "Invoice R-17. Green tea: 2.50 euros. Bread: 4 euros."

TEA = '{"name": "tea", "cents": 250}'
BREAD = '{"name": "bread", "cents": 400}'
model = ScriptedModel.make(
    [
        text(f'{{"number": "R-17", "items": [{TEA}, {BREAD}]}}'),
        text('{"number": "R-17", "items": [{"name": "tea", "cents": "2.50"}]}'),
        text(f'{{"number": "R-17", "items": [{TEA}, {BREAD}]}}'),
    ]
).layer

# One request:
read_once = LanguageModel.generate_object(f"Read this letter: {LETTER}", Invoice)

# As many requests as the agent needs for a valid answer:
reader = Agent.make("reader", instructions="Read the letter.", output=Invoice)

if __name__ == "__main__":
    invoice = fx.run(read_once.provide(model)).value
    total = sum(item.cents for item in invoice.items)
    print(f"{invoice.number}: {total} cents")

    answer = fx.run(reader.execute(LETTER).provide(model))
    print(f"{answer.output.items[1].name}, after {len(answer.steps)} requests")
