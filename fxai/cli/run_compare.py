r"""Recorded runs on the command line. Use these functions for `fxai runs record`, `diff`, and `replay`.

>>> import io, tempfile
>>> from fxai import Prompt
>>> with tempfile.TemporaryDirectory() as folder:
...     path = f"{folder}/hello.json"
...     RunRecord.of(Prompt.make([{"role": "assistant", "content": "Good day."}])).write(path)
...     show_difference(find_record(path, None), find_record(path, None), out := io.StringIO())
True
>>> out.getvalue()
'no difference\n'
"""

from __future__ import annotations

from collections.abc import Generator, Iterable
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, Literal, TextIO, TypeAlias

import msgspec

from fxai.agents.records.run_diff import diff_runs
from fxai.agents.records.run_record import RunRecord, RunRecordError
from fxai.agents.records.run_replay import RunDiverged, replay_results, replay_turns
from fxai.cli.exit import FAILED, WRONG_USE, CliError, error_from
from fxai.cli.failure import error_of
from fxai.cli.job import AgentArgs, read_args
from fxai.cli.run_list import runs_at
from fxai.cli.run_program import value_of
from fxai.cli.setting import Setting, open_setting
from fxai.durable import Runs, durable
from fxai.effects import fx
from fxai.effects.cause import Exit, Failed, Succeeded
from fxai.effects.effect import Gen
from fxai.effects.layer import Layer
from fxai.effects.scope import Scope
from fxai.messages.errors import AiError
from fxai.messages.prompt import Prompt
from fxai.models.interceptor import LeftRunError
from fxai.schema.display import json_line

Answering: TypeAlias = Literal["turns", "results", "both"]
"""The recorded part of a replay: the turns of the model, the results of the tools, or both."""

_FILE: Final = ".json"


def find_record(name: str, store: str | None) -> RunRecord:
    """Return the record in a file whose name ends in `.json`, or the record of a durable run, without secrets.

    Raises:
        CliError: If the file or the run does not exist, or cannot be read.
    """
    try:
        if name.endswith(_FILE):
            return RunRecord.read(name).without_secrets()
        reading = runs_at(store).record(name).map_error(_explain)
        record: RunRecord = value_of(reading)
        return record.without_secrets()
    except RunRecordError as error:
        problem, _, remedy = str(error).rpartition(". ")
        raise CliError(problem, remedy, code=WRONG_USE) from error


def _explain(failure: object) -> CliError:
    return CliError(str(failure), f"For the file of a record, use a name that ends in {_FILE}.", code=WRONG_USE)


def write_record(name: str, file: str, store: str | None, out: TextIO, *, as_json: bool = False) -> bool:
    """Write the record of a durable run to a file.

    Raises:
        CliError: If the run cannot be read, or the file cannot be written.
    """
    if not file.endswith(_FILE):
        raise CliError(f"FILE must end in {_FILE}, got {file!r}", f"Pass {file}{_FILE}.", code=WRONG_USE)
    record = find_record(name, store)
    try:
        record.write(file)
    except OSError as error:
        problem = f"cannot write {file}: {error.strerror or error}"
        raise CliError(problem, "Name a file that you can write.", code=WRONG_USE, cause=error) from error
    if as_json:
        out.write(json_line({"ok": True, "file": str(Path(file)), "steps": len(record.steps)}))
    else:
        out.write(f"recorded: {len(record.steps)} steps in {file}\n")
    return True


def show_difference(
    before: RunRecord,
    after: RunRecord,
    out: TextIO,
    *,
    ignore: Iterable[str] = (),
    as_json: bool = False,
    diverged: RunDiverged | None = None,
) -> bool:
    """Show the difference between two runs, and the reason of a stopped replay. Return True if the runs are the same.

    Raises:
        CliError: If a pointer of `ignore` is invalid.
    """
    try:
        difference = diff_runs(before, after, ignore=ignore)
    except ValueError as error:
        remedy = "Copy a pointer from the output of fxai runs diff."
        raise CliError(f"--ignore: {error}", remedy, code=WRONG_USE) from error
    if as_json:
        data = difference.to_data() if diverged is None else {**difference.to_data(), "same": False}
        reason = {} if diverged is None else {"diverged": diverged.to_data(), "message": diverged.problem}
        out.write(json_line({"ok": True, **data, **reason}))
    else:
        out.write(f"{difference}\n" if diverged is None else f"{difference}\nreplay stopped: {diverged.problem}\n")
    return difference.same


def replay(
    source: str,
    out: TextIO,
    *,
    store: str | None,
    recorded: Answering,
    prompt: str | None,
    ignore: Iterable[str],
    as_json: bool,
    **chosen: Any,
) -> bool:
    """Run the chosen agent again with a part of a record, and show the difference. Return True if it has no changes.

    If the record cannot answer a request or a call, the replay stops there, and the runs are not the same.

    Raises:
        CliError: If the agent cannot run, or the record has no prompt.
    """
    before = find_record(source, store)
    asked = before.prompt if prompt is None else Prompt.make(prompt)
    if not len(asked):
        raise CliError(f"record {source!r} does not contain the prompt", "Pass --prompt TEXT.", code=WRONG_USE)
    setting, _ = read_args(AgentArgs(**chosen))
    runs = Runs.in_process()
    program = fx.scoped(_replay(_with_record(setting, before, recorded), asked))
    ended: Exit[Any, Any] = value_of(program.provide(durable(Layer.empty(), run=_RUN, store=runs)).exit())
    reasons = () if isinstance(ended, Succeeded) else (*ended.cause.failures, *ended.cause.defects)
    if isinstance(ended, Failed) and any(isinstance(reason, CliError | AiError) for reason in reasons):
        raise error_of(ended.cause)  # the agent did not run, or its model failed
    left = [reason.failure for reason in reasons if isinstance(reason, LeftRunError)]
    diverged = next((one for one in (*reasons, *left) if isinstance(one, RunDiverged)), None)
    after: RunRecord = value_of(runs.record(_RUN))
    if diverged is None:
        return show_difference(before, after.without_secrets(), out, ignore=ignore, as_json=as_json)
    show_difference(before, after.without_secrets(), out, ignore=[*ignore, *_AFTER], as_json=as_json, diverged=diverged)
    return False


_RUN: Final = "replay"
_AFTER: Final = ("/answer", "/end", "/refusal", "/usage")  # values of a run that ended, unlike a stopped replay


def _with_record(setting: Setting, record: RunRecord, recorded: Answering) -> Setting:
    """Return the setting in which the record answers the requests, the calls, or both."""
    layer: Any = setting.layer or Layer.empty()
    agent = setting.agent
    if recorded != "results":
        layer, agent = layer | replay_turns(record), msgspec.structs.replace(agent, model=None)
    if recorded != "turns":
        layer = replay_results(layer, record)
    return msgspec.structs.replace(setting, layer=layer, agent=agent)


@fx.gen
def _replay(setting: Setting, prompt: Prompt) -> Gen[Any, Any, Scope]:
    there = yield from open_setting(setting, lambda _: None)
    return (yield from there.agent.execute(prompt).provide_context(there.services))


@contextmanager
def difference_codes() -> Generator[None]:
    """Give errors the exit code 2 inside the `with`, because 1 means that two runs differ."""
    try:
        yield
    except Exception as raised:
        trouble = error_from(raised)
        if trouble.code == FAILED:
            trouble.code = WRONG_USE
        raise trouble from raised
