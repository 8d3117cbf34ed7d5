"""Durable runs on the command line. Use these functions for `fxai runs` and for `fxai run --durable`.

>>> import io
>>> show_list(out := io.StringIO(), out, store="no-such.db", as_json=True)
True
>>> print(out.getvalue().strip())
{"ok":true,"runs":[]}
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from typing import Any, Final, Literal, TextIO, TypeAlias, final

import msgspec

from fxai.cli.exit import CliError, wrong_use
from fxai.cli.run_program import value_of
from fxai.cli.screen import console
from fxai.durable import OnChange, Reply, RunQuestion, RunReport, Runs, RunState, durable
from fxai.durable.record import Input
from fxai.effects import Effect, EffectOf, Gen, Layer, fx
from fxai.schema.display import in_line, json_line, one_line

Answering: TypeAlias = Literal["approve", "deny", "result", "failure", "again", "unknown"]
"""The options of `fxai runs answer`. The user passes one of them."""


@final
class DurableArgs(msgspec.Struct, frozen=True):
    """The options of a durable run: its name, the store of its journal, and the action after a program change."""

    run: str
    store: str | None = None
    on_change: OnChange = "refuse"

    def layer(self) -> Layer[Any, Any, Any]:
        """Return the layer that makes a program a durable run."""
        runs = runs_at(self.store)
        try:
            return durable(Layer.empty(), run=self.run, store=runs, on_change=self.on_change)
        except ValueError as error:
            raise wrong_use(f"--durable: {error}", "Choose another name.") from error

    @fx.gen
    def begin(self, prompt: str) -> Gen[None, Any]:
        """Write the prompt to the journal of the run."""
        self.layer()
        journal = yield from _explain(runs_at(self.store).open(self.run, may_begin=True))
        begun = journal.known.input
        if begun is None:
            yield from journal.append(Input(prompt))
        elif begun.prompt != prompt:
            error = wrong_use(
                f"run {self.run!r} already has another prompt",
                f"To continue it, use fxai runs resume {self.run}. For a new run, choose another name.",
            )
            yield from fx.fail(error)

    @fx.gen
    def waiting(self) -> Gen[CliError | None, CliError]:
        """Return the error if the run needs answers, or stopped just before they arrived, otherwise None."""
        report: RunReport = yield from _explain(runs_at(self.store).show(self.run))
        if not report.questions:
            stopped = f"run {self.run!r} stopped just before its answers arrived"
            is_left = report.state.status == "stopped"
            return CliError(stopped, f"Use fxai runs resume {self.run}.") if is_left else None
        asked = "; ".join(f"{_name(one)} ({one.id})" for one in report.questions)
        pairs = " ".join(f"{one.id}=REPLY" for one in report.questions)
        remedy = f"Use fxai runs answer {self.run} {pairs}, then fxai runs resume {self.run}."
        return CliError(f"run {self.run!r} needs answers about {asked}", remedy)


def _name(question: RunQuestion) -> str:
    return f"{question.tool} {in_line(question.params)}"


def runs_at(store: str | None) -> Runs:
    """Return the runs in a store, which `Runs.at` finds."""
    try:
        return Runs.at(store)
    except ValueError as error:
        raise wrong_use(f"--store: {error}", "Pass FILE.db or a PostgreSQL URL.") from error
    except ImportError as error:
        raise CliError(str(error), "Run pip install 'fxai[postgres]'.") from error


# -- lists


def show_list(
    out: TextIO, _: TextIO, *, store: str | None, as_json: bool = False, color: bool | None = None, **chosen: Any
) -> bool:
    """Show the status of runs, newest first. `chosen` are the parameters of `Runs.list`."""
    runs = runs_at(store)
    states = value_of(_explain(runs.list(**chosen)))
    if as_json:
        out.write(json_line({"ok": True, "runs": msgspec.to_builtins(states)}))
        return True
    screen = console(out, color)
    if not states:
        screen.print(f"no runs in {runs.location}")
    for state in states:
        screen.print(_line(state))
    return True


def _line(state: RunState) -> str:
    waits = f", {state.questions} open question{'s' * (state.questions > 1)}" if state.questions else ""
    since = time.strftime("%Y-%m-%d %H:%M", time.localtime(state.began))
    return f"{one_line(state.run)}  {state.status}{waits}  {since}  {one_line(state.text)[:60]}".rstrip()


def show_run(out: TextIO, _: TextIO, *, run: str, store: str | None, as_json: bool, color: bool | None) -> bool:
    """Show the status of a run, its steps, and its open questions."""
    report: RunReport = value_of(_explain(runs_at(store).show(run)))
    if as_json:
        shown = {
            **msgspec.to_builtins(report.state),
            "prompt": None if report.input is None else report.input.prompt,
            "steps": report.steps,
            "open": [{"id": one.id, "replies": one.replies, **msgspec.to_builtins(one)} for one in report.questions],
            "unread": report.unread,
        }
        out.write(json_line({"ok": True, **msgspec.to_builtins(shown)}))
        return True
    screen = console(out, color)
    screen.print(_line(report.state))
    for step in report.steps:
        screen.print(f"  {step.status:<8}  {one_line(step.name)}  {one_line(step.path)}")
    for question in report.questions:
        screen.print(f"  {question.id}: {one_line(_name(question))}: {one_line(question.reason)}")
        screen.print(f"    fxai runs answer {one_line(run)} {question.id} --{' | --'.join(question.replies)}")
    for sent in report.unread:
        screen.print(f"  unread message ({sent.delivery}): {one_line(sent.text)}")
    return True


def _explain(effect: EffectOf[Any, Any, None]) -> Effect[Any, CliError]:
    """Return the effect with its failures as `CliError`."""
    return effect.map_error(lambda failure: CliError(str(failure), ""))


# -- changes


def reply_of(kind: Answering, given: str | bool | None) -> Reply:
    """Return the reply for an option and its value."""
    text = given if isinstance(given, str) else ""
    if kind in ("result", "failure"):
        try:
            value = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise wrong_use(f"--{kind} must be JSON: {error}", f"""Pass --{kind} '"text"', --{kind} 5, …""") from error
        return Reply.result(value, is_failure=kind == "failure")
    return Reply(kind, None, text or None)


_PROGRAM: Final = "a function that receives the name of a run"

_WORDS: Final[tuple[Answering, ...]] = ("approve", "deny", "again", "unknown")


def replies_of(pairs: Sequence[str]) -> dict[str, Reply]:
    """Return the replies of arguments QUESTION=REPLY."""
    replies: dict[str, Reply] = {}
    for pair in pairs:
        question, _, given = pair.partition("=")
        if question in replies:
            raise wrong_use(f"question {question} has two replies", "Pass one reply for each.")
        words: list[Answering] = [word for word in _WORDS if word == given]
        word = words[0] if words else "result"
        replies[question] = reply_of(word, given if word == "result" else None)
    return replies


def tell(out: TextIO, data: dict[str, Any], text: str, *, as_json: bool) -> bool:
    """Write the data of a change as JSON, or the text."""
    if as_json:
        out.write(json_line({"ok": True, **data}))
    else:
        console(out, None).print(text)
    return True


def answer_questions(out: TextIO, *, run: str, replies: Mapping[str, Reply], store: str | None, as_json: bool) -> bool:
    """Answer questions of a run together, and show the next action."""
    runs = runs_at(store)
    value_of(_explain(runs.answer_all(run, replies)))
    left = len(value_of(_explain(runs.show(run))).questions)
    kinds = ", ".join(dict.fromkeys(reply.kind for reply in replies.values()))
    data = {"run": run, "question": next(iter(replies)), "reply": kinds, "open": left}
    follows = f"Open questions: {left}." if left else _follows(runs, run)
    return tell(out, data, f"answered: {kinds}. {follows}", as_json=as_json)


def _follows(runs: Runs, run: str) -> str:
    is_queued = value_of(_explain(runs.show(run))).state.status == "queued"
    return "A worker continues the run." if is_queued else f"To continue it, use fxai runs resume {run}."


def submit_run(
    out: TextIO, _: TextIO, *, run: str, program: str, store: str | None, priority: int, delay: float, as_json: bool
) -> bool:
    """Submit a run to workers, and show whether it is new."""
    runs = runs_at(store)
    if not value_of(_explain(runs.is_served(program))):
        from fxai.cli.target import load_matching  # imported only if no known worker runs the program

        try:
            load_matching(program, callable, _PROGRAM)
        except CliError as error:
            problem = f"no worker runs {program!r}, and this command cannot load it: {error}"
            raise wrong_use(problem, f"First start a worker: fxai runs work {program}") from error
    try:
        is_new = value_of(_explain(runs.submit(run, program, priority=priority, delay=delay)))
    except ValueError as error:
        raise wrong_use(str(error), "Name the program as in fxai runs work.") from error
    given = "submitted" if is_new else "already queued, started, or done"
    return tell(out, {"run": run, "new": is_new}, f"{given}: {one_line(run)}", as_json=as_json)


def work_on(_: TextIO, err: TextIO, *, targets: tuple[str, ...], store: str | None, **limits: Any) -> bool:
    """Run the submitted runs of the target programs until this process stops. `limits` are options of `Runs.work`."""
    from fxai.cli.target import load_matching  # imported only by workers, which load user code

    runs = runs_at(store)
    programs = {target: load_matching(target, callable, _PROGRAM) for target in targets}

    def announce(_name: str) -> None:
        err.write(f"fxai: worker runs {', '.join(targets)} from {runs.location}. Press Ctrl-C to stop.\n")

    value_of(_explain(runs.work(programs, on_ready=announce, **limits)))
    return True


def cancel_run(out: TextIO, _: TextIO, *, run: str, store: str | None, as_json: bool) -> bool:
    """Cancel a run permanently."""
    value_of(_explain(runs_at(store).cancel(run)))
    return tell(out, {"run": run}, f"cancelled: {one_line(run)}", as_json=as_json)


def steer_run(
    out: TextIO, _: TextIO, *, run: str, message: str, store: str | None, queue: bool, id: str | None, as_json: bool
) -> bool:
    """Send a message to a run."""
    if not message.strip():
        raise wrong_use("MESSAGE must not be blank", "Pass the text for the run.")
    runs = runs_at(store)
    value_of(_explain((runs.queue if queue else runs.steer)(run, message, id=id)))
    status = value_of(_explain(runs.show(run))).state.status
    moment = "after its answer" if queue else "before its next request"
    follows = "" if status == "running" else f" {_follows(runs, run)}"
    text = f"sent: {one_line(run)} reads the message {moment}.{follows}"
    return tell(out, {"run": run, "delivery": "queue" if queue else "steer"}, text, as_json=as_json)


def prompt_of(run: str, store: str | None) -> str:
    """Return the prompt of a run that the command line started."""
    report: RunReport = value_of(_explain(runs_at(store).show(run)))
    if report.input is None:
        began = f"fxai run --durable did not start run {run!r}"
        raise wrong_use(began, "Resume it with its own program and the same name.")
    return report.input.prompt
