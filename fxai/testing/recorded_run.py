"""Recorded runs as fixtures of tests. Use them to compare a run with a file, and to read the run in a cassette.

>>> import tempfile
>>> from pathlib import Path
>>> from fxai import Prompt
>>> first = Prompt.make([{"role": "user", "content": "Hello"}, {"role": "assistant", "content": "Good day."}])
>>> second = Prompt.make([{"role": "user", "content": "Hello"}, {"role": "assistant", "content": "Good night."}])
>>> with tempfile.TemporaryDirectory() as folder:
...     path = Path(folder, "hello.json")
...     check_run(first, path, "record").answer, check_run(first, path).answer
...     check_run(second, path)
Traceback (most recent call last):
fxai.testing.recorded_run.RunChangedError: run differs from .../hello.json: 1 difference
~ answer
    /answer: "Good day." → "Good night."
If the change is intended, store the run again with mode 'record' (pytest --records=record).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias, final

import msgspec

from fxai.agents.records.run_diff import RunDiff, diff_runs
from fxai.agents.records.run_record import RecordedStep, RunRecord, RunRecordError, RunSource
from fxai.messages.part import ToolResult
from fxai.messages.prompt import Prompt
from fxai.messages.response import Response
from fxai.models.model_request import ModelRequest
from fxai.schema.data import is_array, is_object
from fxai.testing.recording import CassetteError, Exchange, Tape

RecordMode: TypeAlias = Literal["compare", "record", "auto"]
"""The mode of `check_run`. With `"compare"`, the file must exist. With `"record"`, fxai stores a run that differs from
its file. With `"auto"`, fxai stores a run whose file is missing."""


@final
class RunChangedError(AssertionError):
    """An error for a run that differs from its recorded run. Its message shows the difference."""

    def __init__(self, message: str, difference: RunDiff) -> None:
        super().__init__(message)
        self.difference = difference
        """The difference from the recorded run to the new run."""


def check_run(
    source: RunSource | RunRecord,
    path: str | Path,
    mode: RecordMode = "compare",
    *,
    ignore: Iterable[str] = (),
    same_answer: Callable[[str, str], bool] | None = None,
    secrets: Iterable[str] = (),
) -> RunRecord:
    """Compare a run with the recorded run in a file, and return the record of the new run.

    In pytest, the fixture `check_run` chooses the file and the mode.

    Args:
        source: The new run, as for `RunRecord.of`, or its record.
        path: JSON file of the recorded run.
        mode: See `RecordMode`. Default: "compare".
        ignore: JSON pointers of values to ignore, see `diff_runs`.
        same_answer: Function that compares two different answers, see `diff_runs`.
        secrets: Further strings that fxai must not store, see `RunRecord.write`.

    Raises:
        RunChangedError: If the run differs from the recorded run.
        RunRecordError: If the file is missing or invalid, or if the source belongs to no run.
        ValueError: If the mode or a pointer is invalid.
    """
    __tracebackhide__ = True  # the message of an error contains all that a reader needs
    if mode not in ("compare", "record", "auto"):
        raise ValueError(f"mode must be 'compare', 'record', or 'auto', got {mode!r}")
    file, hidden = Path(path), tuple(secrets)
    record = (source if isinstance(source, RunRecord) else RunRecord.of(source)).without_secrets(hidden)
    if not file.exists() and mode != "compare":
        record.write(file)
        return record
    try:
        before = RunRecord.read(file)
    except RunRecordError as error:
        if mode != "record":
            raise RunRecordError(f"{error} Use mode 'record' (pytest --records=record).") from None
        record.write(file)
        return record
    difference = diff_runs(before, record, ignore=ignore, same_answer=same_answer)
    if difference and mode == "record":
        record.write(file)
    elif difference:
        raise RunChangedError(
            f"run differs from {path}: {difference}\n"
            "If the change is intended, store the run again with mode 'record' (pytest --records=record).",
            difference,
        )
    return record


# -- cassettes

_APIS: Final[Mapping[str, Literal["chat", "responses"] | None]] = {
    "/chat/completions": "chat",
    "/responses": "responses",
    "/messages": None,  # Anthropic
}


def record_of_cassette(path: str | Path) -> RunRecord:
    """Return the run in a cassette, with the turns in its answers and the results in its next requests.

    A cassette contains requests of providers, so the record has their form. It contains the names of tools that the
    provider received, and results as the model read them. OpenAI's requests do not state which results are failures.
    fxai ignores requests without a turn, and failed requests before the last turn. To keep every detail, run the
    program with the cassette and record its answer.

    Args:
        path: JSON file of the cassette, with requests to Anthropic, OpenAI, or a compatible server.

    Raises:
        CassetteError: If the file is missing or invalid, or contains no turn or an invalid answer.
    """
    exchanges = [one for one in Tape.read(Path(path)).exchanges if _end_of(one) is not None]
    turns = [one for one in exchanges if one.answer is not None and one.fault is None and one.answer.status < 400]
    if not turns:
        raise CassetteError(f"{path} contains no turn of a model. Record a program that calls a model.")
    results = {name: result for one in exchanges for name, result in _results_in(one.request.body.json)}
    steps = tuple([RecordedStep((*_with_results(_read_turn(path, one), results),)) for one in turns])
    is_open = any(not call.has_ended for call in steps[-1].calls)
    if exchanges[-1] is not turns[-1]:
        last = exchanges[-1]
        problem = last.fault.message if last.fault is not None else f"status {last.answer.status if last.answer else 0}"
        return RunRecord(steps, ended="failed", failure=problem)
    return RunRecord(steps, ended="unknown" if is_open else "done")


def _end_of(exchange: Exchange) -> str | None:
    """Return the end of the path of a request for a turn, or None for another request."""
    location = exchange.request.path.partition("?")[0]
    return next((end for end in _APIS if location.endswith(end)), None)


def _read_turn(path: str | Path, exchange: Exchange) -> Response:
    """Return the answer of an exchange, read like an answer of the provider."""
    from fxai.providers import anthropic, openai
    from fxai.providers.anthropic.model import read_whole

    answer, api = exchange.answer, _APIS[_end_of(exchange) or "/messages"]
    body = b"" if answer is None else b"".join(answer.body.pieces())
    request, model = ModelRequest(Prompt.make("?")), "recorded"  # the answer does not depend on them
    try:
        if api is None:
            return Response(read_whole(body, anthropic.prepare_request(request, model=model)))
        return Response(openai.read_reply(body, openai.prepare_request(request, model=model, api=api)))
    except openai.ReplyError as error:
        problem = f"{path}: an answer of {exchange.request.path} is invalid: {error}. Record it again."
        raise CassetteError(problem) from error


def _with_results(turn: Response, results: dict[str, ToolResult]) -> Iterator[Any]:
    ended = {result.id for result in turn.tool_results}
    found = [
        msgspec.structs.replace(results[call.id], name=call.name)
        for call in turn.tool_calls
        if call.id in results and call.id not in ended
    ]
    for part in turn.content:
        if part.type == "finish":
            yield from found
        if part.type != "warning":
            yield part


def _results_in(body: Any) -> Iterator[tuple[str, ToolResult]]:
    """Yield the results in a request of any of the providers, by the id of their call."""
    sent = body if is_object(body) else {}
    messages = sent.get("messages", sent.get("input"))
    for message in messages if is_array(messages) else []:
        blocks = message.get("content") if is_object(message) else None
        for item in (message, *(blocks if is_array(blocks) else ())):
            if not is_object(item):
                continue
            name = item.get("tool_call_id") or item.get("tool_use_id")
            content = item.get("content")
            if item.get("type") == "function_call_output":
                name, content = item.get("call_id"), item.get("output")
            if isinstance(name, str) and item.get("type") in (None, "tool_result", "function_call_output"):
                yield name, ToolResult(name, "", _value_of(content), is_failure=item.get("is_error") is True)


def _value_of(content: Any) -> Any:
    """Return a result as the JSON value that its text contains, or its text, or its blocks."""
    if is_array(content) and all(is_object(one) and isinstance(one.get("text"), str) for one in content):
        content = "".join(one["text"] for one in content)
    if not isinstance(content, str):
        return content
    try:
        return json.loads(content)
    except (ValueError, RecursionError):
        return content
