"""A durable batch: sort twenty tickets, and continue after a crash."""

from pathlib import Path

import msgspec

from fxai import AiError, Gen, LanguageModel, ToolError, fx
from fxai.durable import durable, step
from fxai.models import ObjectPending
from fxai.testing import ScriptedModel, delay, text

TICKETS = [f"Ticket {number}: printer {number} is out of paper." for number in range(1, 21)]
REPORT = Path("triage.txt")


class Triage(msgspec.Struct, frozen=True):
    """The team that receives a ticket."""

    team: str
    urgent: bool


def write_line(ticket: str, triage: Triage) -> None:
    """Add a line to the report."""
    line = f"{ticket.partition(':')[0]}: {triage.team}"
    print(line)
    with REPORT.open("a") as report:
        report.write(line + "\n")


@fx.gen
def sort_ticket(
    ticket: str,
) -> Gen[Triage, AiError | ToolError | ObjectPending, LanguageModel]:
    """Ask the model for the team, and write the answer to the report."""
    prompt = f"Sort this ticket. {ticket}"
    triage = (yield from LanguageModel.generate_object(prompt, Triage)).value
    write = fx.sync(lambda: write_line(ticket, triage))
    yield from step("write", write, type(None), idempotent=True)
    return triage


TURN = [delay(0.2), text('{"team": "office", "urgent": false}')]
model = ScriptedModel.make([TURN for _ in TICKETS]).layer

batch = fx.for_each(TICKETS, sort_ticket, concurrency=2)

if __name__ == "__main__":
    live = durable(model, run="tickets-1", store="triage.db")
    print(f"{len(fx.run(batch.provide(live)))} tickets are sorted.")
