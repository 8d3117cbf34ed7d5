r"""The command `fxai eval`. Use it to run an evaluation, to show its rates, and to compare them with earlier rates.

>>> import io
>>> from fxai.evaluation import CaseResult, EvaluationResult, LawResult
>>> law = LawResult("answer contains '3'", passed=4, failed=1, not_judged=0)
>>> result = EvaluationResult("sums", (CaseResult("one", (law,), (0.1,) * 5),))
>>> show_result(result, out := io.StringIO(), at_least=0.9)
False
>>> print(out.getvalue().splitlines()[-1])
below 90%: one: answer contains '3': 80%
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal, TextIO, TypeAlias

import msgspec
from returns.result import Failure

from fxai.cli.exit import WRONG_USE, CliError
from fxai.cli.run_program import value_of
from fxai.cli.setting import Setting, open_setting
from fxai.cli.target import load
from fxai.effects import fx
from fxai.effects.effect import Gen
from fxai.effects.layer import LayerOf
from fxai.effects.scope import Scope
from fxai.evaluation import AnyEvaluation, Evaluation, EvaluationResult, RateChange, compare_rates, to_svg
from fxai.schema.display import json_line
from fxai.storage.private_file import replace_file

Form: TypeAlias = Literal["text", "json", "markdown"]


def evaluate(
    target: str,
    out: TextIO,
    *,
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
    """Run the evaluation that `target` names, and show the results. Return True if they reach the demands.

    Raises:
        CliError: If the evaluation cannot run, or a file cannot be read or written.
    """
    kind: type[AnyEvaluation] = Evaluation
    evaluation = _select(load(target, kind, "an evaluation"), cases)
    given: type[LayerOf[Any, Any, Any]] = LayerOf
    supplied = None if layer is None else load(layer, given, "a layer")
    before = None if compare is None else _read(compare)  # read first, because the runs cost time and money
    if model is not None:
        from fxai.cli.model_list import require_ready

        require_ready(model)
    if runs is not None:
        evaluation = msgspec.structs.replace(evaluation, runs=runs)
    result: EvaluationResult = value_of(fx.scoped(_run(evaluation, Setting(evaluation.agent, supplied, model))))
    changes = () if before is None else compare_rates(before, result)
    for path, text in ((store, result.to_json), (svg, lambda: to_svg(result))):
        if path is not None:
            _write(path, text())
    return show_result(result, out, at_least=at_least, changes=changes, form=form)


def _select(evaluation: AnyEvaluation, names: tuple[str, ...]) -> AnyEvaluation:
    known = {case.name: case for case in evaluation.cases}
    unknown = [name for name in names if name not in known]
    if unknown:
        problem = f"evaluation {evaluation.name!r} has no case {unknown[0]!r}"
        raise CliError(problem, f"Use one of: {', '.join(known)}.", code=WRONG_USE)
    return msgspec.structs.replace(evaluation, cases=tuple([known[name] for name in names] or known.values()))


@fx.gen
def _run(evaluation: AnyEvaluation, setting: Setting) -> Gen[EvaluationResult, Any, Scope]:
    there = yield from open_setting(setting, lambda _: None)
    runs: AnyEvaluation = msgspec.structs.replace(evaluation, agent=there.agent)
    return (yield from runs.run().provide_context(there.services))


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


def _read(path: str) -> EvaluationResult:
    remedy = "Pass a file that fxai eval --store wrote."
    try:
        read = EvaluationResult.from_json(Path(path).read_bytes())
    except OSError as error:
        raise CliError(f"cannot read {path}: {error.strerror or error}", remedy, code=WRONG_USE) from error
    if isinstance(read, Failure):
        raise CliError(f"{path} contains no results of an evaluation: {read.failure()}", remedy, code=WRONG_USE)
    return read.unwrap()


def _write(path: str, text: str) -> None:
    try:
        replace_file(Path(path).absolute(), text.encode())
    except OSError as error:
        problem = f"cannot write {path}: {error.strerror or error}"
        raise CliError(problem, "Name a file that you can write.", code=WRONG_USE, cause=error) from error
