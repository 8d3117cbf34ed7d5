"""Durable runs on the command line: what there is, what each waits for, answers, and going on with one.

>>> import io
>>> from fxai.durable import Runs
>>> show_list(Runs.in_process(), out := io.StringIO(), as_json=True)
True
>>> print(out.getvalue().strip())
{"ok":true,"runs":[]}
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from typing import Any, Final, Literal, TextIO, TypeAlias, TypedDict, Unpack, final

import msgspec

from fxai.cli.exit import WRONG_USE, CliError
from fxai.cli.run_program import value_of
from fxai.cli.screen import console
from fxai.durable import OnChange, Question, Reply, RunReport, Runs, RunState, RunStatus, durable
from fxai.durable.record import Input
from fxai.effects import fx
from fxai.effects.effect import Effect, EffectOf, Gen
from fxai.effects.layer import Layer
from fxai.schema.display import in_line, json_line, one_line

Answering: TypeAlias = Literal["approve", "deny", "result", "failure", "again", "unknown"]
"""The options of `fxai runs answer`, of which one is given."""


@final
class DurableArgs(msgspec.Struct, frozen=True, kw_only=True):
    """The options that make a run durable: its name, where its journal is, and what a changed program comes to."""

    run: str
    store: str | None = None
    on_change: OnChange = "refuse"

    def make_durable(self, program: EffectOf[Any, Any, Any], prompt: str) -> EffectOf[Any, Any, Any]:
        """The program as a durable run that began with a prompt.

        Fails with:
            CliError: the run is there already, with another prompt.
        """
        runs = runs_at(self.store)
        running = program.provide(durable(Layer.empty(), run=self.run, store=runs, on_change=self.on_change))
        return self._note(runs, prompt).and_then(running)

    @fx.gen
    def _note(self, runs: Runs, prompt: str) -> Gen[None, Any]:
        journal = yield from runs.open(self.run, may_begin=True)
        begun = journal.known.input
        if begun is None:
            yield from journal.append(Input(prompt))
        elif begun.prompt != prompt:
            error = CliError(
                f"the run {self.run!r} began with another prompt",
                f"fxai runs resume {self.run} goes on with it; another run has another name",
                code=WRONG_USE,
            )
            yield from fx.fail(error)

    def waiting(self) -> Effect[CliError | None, CliError]:
        """Returns the error if the run waits for answers, or stopped just before they arrived; otherwise None."""
        return _explain(runs_at(self.store).show(self.run)).map(self._waiting)

    def _waiting(self, report: RunReport) -> CliError | None:
        if not report.questions:
            stopped = f"the run {self.run!r} stopped just before its answers arrived"
            is_left = report.state.status == "stopped"
            return CliError(stopped, f"fxai runs resume {self.run}") if is_left else None
        asked = "; ".join(f"{_name(one)} ({one.id})" for one in report.questions)
        pairs = " ".join(f"{one.id}=REPLY" for one in report.questions)
        remedy = f"fxai runs answer {self.run} {pairs}, then fxai runs resume {self.run}"
        return CliError(f"the run {self.run!r} waits for answers about {asked}", remedy)


def _name(question: Question) -> str:
    return f"{question.tool} {in_line(question.params)}"


def runs_at(store: str | None) -> Runs:
    """The runs at a place, as `Runs.at` says.

    Raises:
        CliError: there can be none.
    """
    try:
        return Runs.at(store)
    except ValueError as error:
        raise CliError(f"--store: {error}", "give FILE.db, or a URL of PostgreSQL", code=WRONG_USE) from error
    except ImportError as error:
        raise CliError(str(error), "pip install 'fxai[postgres]'") from error


# -- looking


class ListOptions(TypedDict, total=False):
    """The options of `Runs.list`."""

    status: RunStatus | None
    prefix: str
    limit: int | None
    after: str | None


def show_list(
    runs: Runs, out: TextIO, *, as_json: bool = False, color: bool | None = None, **chosen: Unpack[ListOptions]
) -> bool:
    """Show the status of runs, the newest first."""
    states = value_of(_explain(runs.list(**chosen)))
    if as_json:
        out.write(json_line({"ok": True, "runs": [msgspec.to_builtins(state) for state in states]}))
        return True
    screen = console(out, color)
    if not states:
        screen.print(f"there are no runs in {runs.place}")
    for state in states:
        screen.print(_line(state))
    return True


def _line(state: RunState) -> str:
    waits = f", {state.questions} open question{'s' * (state.questions > 1)}" if state.questions else ""
    since = time.strftime("%Y-%m-%d %H:%M", time.localtime(state.began))
    return f"{one_line(state.run)}  {state.status}{waits}  {since}  {one_line(state.text)[:60]}".rstrip()


def show_run(runs: Runs, run: str, out: TextIO, *, as_json: bool = False, color: bool | None = None) -> bool:
    """Shows what is known of a run: how it stands, its steps, and what it waits for."""
    report = value_of(_explain(runs.show(run)))
    if as_json:
        questions = [{"id": one.id, "replies": one.replies, **msgspec.to_builtins(one)} for one in report.questions]
        steps = [msgspec.to_builtins(step) for step in report.steps]
        began = None if report.input is None else report.input.prompt
        state = msgspec.to_builtins(report.state)
        out.write(json_line({"ok": True, **state, "prompt": began, "steps": steps, "open": questions}))
        return True
    screen = console(out, color)
    screen.print(_line(report.state))
    for step in report.steps:
        screen.print(f"  {step.status:<8}  {one_line(step.name)}  {one_line(step.path)}")
    for question in report.questions:
        screen.print(f"  {question.id}: {one_line(_name(question))}: {one_line(question.reason)}")
        screen.print(f"    fxai runs answer {one_line(run)} {question.id} --{' | --'.join(question.replies)}")
    return True


def _explain(effect: EffectOf[Any, Any, None]) -> Effect[Any, CliError]:
    """The effect, whose failures are errors of the command line."""
    return effect.map_error(lambda failure: CliError(str(failure), ""))


# -- speaking


def reply_of(kind: Answering, given: str | None) -> Reply:
    """The reply that the options say.

    Raises:
        CliError: it needs JSON, and there is none.
    """
    if kind in ("result", "failure"):
        try:
            value = json.loads(given or "")
        except (ValueError, RecursionError) as error:
            what = f"--{kind} needs the result as JSON: {error}"
            raise CliError(what, f"""say --{kind} '"text"', --{kind} 5, …""", code=WRONG_USE) from error
        return Reply.result(value, is_failure=kind == "failure")
    return Reply(kind, None, given or None)


_WORDS: Final[Mapping[str, Answering]] = {
    "approve": "approve",
    "deny": "deny",
    "again": "again",
    "unknown": "unknown",
}


def replies_of(pairs: Sequence[str]) -> dict[str, Reply]:
    """Return the replies of arguments QUESTION=REPLY.

    Raises:
        CliError: A reply is neither a word for a reply nor JSON, or a question has two replies.
    """
    replies: dict[str, Reply] = {}
    for pair in pairs:
        question, _, said = pair.partition("=")
        if question in replies:
            raise CliError(f"the question {question} has two replies", "give one reply to each", code=WRONG_USE)
        replies[question] = reply_of(_WORDS[said], None) if said in _WORDS else reply_of("result", said)
    return replies


def answer_questions(runs: Runs, run: str, replies: Mapping[str, Reply], out: TextIO, *, as_json: bool) -> bool:
    """Answer questions of a run together, and tell what follows."""
    value_of(_explain(runs.answer_all(run, replies)))
    left = len(value_of(_explain(runs.show(run))).questions)
    kinds = ", ".join(dict.fromkeys(reply.kind for reply in replies.values()))
    if as_json:
        first = next(iter(replies))
        out.write(json_line({"ok": True, "run": run, "question": first, "reply": kinds, "open": left}))
    else:
        follows = f"{left} more to answer" if left else _follows(runs, run)
        console(out, None).print(f"answered: {kinds}; {follows}")
    return True


def _follows(runs: Runs, run: str) -> str:
    is_queued = value_of(_explain(runs.show(run))).state.status == "queued"
    return "a worker goes on with it" if is_queued else f"fxai runs resume {run} goes on with it"


def submit_run(
    runs: Runs, run: str, program: str, out: TextIO, *, priority: int = 0, delay: float = 0.0, as_json: bool
) -> bool:
    """Submits a run to workers, and says whether that is new.

    Raises:
        CliError: No worker runs the program, and it cannot be loaded here.
    """
    if not value_of(_explain(runs.is_served(program))):
        _require_target(program)
    try:
        is_new = value_of(_explain(runs.submit(run, program, priority=priority, delay=delay)))
    except ValueError as error:
        raise CliError(str(error), "name the program as fxai runs work was given it", code=WRONG_USE) from error
    if as_json:
        out.write(json_line({"ok": True, "run": run, "new": is_new}))
    else:
        said = "submitted" if is_new else "queued, begun or done already"
        console(out, None).print(f"{said}: {one_line(run)}")
    return True


def _require_target(program: str) -> None:
    from fxai.cli.target import load_matching  # only if no worker is known to have it

    try:
        load_matching(program, callable, "a function of the name of a run")
    except CliError as error:
        raise CliError(
            f"no worker runs {program!r}, and it cannot be loaded here: {error}",
            f"start a worker first: fxai runs work {program}",
            code=WRONG_USE,
        ) from error


def work_on(runs: Runs, targets: tuple[str, ...], err: TextIO, *, concurrency: int, grace: float) -> bool:
    """Works on what is submitted for the programs of the targets, until this process is stopped."""
    from fxai.cli.target import load_matching  # only a worker imports code of its user

    programs = {target: load_matching(target, callable, "a function of the name of a run") for target in targets}

    def tell(_: str) -> None:
        err.write(f"fxai: a worker runs {', '.join(targets)} from {runs.place} (Ctrl-C ends it)\n")
        err.flush()

    value_of(_explain(runs.work(programs, concurrency=concurrency, grace=grace, on_ready=tell)))
    return True


def cancel_run(runs: Runs, run: str, out: TextIO, *, as_json: bool) -> bool:
    """Cancels a run, which then never goes on."""
    value_of(_explain(runs.cancel(run)))
    if as_json:
        out.write(json_line({"ok": True, "run": run}))
    else:
        console(out, None).print(f"cancelled: {one_line(run)}")
    return True


def prompt_of(runs: Runs, run: str) -> str:
    """The prompt that the command line began a run with.

    Raises:
        CliError: there is no such run, or a program of its own began it.
    """
    report: RunReport = value_of(_explain(runs.show(run)))
    if report.input is None:
        began = f"the run {run!r} was not begun by fxai run --durable"
        raise CliError(began, "run its program again, under the same name", code=WRONG_USE)
    return report.input.prompt
