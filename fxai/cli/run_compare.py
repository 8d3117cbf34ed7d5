r"""Comparisons of runs. Use these functions for `fxai runs record`, `diff`, and `replay`, and for `fxai eval`.

>>> import io, tempfile
>>> from fxai import Prompt
>>> with tempfile.TemporaryDirectory() as folder:
...     path = f"{folder}/hello.json"
...     RunRecord.of(Prompt.make([{"role": "assistant", "content": "Good day."}])).write(path)
...     show_difference(out := io.StringIO(), find_record(path, None), find_record(path, None))
True
>>> out.getvalue()
'no difference\n'
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, Final, Literal, TextIO, TypeAlias

import msgspec
from returns.result import Failure
from typing_extensions import TypeVar

from fxai.agents import RunDiverged, RunRecord, RunRecordError, diff_runs, replay_results, replay_turns
from fxai.cli.exit import CliError, refusing, wrong_use
from fxai.cli.model_list import require_ready
from fxai.cli.prompt_view import AnyAgent
from fxai.cli.run_list import runs_at, tell
from fxai.cli.run_program import error_of, value_of
from fxai.cli.setting import Setting, open_setting, read_args
from fxai.cli.target import load, load_layer
from fxai.durable import Runs, durable
from fxai.effects import EffectOf, Exit, Failed, Gen, Layer, Scope, Succeeded, fx
from fxai.evaluation import AnyEvaluation, Evaluation, EvaluationResult, RateChange, compare_rates, to_svg
from fxai.messages import AiError, Prompt
from fxai.models import LeftRunError
from fxai.schema.display import json_line
from fxai.storage.private_file import replace_file

_A = TypeVar("_A")

Answering: TypeAlias = Literal["turns", "results", "both"]
"""The recorded part of a replay: the turns of the model, the results of the tools, or both."""

_FILE: Final = ".json"


def find_record(name: str, store: str | None) -> RunRecord:
    """Return the record in a file whose name ends in `.json`, or the record of a durable run, without secrets."""
    try:
        if name.endswith(_FILE):
            return RunRecord.read(name).without_secrets()
        remedy = f"For the file of a record, use a name that ends in {_FILE}."
        reading = runs_at(store).record(name).map_error(lambda failure: wrong_use(str(failure), remedy))
        record: RunRecord = value_of(reading)
        return record.without_secrets()
    except RunRecordError as error:
        problem, _, remedy = str(error).rpartition(". ")
        raise wrong_use(problem, remedy) from error


def write_record(out: TextIO, _: TextIO, *, run: str, file: str, store: str | None, as_json: bool = False) -> bool:
    """Write the record of a durable run to a file."""
    if not file.endswith(_FILE):
        raise wrong_use(f"FILE must end in {_FILE}, got {file!r}", f"Pass {file}{_FILE}.")
    record = find_record(run, store)
    with refusing(f"cannot write {file}", "Name a file that you can write."):
        record.write(file)
    data = {"file": str(Path(file)), "steps": len(record.steps)}
    return tell(out, data, f"recorded: {len(record.steps)} steps in {file}", as_json=as_json)


def show_difference(
    out: TextIO,
    before: RunRecord,
    after: RunRecord,
    *,
    ignore: Iterable[str] = (),
    as_json: bool = False,
    diverged: RunDiverged | None = None,
) -> bool:
    """Show the difference between two runs, and why a replay stopped. Return True if the runs are the same."""
    try:
        difference = diff_runs(before, after, ignore=ignore)
    except ValueError as error:
        raise wrong_use(f"--ignore: {error}", "Copy a pointer from the output of fxai runs diff.") from error
    if as_json:
        data = difference.to_data() if diverged is None else {**difference.to_data(), "same": False}
        reason = {} if diverged is None else {"diverged": diverged.to_data(), "message": diverged.problem}
        out.write(json_line({"ok": True, **data, **reason}))
    else:
        out.write(f"{difference}\n" if diverged is None else f"{difference}\nreplay stopped: {diverged.problem}\n")
    return difference.same


def replay(
    out: TextIO,
    _: TextIO,
    *,
    source: str,
    store: str | None,
    recorded: Answering,
    prompt: str | None,
    ignore: Iterable[str],
    as_json: bool,
    **chosen: Any,
) -> bool:
    """Run the chosen agent again with a part of a record, and show the difference. Return True if it has no changes.

    If the record cannot answer a request or a call, the replay stops there, and the runs are not the same.
    """
    before = find_record(source, store)
    asked = before.prompt if prompt is None else Prompt.make(prompt)
    if not len(asked):
        raise wrong_use(f"record {source!r} does not contain the prompt", "Pass --prompt TEXT.")
    setting = read_args(**chosen)[0]
    runs = Runs.in_process()
    program = fx.scoped(_run_in(_with_record(setting, before, recorded), lambda agent: agent.execute(asked)))
    ended: Exit[Any, Any] = value_of(program.provide(durable(Layer.empty(), run=_RUN, store=runs)).exit())
    reasons = () if isinstance(ended, Succeeded) else (*ended.cause.failures, *ended.cause.defects)
    if isinstance(ended, Failed) and any(isinstance(reason, CliError | AiError) for reason in reasons):
        raise error_of(ended.cause)  # the agent did not run, or its model failed
    left = [reason.failure for reason in reasons if isinstance(reason, LeftRunError)]
    diverged = next((one for one in (*reasons, *left) if isinstance(one, RunDiverged)), None)
    after: RunRecord = value_of(runs.record(_RUN))
    if diverged is None:
        return show_difference(out, before, after.without_secrets(), ignore=ignore, as_json=as_json)
    show_difference(out, before, after.without_secrets(), ignore=[*ignore, *_AFTER], as_json=as_json, diverged=diverged)
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
def _run_in(setting: Setting, program: Callable[[AnyAgent], EffectOf[_A, Any, Any]]) -> Gen[_A, Any, Scope]:
    """Open the setting, and run a program with its agent."""
    there = yield from open_setting(setting, lambda _: None)
    return (yield from program(there.agent).provide_context(there.services))


Form: TypeAlias = Literal["text", "json", "markdown"]


def evaluate(
    out: TextIO,
    *,
    target: str,
    layer: str | None,
    model: str | None,
    runs: int | None,
    cases: tuple[str, ...],
    at_least: float | None,
    compare: str | None,
    store: str | None,
    svg: str | None,
    form: Form,
) -> bool:
    """Run the evaluation that `target` names, and show the results. Return True if they reach the demands."""
    kind: type[AnyEvaluation] = Evaluation
    evaluation = load(target, kind, "an evaluation")
    known = {case.name: case for case in evaluation.cases}
    for name in cases:
        if name not in known:
            problem = f"evaluation {evaluation.name!r} has no case {name!r}"
            raise wrong_use(problem, f"Use one of: {', '.join(known)}.")
    evaluation = msgspec.structs.replace(evaluation, cases=tuple([known[name] for name in cases] or known.values()))
    supplied = None if layer is None else load_layer(layer)
    before: EvaluationResult | None = None
    if compare is not None:  # read first, because the runs cost time and money
        remedy = "Pass a file that fxai eval --store wrote."
        with refusing(f"cannot read {compare}", remedy):
            read = EvaluationResult.from_json(Path(compare).read_bytes())
        if isinstance(read, Failure):
            raise wrong_use(f"{compare} contains no results of an evaluation: {read.failure()}", remedy)
        before = read.unwrap()
    if model is not None:
        require_ready(model)
    if runs is not None:
        evaluation = msgspec.structs.replace(evaluation, runs=runs)
    whole = evaluation

    def run(agent: AnyAgent) -> EffectOf[EvaluationResult, Any, Any]:
        return msgspec.structs.replace(whole, agent=agent).run()

    result = value_of(fx.scoped(_run_in(Setting(evaluation.agent, supplied, model), run)))
    changes = () if before is None else compare_rates(before, result)
    for path, text in ((store, result.to_json), (svg, lambda: to_svg(result))):
        if path is not None:
            with refusing(f"cannot write {path}", "Name a file that you can write."):
                replace_file(Path(path).absolute(), text().encode())
    return show_result(result, out, at_least=at_least, changes=changes, form=form)


def show_result(
    result: EvaluationResult,
    out: TextIO,
    *,
    at_least: float | None = None,
    changes: tuple[RateChange, ...] = (),
    form: Form = "text",
) -> bool:
    """Show the results. Return False if a law does not reach `at_least`, or is worse than in the compared results."""
    below = () if at_least is None else result.below(at_least)
    worse = [one for one in changes if (one.after.rate or 0.0) < (one.before.rate or 0.0)]
    passed = not below and not worse
    if form == "json":
        found = {"below": below, "changes": [str(change) for change in changes]}
        out.write(json_line({"ok": True, "passed": passed, **result.to_data(), **found}))
        return passed
    out.write(result.to_markdown() if form == "markdown" else f"{result}\n")
    out.writelines(f"{change}\n" for change in changes)
    out.writelines(f"below {at_least:.0%}: {one}\n" for one in below)
    return passed
