"""The commands `fxai runs`: durable runs listed, shown, answered, cancelled and gone on with, by workers too.

>>> sorted(runs.commands)
['answer', 'cancel', 'list', 'resume', 'show', 'submit', 'work']
"""

from __future__ import annotations

from typing import Any, Final, TextIO, cast

import click

from fxai.cli import option
from fxai.cli.exit import run_command

_STORE: Final = click.option(
    "--store",
    metavar="PLACE",
    help="Where the runs are: FILE.db for SQLite, or a URL of PostgreSQL; else $FXAI_RUNS, else fxai-runs.db.",
)
_STATUSES: Final = ("queued", "running", "waiting", "done", "failed", "cancelled", "stopped")
_MORE: Final = """\b
Examples:
  fxai run --durable order-17 --agent app.py:agent --layer app.py:live "Ship it."
  fxai runs list
  fxai runs show order-17
  fxai runs answer order-17 b38cfe1a4d --approve
  fxai runs resume order-17 --agent app.py:agent --layer app.py:live

A durable run goes on after a crash, in another process, from its journal: what has ended is not run again.
"""
_MORE_ANSWER: Final = """An approval is answered by --approve or --deny, with why; an external call by --result or
--failure, in JSON; a call in doubt by one of these, by --again (it did not run, or may run twice) or by --unknown
(the model is told so). Several questions are answered together as QUESTION=REPLY: approve, deny, again, unknown, or
the result as JSON.

\b
Examples:
  fxai runs answer order-17 b38cfe1a4d --deny "not today"
  fxai runs answer order-17 b38cfe1a4d=again 0f6a1be0c2=approve 91d3e8c7aa='{"paid": true}'
  fxai runs answer order-17 b38cfe1a4d --result '{"paid": true}'
"""
_MORE_SUBMIT: Final = """PROGRAM is what workers call it: the target that fxai runs work was given. A run that is
queued, that a worker has, or that is done is not submitted again. If no worker runs PROGRAM, it must be a target that
can be loaded here: module:name or path.py:name.

\b
Examples:
  fxai runs submit order-17 shop:handle_order
  fxai runs submit order-18 shop:handle_order --priority 5 --delay 60
"""
_MORE_WORK: Final = """TARGET is module:name or path.py:name of a function that gives, of the name of a run, its
program with its durable layer. A run that waits for an answer leaves the worker; the answer submits it again. Runs of
a worker that is lost are gone on with by others. Ctrl-C lets the runs that it has end; a second one does not wait.

\b
Examples:
  fxai runs work shop:handle_order
  fxai runs work shop:handle_order shop:send_invoice --store postgresql://runs@db/runs --concurrency 50

Exit codes: 1 it cannot work, 2 wrong use, 130 and 143 stopped by a signal.
"""
_MORE_RESUME: Final = """Name the same agent as when it began. What the model was asked with is compared: where the
program has changed, --on-change continue goes on with the new one.

Exit codes: 0 it answered, 1 it failed or waits for answers, 2 wrong use, 130 stopped by Ctrl-C.
"""


@click.group("runs", cls=option.Group, epilog=_MORE, **option.GROUP)
@click.pass_context
def runs(context: click.Context) -> None:
    """Durable runs: what there is, what each waits for, and going on with one."""
    if context.invoked_subcommand is None:
        click.echo(context.get_help())


@runs.command("list")
@click.option("--status", type=click.Choice(_STATUSES), help="Status of the runs. Default: any.")
@click.option("--prefix", default="", metavar="TEXT", help="First characters of their names. Default: any.")
@click.option("--limit", type=click.IntRange(min=1), help="Maximum number of runs. Default: all.")
@click.option("--after", metavar="RUN", help="Last run of the page before. Default: the first page.")
@_STORE
@option.as_json
@option.color
@option.debug
def list_command(store: str | None, as_json: bool, color: bool | None, debug: bool, **chosen: Any) -> None:
    """Show the status of runs, the newest first."""

    def work(out: TextIO, _: TextIO) -> bool:
        from fxai.cli.run_list import runs_at, show_list

        return show_list(runs_at(store), out, as_json=as_json, color=color, **chosen)

    run_command(work, as_json=as_json, debug=debug)


@runs.command()
@click.argument("run")
@_STORE
@option.as_json
@option.color
@option.debug
def show(run: str, store: str | None, as_json: bool, color: bool | None, debug: bool) -> None:
    """Show what is known of RUN: how it stands, its turns and calls, and what it waits for."""

    def work(out: TextIO, _: TextIO) -> bool:
        from fxai.cli.run_list import runs_at, show_run

        return show_run(runs_at(store), run, out, as_json=as_json, color=color)

    run_command(work, as_json=as_json, debug=debug)


