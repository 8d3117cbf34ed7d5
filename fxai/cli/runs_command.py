"""The commands `fxai runs`: durable runs listed, shown, answered, cancelled and gone on with.

>>> sorted(runs.commands)
['answer', 'cancel', 'list', 'resume', 'show']
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
_MORE: Final = """\b
Examples:
  fxai run --durable order-17 --agent app.py:agent --layer app.py:live "Ship it."
  fxai runs list
  fxai runs show order-17
  fxai runs answer order-17 b38cfe1a4d --approve
  fxai runs resume order-17 --agent app.py:agent --layer app.py:live

A durable run goes on after a crash, in another process, from its journal: what has ended is not run again.
"""
_MORE_ANSWER: Final = """\b
An approval is answered by --approve or --deny, with why; an external call by --result or --failure, in JSON; a call
in doubt by one of these, by --again (it did not run, or may run twice) or by --unknown (the model is told so).
\b
Examples:
  fxai runs answer order-17 b38cfe1a4d --deny "not today"
  fxai runs answer order-17 b38cfe1a4d --result '{"paid": true}'
"""
_MORE_RESUME: Final = """\b
Name the same agent as when it began. What the model was asked with is compared: where the program has changed,
--on-change continue goes on with the new one.

Exit codes: 0 it answered, 1 it failed or waits for answers, 2 wrong use, 130 stopped by Ctrl-C.
"""


@click.group("runs", cls=option.Group, epilog=_MORE, **option.GROUP)
@click.pass_context
def runs(context: click.Context) -> None:
    """Durable runs: what there is, what each waits for, and going on with one."""
    if context.invoked_subcommand is None:
        click.echo(context.get_help())


@runs.command("list")
@_STORE
@option.as_json
@option.color
@option.debug
def list_command(store: str | None, as_json: bool, color: bool | None, debug: bool) -> None:
    """Show how every run stands, the newest first."""

    def work(out: TextIO, _: TextIO) -> bool:
        from fxai.cli.run_list import runs_at, show_list

        return show_list(runs_at(store), out, as_json=as_json, color=color)

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
@click.argument("question")
@click.option("--approve", is_flag=True, help="The call may run.")
@click.option("--deny", metavar="WHY", is_flag=False, flag_value="", help="The call may not run; the model reads why.")
@click.option("--result", metavar="JSON", help="What the call gave.")
@click.option("--failure", metavar="JSON", help="What it failed with.")
@click.option("--again", is_flag=True, help="Run a call in doubt again.")
@click.option("--unknown", is_flag=True, help="Nobody knows what became of it: tell the model.")
@_STORE
@option.as_json
@option.debug
def answer(run: str, question: str, store: str | None, as_json: bool, debug: bool, **chosen: Any) -> None:
    """Answer QUESTION of RUN: its id, or the id of its call."""
    given = [(name, value) for name, value in chosen.items() if value not in (None, False)]
    if len(given) != 1:
        raise click.UsageError("say one of --approve, --deny, --result, --failure, --again and --unknown")
    kind, value = given[0]

    def work(out: TextIO, _: TextIO) -> bool:
        from fxai.cli.run_list import answer_question, reply_of, runs_at

        reply = reply_of(cast(Any, kind), value if isinstance(value, str) else None)
        return answer_question(runs_at(store), run, question, reply, out, as_json=as_json)

    run_command(work, as_json=as_json, debug=debug)


@runs.command()
@click.argument("run")
@_STORE
@option.as_json
@option.debug
def cancel(run: str, store: str | None, as_json: bool, debug: bool) -> None:
    """Have RUN end, and never go on: a program that goes on with it is interrupted within about a second."""

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
