"""Records of runs: their sources, their JSON form, their files, and their secrets."""

from __future__ import annotations

import os
import pickle
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from returns.result import Success

from fxai.agents import Agent, LargeResults, Memory, RunRecord, RunRecordError, diff_runs
from fxai.durable import Runs, durable
from fxai.effects import Failed, fx
from fxai.messages import ContentPolicyError, Finish, Prompt, RateLimitError, Response, Text, ToolCall, Usage
from fxai.storage import ResultStore
from fxai.testing import ScriptedModel, call, fails, finish, text
from fxai.tools import Tool
from tests.kit.journal import boom
from tests.kit.recorded_runs import asked, clerk, handlers, price, record_of

_CALLS = [call("price", "tea"), call("price", ""), call("nothing", {}), call("price", 3)]


def _model(*turns: Any) -> Any:
    return ScriptedModel.make(turns).layer


def test_an_answer_and_its_history_are_the_same_run() -> None:
    """The record of an answer and the record of its history have no difference."""
    answer = fx.run(asked(_model(_CALLS, text("Done."))))
    record = RunRecord.of(answer)

    assert record.answer == "Done."
    assert record.prompt == Prompt.make("Buy tea.")
    assert [(one.name, one.is_failure) for one in record.steps[0].calls] == [
        ("price", False),
        ("price", True),
        ("nothing", True),
        ("price", True),
    ]
    assert diff_runs(record, RunRecord.of(answer.history)).same


def test_a_durable_run_is_the_same_run() -> None:
    """The record of a journal and the record of the answer have no difference, with refused and failed calls."""
    runs = Runs.in_process()
    answer = fx.run(asked(durable(_model(_CALLS, text("Done.")), run="r", store=runs)))

    record = fx.run(runs.record("r"))

    assert [one.is_refused for one in record.steps[0].calls] == [False, False, True, True]
    assert diff_runs(RunRecord.of(answer), record).same


def test_a_failed_run_keeps_its_failure() -> None:
    """The record of a failed exit, of its exception, and of its journal have the same end."""
    runs = Runs.in_process()
    model = [_CALLS[:1], fails(RateLimitError())]
    ended = fx.run_exit(asked(durable(_model(*model), run="r", store=runs)))
    assert isinstance(ended, Failed)

    record, journalled = RunRecord.of(ended), fx.run(runs.record("r"))

    assert (record.ended, len(record.steps)) == ("failed", 1)
    assert "Rate limit" in record.failure
    assert RunRecord.of(ended.cause.squash()).ended == "failed"
    assert diff_runs(record, journalled).same


def test_a_broken_handler_keeps_the_finished_calls() -> None:
    """The record of a defect contains the results of the calls that ended."""
    agent = Agent.make("a", toolkit=price)
    running = agent.execute("Buy.").provide(price.handler(lambda item: boom() if item == "x" else Success(1)))
    record = RunRecord.of(fx.run_exit(running.provide(_model([call("price", "x"), call("price", "y")]))))

    assert (record.ended, record.failure) == ("failed", "ZeroDivisionError('boom')")
    assert record.steps[0].calls[1].result == 1


def test_a_response_is_a_run_of_one_step() -> None:
    """A response of a model is the record of one step, with its usage and its refusal."""
    refusal = ContentPolicyError(description="no")
    record = RunRecord.of(Response((Text("No."), Finish("stop", Usage(3, 4), refusal))))

    assert (record.answer, record.refusal, record.usage) == ("No.", refusal, Usage(3, 4))
    assert RunRecord.of(Response((ToolCall("c", "price", "tea"), Finish("tool-calls")))).ended == "pending"


def test_a_conversation_with_a_memory_records_the_last_run() -> None:
    """The steps of an answer are the steps of its run, and its prompt contains the earlier conversation."""
    agent = clerk.with_memory(Memory.in_process())
    running = agent.execute("Again.").provide(handlers()).provide(_model(text("One."), text("Two.")))
    _ = fx.run(running)
    record = RunRecord.of(fx.run(agent.execute("And?").provide(handlers()).provide(_model(text("Two.")))))

    assert (len(record.steps), record.answer) == (1, "Two.")
    assert [message.role for message in record.prompt] == ["user", "assistant", "user"]


def test_a_value_without_a_run_is_refused() -> None:
    """An exception of other code is no run, and the error names the accepted values."""
    with pytest.raises(RunRecordError, match=r"KeyError: it belongs to no run of an agent\. Pass an Answer"):
        RunRecord.of(KeyError("x"))


