"""Recorded runs in tests: the check of a run against its file, and runs in cassettes of real providers."""

from __future__ import annotations

import json
from itertools import groupby
from pathlib import Path
from typing import Any

import httpx2
import pytest

from fxai.agents import RunRecord, RunRecordError, diff_runs, replay_turns
from fxai.effects import fx
from fxai.providers import openai
from fxai.testing import CassetteError, RunChangedError, cassette, check_run, record_of_cassette
from tests.kit.recorded_runs import asked, record_of
from tests.kit.recordings import WIRES, Exchange, exchanges

BEFORE = record_of([[("price", "tea", (False, 250))]])
AFTER = record_of([[("price", "tea", (False, 300))]])


def test_a_changed_run_fails_with_its_difference(tmp_path: Path) -> None:
    """The message contains the file, the difference, and the option that stores the run again."""
    path = tmp_path / "run.json"
    BEFORE.write(path)

    with pytest.raises(RunChangedError) as raised:
        check_run(AFTER, path)

    message = str(raised.value)
    assert message.startswith(f"run differs from {path}: 1 difference\n")
    assert "/calls/price/result: 250 → 300" in message
    assert "pytest --records=record" in message
    assert raised.value.difference.pointers == ("/calls/price/result",)
    assert RunRecord.read(path) == BEFORE


def test_an_equal_run_passes_and_keeps_the_file(tmp_path: Path) -> None:
    """A run with other ids, or with ignored differences, passes, and no mode writes the file again."""
    path = tmp_path / "run.json"
    BEFORE.write(path)
    stored = path.stat()

    assert check_run(BEFORE, path, "record") == BEFORE
    assert check_run(AFTER, path, ignore=["/calls/*/result"]) == AFTER
    assert (path.stat().st_mtime_ns, path.stat().st_ino) == (stored.st_mtime_ns, stored.st_ino)


def test_a_missing_file_needs_a_mode(tmp_path: Path) -> None:
    """Without a file, "compare" fails with the remedy, and "auto" and "record" write the file."""
    with pytest.raises(RunRecordError, match=r"Record the run first\. Use mode 'record' \(pytest --records=record\)"):
        check_run(BEFORE, tmp_path / "a.json")
    check_run(BEFORE, tmp_path / "b.json", "auto")
    check_run(BEFORE, tmp_path / "c.json", "record")

    assert RunRecord.read(tmp_path / "b.json") == RunRecord.read(tmp_path / "c.json") == BEFORE
    with pytest.raises(RunChangedError):
        check_run(AFTER, tmp_path / "b.json", "auto")


def test_the_mode_record_replaces_a_changed_or_invalid_file(tmp_path: Path) -> None:
    """With "record", the file contains the new run."""
    path = tmp_path / "run.json"
    BEFORE.write(path)
    check_run(AFTER, path, "record")
    assert RunRecord.read(path) == AFTER

    path.write_text("rubbish")
    check_run(BEFORE, path, "record")
    assert RunRecord.read(path) == BEFORE


def test_an_unknown_mode_is_refused(tmp_path: Path) -> None:
    """The error names the modes."""
    with pytest.raises(ValueError, match="mode must be 'compare', 'record', or 'auto', got 'replay'"):
        check_run(BEFORE, tmp_path / "run.json", "replay")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]


def test_secrets_do_not_make_a_run_differ(tmp_path: Path) -> None:
    """A run whose result contains a secret equals its file, which contains no secret."""
    leaking = record_of([[("price", "tea", (False, {"token": "sk-proj-0123456789abcdef", "of": "correct horse"}))]])
    check_run(leaking, tmp_path / "run.json", "record", secrets=["correct horse"])

    assert check_run(leaking, tmp_path / "run.json", secrets=["correct horse"]).steps[0].calls[0].result == {
        "token": "(secret)",
        "of": "(secret)",
    }


# -- cassettes

_PATHS = {"anthropic": "/v1/messages", "chat": "/v1/chat/completions", "responses": "/v1/responses"}


def _write(path: Path, recorded: list[Exchange]) -> Path:
    """Write recorded exchanges of a real provider as a cassette."""
    rows: list[dict[str, Any]] = []
    for one in recorded:
        body = one.body.decode(errors="replace")
        asked_for = {"body": {"json": one.request}} if one.request is not None else {}
        answered = {"status": one.status, "body": {"events": [body]} if one.stream else {"text": body}}
        rows.append({"request": {"method": "POST", "path": _PATHS[one.wire], **asked_for}, "answer": answered})
    path.write_text(json.dumps({"version": 1, "exchanges": rows}))
    return path