@runs.command(epilog=_MORE_ANSWER)
@click.argument("run")
@click.argument("questions", metavar="QUESTION...", nargs=-1, required=True)
@click.option("--approve", is_flag=True, help="The call may run.")
@click.option("--deny", metavar="WHY", is_flag=False, flag_value="", help="The call may not run; the model reads why.")
@click.option("--result", metavar="JSON", help="What the call gave.")
@click.option("--failure", metavar="JSON", help="What it failed with.")
@click.option("--again", is_flag=True, help="Run a call in doubt again.")
@click.option("--unknown", is_flag=True, help="Nobody knows what became of it: tell the model.")
@_STORE
@option.as_json
@option.debug
def answer(run: str, questions: tuple[str, ...], store: str | None, as_json: bool, debug: bool, **chosen: Any) -> None:
    """Answer each QUESTION of RUN: its id, or the id of its call."""
    given = [(name, value) for name, value in chosen.items() if value not in (None, False)]
    if len(given) > 1 or (not given and any("=" not in one for one in questions)):
        raise click.UsageError(
            "give one of --approve, --deny, --result, --failure, --again and --unknown, or QUESTION=REPLY"
        )

    def work(out: TextIO, _: TextIO) -> bool:
        from fxai.cli.run_list import answer_questions, replies_of, reply_of, runs_at

        if given:
            kind, value = given[0]
            reply = reply_of(cast(Any, kind), value if isinstance(value, str) else None)
            replies = dict.fromkeys(questions, reply)
        else:
            replies = replies_of(questions)
        return answer_questions(runs_at(store), run, replies, out, as_json=as_json)

    run_command(work, as_json=as_json, debug=debug)


@runs.command()
@click.argument("run")
@_STORE
@option.as_json
@option.debug
def cancel(run: str, store: str | None, as_json: bool, debug: bool) -> None:
    """Cancel RUN for good. A program that works on RUN is interrupted within about a second."""

    def work(out: TextIO, _: TextIO) -> bool:
        from fxai.cli.run_list import cancel_run, runs_at

        return cancel_run(runs_at(store), run, out, as_json=as_json)

    run_command(work, as_json=as_json, debug=debug)


@runs.command(epilog=_MORE_RESUME)
@click.argument("run")
@_STORE
@click.option(
    "--on-change",
    type=click.Choice(["refuse", "old", "continue"]),
    default="refuse",
    show_default=True,
    help="What becomes of it where the program is not the one that began it.",
)
@option.agent_options
@click.option("--json", "as_json", is_flag=True, help="One JSON object a line: every part, then a closing object.")
@click.option("-q", "--quiet", is_flag=True, help="Only the answer.")
@click.option("--color/--no-color", default=None, help="By default where stdout is a terminal and NO_COLOR is unset.")
@option.debug
def resume(run: str, store: str | None, on_change: Any, as_json: bool, debug: bool, **chosen: Any) -> None:
    """Go on with RUN, which fxai run --durable began."""

    def work(out: TextIO, err: TextIO) -> bool:
        from fxai.cli.job import run_agent
        from fxai.cli.run_list import DurableArgs, prompt_of, runs_at

        prompt = prompt_of(runs_at(store), run)
        made = DurableArgs(run=run, store=store, on_change=on_change)
        return run_agent(out, err, prompt, made, as_json=as_json, **chosen)

    run_command(work, as_json=as_json, debug=debug, closes=False)


# -- workers


@runs.command(epilog=_MORE_SUBMIT)
@click.argument("run")
@click.argument("program")
@click.option("--priority", type=int, default=0, show_default=True, help="Runs of a higher one go first.")
@click.option("--delay", type=click.FloatRange(min=0), default=0.0, help="How many seconds it waits at least.")
@_STORE
@option.as_json
@option.debug
def submit(run: str, program: str, store: str | None, as_json: bool, debug: bool, **chosen: Any) -> None:
    """Submit RUN, so that a worker begins or continues it with PROGRAM."""

    def work(out: TextIO, _: TextIO) -> bool:
        from fxai.cli.run_list import runs_at, submit_run

        return submit_run(runs_at(store), run, program, out, as_json=as_json, **chosen)

    run_command(work, as_json=as_json, debug=debug)


@runs.command(epilog=_MORE_WORK)
@click.argument("targets", nargs=-1, required=True, metavar="TARGET...")
@_STORE
@click.option(
    "--concurrency", type=click.IntRange(min=1), default=16, show_default=True, help="How many runs it has at once."
)
@click.option(
    "--grace", type=click.FloatRange(min=0), default=30.0, show_default=True, help="Seconds that runs have to end."
)
@option.debug
def work(targets: tuple[str, ...], store: str | None, debug: bool, **chosen: Any) -> None:
    """Run what is submitted, by the programs that TARGET names, until it is stopped."""

    def serve(_: TextIO, err: TextIO) -> bool:
        from fxai.cli.run_list import runs_at, work_on

        return work_on(runs_at(store), targets, err, **chosen)

    run_command(serve, as_json=False, debug=debug)
