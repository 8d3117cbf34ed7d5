"""Extract typed records from 500 documents, with limits, retries, progress, and a journal that survives `kill -9`.

Run `python examples/85_extract_documents.py [DIRECTORY [CONCURRENCY]]`. If you stop the program and start it again with
the same directory, it continues. This file contains the model, which writes a line to `paid.txt` for each request.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

import msgspec
from typing_extensions import override

from fxai import AiError, Effect, Gen, LanguageModel, Layer, Schedule, Service, ToolError, Usage, fx
from fxai.durable import durable, step
from fxai.effects import Ref
from fxai.messages import Finish, Part, RateLimitError, StructuredOutputError, Text
from fxai.models import Limit, ModelRequest, ObjectPending, limit

# -- the records


class Invoice(msgspec.Struct, frozen=True, tag="invoice"):
    """An invoice."""

    number: int
    customer: str
    cents: int


class Skipped(msgspec.Struct, frozen=True, tag="skipped"):
    """The reason why a document has no record."""

    why: str


Failed = AiError | ToolError | ObjectPending


class Documents(Service):
    """The documents of a batch."""

    def __init__(self, documents: Sequence[str]) -> None:
        self.documents = documents


# -- the batch


def is_invalid(failure: Failed) -> bool:
    """Return True if the model answered, but not with a valid record."""
    return isinstance(failure, AiError) and isinstance(failure.reason, StructuredOutputError)


patiently = (Schedule.exponential(0.02).jittered().capped(1) & Schedule.recurs(5)).until_input(is_invalid)


def extract(document: str) -> Effect[Invoice | Skipped, Failed, LanguageModel]:
    """Return the record of a document. If the model writes no valid record, skip the document."""
    asked = LanguageModel.generate_object(f"Extract the invoice.\n\n{document}", Invoice).retry(patiently)
    return asked.map(lambda answer: answer.value).catch_all(skip_invalid)


def skip_invalid(failure: Failed) -> Effect[Skipped, Failed]:
    """Skip an answer without a valid record. Every other failure, such as a wrong key, stops the batch."""
    return fx.succeed(Skipped(str(failure))) if is_invalid(failure) else fx.fail(failure)


@fx.gen
def extract_all(concurrency: int) -> Gen[list[Invoice | Skipped], Failed, Documents | LanguageModel]:
    """Extract all documents. The journal has each record, so a run that continues does not pay for it again."""
    documents = (yield from Documents).documents
    finished = Ref.of(0)

    def extract_one(number: int) -> Effect[Invoice | Skipped, Failed, LanguageModel]:
        record = step(f"document {number}", extract(documents[number]), Invoice | Skipped, idempotent=True)
        return record.tap(lambda _: finished.update_and_get(lambda n: n + 1).map(show_progress))

    def show_progress(number: int) -> None:
        if number % 100 == 0:
            print(f"{number} of {len(documents)}", flush=True)

    return (yield from fx.for_each(range(len(documents)), extract_one, concurrency=concurrency))


# -- the world: documents, and a model in this process


class Reader(LanguageModel):
    """A model that reads an invoice, rejects every tenth first request, and records each request that costs money."""

    def __init__(self, paid: Path) -> None:
        self.paid = paid
        self.rejected: set[int] = set()

    @override
    def ask(self, request: ModelRequest) -> Effect[tuple[Part, ...], AiError]:
        return fx.sleep(0.002).and_then(fx.suspend(lambda: self.read(str(request.prompt.messages[-1].content))))

    def read(self, document: str) -> Effect[tuple[Part, ...], AiError]:
        """Return the turn for a document."""
        number, cents = (int(found) for found in re.findall(r"\d+", document))
        if number % 10 == 0 and number not in self.rejected:
            self.rejected.add(number)
            return fx.fail(AiError("Reader", "ask", RateLimitError(retry_after=0.01)))
        with self.paid.open("a") as paid:
            paid.write(f"{number}\n")
        record = {"number": number, "customer": f"Customer {number % 7}", "cents": cents if number != 13 else "many"}
        return fx.succeed((Text(json.dumps({"type": "invoice", **record})), Finish("stop", Usage(40, 20))))


def world(directory: Path) -> Layer[Documents | LanguageModel]:
    """Return the layer of 500 documents and of a model with a limit."""
    documents = [f"Invoice {number}: please pay {number * 100} cents." for number in range(500)]
    model = Layer.succeed(LanguageModel, Reader(directory / "paid.txt"))
    careful = limit(model, Limit.per_minute("key of the team", requests=100_000))
    return Layer.succeed(Documents, Documents(documents)) | careful


def main(directory: Path, concurrency: int) -> None:
    """Extract the documents, or continue to extract them."""
    live = durable(world(directory), run="invoices-2026-11", store=directory / "runs.db")
    records = fx.run(extract_all(concurrency).provide(live))
    invoices = [record for record in records if isinstance(record, Invoice)]
    skipped = [number for number, record in enumerate(records) if isinstance(record, Skipped)]
    (directory / "invoices.json").write_bytes(msgspec.json.encode(records))
    print(f"{len(invoices)} invoices of {sum(one.cents for one in invoices)} cents, skipped: {skipped}")


if __name__ == "__main__":
    with TemporaryDirectory() as temporary:
        main(Path(sys.argv[1] if sys.argv[1:] else temporary), int(sys.argv[2]) if sys.argv[2:] else 4)