@pytest.mark.parametrize("wire", WIRES)
def test_cassettes_of_real_providers_are_runs(wire: str, tmp_path: Path) -> None:
    """Each recorded conversation is a run that equals itself after its JSON form, and has results of its calls."""
    ended, read = 0, 0
    problems: list[str] = []
    for _, group in groupby(exchanges(wire), key=lambda one: (one.source, one.file)):
        path = _write(tmp_path / "cassette.json", [*group])
        try:
            record = record_of_cassette(path)
        except CassetteError as error:
            problems.append(str(error))
            continue
        read += 1
        ended += sum(call.has_ended and not call.provider_executed for step in record.steps for call in step.calls)
        again = RunRecord.from_json(record.to_json()).unwrap()
        assert again == record
        assert diff_runs(record, again).same

    assert [one for one in problems if "contains no turn" not in one and "is invalid" not in one] == []
    assert read >= 100
    assert ended >= 20


def test_a_recorded_conversation_has_its_calls_and_results(tmp_path: Path) -> None:
    """The results in the next request of a real conversation belong to the calls of the turn before it."""
    groups = groupby(exchanges("chat"), key=lambda one: (one.source, one.file))
    weather = [[*group] for (_, file), group in groups if "test_openai_tool_call_roundtrip_wire_stable[ag_ui]" in file]

    record = record_of_cassette(_write(tmp_path / "cassette.json", weather[0]))

    (made,) = record.steps[0].calls
    assert (made.name, made.params) == ("get_weather", {"city": "Paris"})
    assert made.has_ended
    assert record.answer


def test_a_cassette_and_its_program_are_the_same_run(tmp_path: Path) -> None:
    """The record of a cassette equals the record of the program that recorded it, and can replay its turns."""
    replies: list[dict[str, Any]] = [
        {
            "tool_calls": [
                {"id": "c1", "type": "function", "function": {"name": "price", "arguments": '{"value":"tea"}'}}
            ]
        },
        {"content": "It costs 253 cents."},
    ]
    reasons = iter([("tool_calls", replies[0]), ("stop", replies[1])])

    def answer(_: httpx2.Request) -> httpx2.Response:
        reason, message = next(reasons)
        choice = {"index": 0, "finish_reason": reason, "message": {"role": "assistant", **message}}
        return httpx2.Response(200, json={"id": "r", "object": "chat.completion", "model": "m", "choices": [choice]})

    model = openai.layer("gpt-4o", api="chat", api_key="sk-test-0123456789")
    path = tmp_path / "cassette.json"
    live = fx.run(asked(model).provide(cassette(path, "record", live=httpx2.MockTransport(answer))))

    record = record_of_cassette(path)

    assert record.answer == live.text == "It costs 253 cents."
    assert [one.result for one in record.steps[0].calls] == [253]
    assert diff_runs(RunRecord.of(live), record, ignore=["/calls/price/params"]).same


def test_a_cassette_without_a_turn_is_refused(tmp_path: Path) -> None:
    """The error names the file and the remedy."""
    path = tmp_path / "cassette.json"
    path.write_text('{"version": 1, "exchanges": []}')

    with pytest.raises(CassetteError, match=r"contains no turn of a model\. Record a program"):
        record_of_cassette(path)


def test_a_failed_last_request_ends_the_run_as_failed(tmp_path: Path) -> None:
    """A cassette that ends with an error of the provider is a failed run."""
    path = tmp_path / "cassette.json"
    turn = {"choices": [{"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": "Hi."}}]}
    body: dict[str, Any] = {"json": {"model": "m", "messages": []}}
    sent = {"method": "POST", "path": "/v1/chat/completions", "body": body}
    rows: list[dict[str, Any]] = [
        {"request": sent, "answer": {"status": 200, "body": {"json": {"id": "r", "model": "m", **turn}}}},
        {"request": sent, "answer": {"status": 500, "body": {"json": {}}}},
    ]
    path.write_text(json.dumps({"version": 1, "exchanges": rows}))

    record = record_of_cassette(path)

    assert (record.ended, record.failure, len(record.steps)) == ("failed", "status 500", 1)
    assert fx.run(asked(replay_turns(record))).text == "Hi."