def test_a_large_result_is_recorded_with_its_handle() -> None:
    """The record of a large result contains the preview and the handle, and handles do not differ."""
    find = Tool.make("find", success=list[int])
    agent = Agent.make("a", toolkit=find, large_results=LargeResults(ResultStore.in_process(), max_tokens=20))
    running = agent.execute("Find.").provide(find.handler(lambda _: Success([*range(500)])))
    records = [RunRecord.of(fx.run(running.provide(_model([call("find", {})], text("Ok."))))) for _ in range(2)]

    assert records[0].steps[0].calls[0].handle != records[1].steps[0].calls[0].handle
    assert diff_runs(*records).same


# -- files


def test_a_file_is_private_and_readable_again(tmp_path: Path) -> None:
    """The file has the mode 0600, ends with a line end, and contains the record."""
    record = record_of([[("price", "tea", (False, 250))]])
    path = tmp_path / "new" / "run.json"
    old = os.umask(0)
    try:
        record.write(path)
    finally:
        os.umask(old)

    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert path.read_text().endswith("}\n")
    assert RunRecord.read(path) == record


def test_a_file_contains_no_secrets(tmp_path: Path) -> None:
    """Given secrets, strings that look like a key, and members with the name of a key do not reach the file."""
    params = {"api_key": "abc", "text": "use sk-proj-0123456789abcdef", "note": "correct horse battery"}
    record_of([[("price", params, (False, ["correct horse battery"]))]]).write(
        tmp_path / "run.json", secrets=["correct horse"]
    )

    written = (tmp_path / "run.json").read_text()
    assert not any(secret in written for secret in ("abc", "sk-proj", "correct horse"))
    assert RunRecord.read(tmp_path / "run.json").steps[0].calls[0].params["note"] == "(secret) battery"


RUBBISH = {
    "": "/version: expected 1, found nothing",
    "[]": "expected object, found array",
    "{}": "/version: expected",
    '{"version": 2, "steps": []}': "/version: expected 1, found integer 2",
    '{"version": 1, "steps": [], "more": 1}': "/more: ",
    '{"version": 1, "steps": [{"content": [{"type": "text"}]}]}': "/steps/0/content/0/text: expected",
    '{"version": 1, "steps": [], "prompt": [{"role": "nobody"}]}': "/prompt/0/role: expected",
    '{"version": 1, "steps": [], "ended": "well"}': "/ended: expected",
    "[" * 2000: "levels of nesting",
    '{"version": NaN}': "expected a finite number",
    "\x00\xff": "expected JSON",
}


@pytest.mark.parametrize("content", RUBBISH)
def test_rubbish_is_refused_with_its_location(content: str, tmp_path: Path) -> None:
    """A file that is not a record is refused with the location and the remedy."""
    path = tmp_path / "run.json"
    path.write_bytes(content.encode("latin-1"))

    with pytest.raises(RunRecordError) as raised:
        RunRecord.read(path)

    assert str(path) in str(raised.value)
    assert RUBBISH[content] in str(raised.value)
    assert str(raised.value).endswith("Record the run again.")


def test_a_missing_file_and_a_directory_are_refused(tmp_path: Path) -> None:
    """The error names the path and the reason."""
    for path in (tmp_path / "none.json", tmp_path):
        with pytest.raises(RunRecordError, match=r"cannot read .*Record the run first"):
            RunRecord.read(path)


def test_a_half_surrogate_is_replaced() -> None:
    """Text of a model with half a surrogate pair has a record with a JSON form."""
    record = RunRecord.of(Response((Text("a\ud800b"), Finish("stop"))))

    assert record.answer == "a�b"
    assert RunRecord.from_json(record.to_json()).unwrap() == record


def test_the_usage_of_a_run_is_recorded() -> None:
    """A record contains the usage of its turns."""
    record = RunRecord.of(fx.run(asked(_model([text("Hi."), finish("stop", Usage(5, 6))]))))

    assert record.usage == Usage(5, 6)


def test_a_program_without_records_does_not_import_them() -> None:
    """Agents, durable runs, the pytest plugin, and the command line import records only if a program uses them."""
    modules = "fxai.agents, fxai.durable, fxai.testing.plugin, fxai.cli"
    program = f"import sys, {modules}; print('fxai.agents.records' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)

    assert done.stdout == "False\n"


def test_a_record_is_a_value() -> None:
    """A record is hashable, picklable, and does not change."""
    record = record_of([[("price", {"a": [1]}, (False, {"b": 2}))]])

    assert pickle.loads(pickle.dumps(record)) == record
    assert hash(record) == hash(RunRecord.from_json(record.to_json()).unwrap())
    with pytest.raises(AttributeError):
        record.ended = "failed"  # type: ignore[misc]  # pyright: ignore[reportAttributeAccessIssue]
