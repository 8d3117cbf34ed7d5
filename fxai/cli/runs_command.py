"""The commands `fxai runs`. Use them to list, answer, steer, cancel, resume, and compare runs, and to start workers.

>>> sorted(runs.commands)
['answer', 'cancel', 'diff', 'list', 'record', 'replay', 'resume', 'show', 'steer', 'submit', 'work']
"""

from __future__ import annotations

from typing import Any, Final, TextIO

import click

from fxai.cli import option
from fxai.cli.exit import WRONG_USE

_STORE: Final = option.value(
    "--store PATH_OR_URL",
    "Store of the runs: FILE.db for SQLite, or a PostgreSQL URL. Default: $FXAI_RUNS, otherwise fxai-runs.db.",
)
_STATUSES: Final = ("queued", "running", "waiting", "done", "failed", "cancelled", "stopped")
_MORE: Final = """\b
Examples:
  fxai run --durable order-17 --agent app.py:agent --layer app.py:live "Ship it."
  fxai runs list
  fxai runs show order-17
  fxai runs answer order-17 b38cfe1a4d --approve
  fxai runs resume order-17 --agent app.py:agent --layer app.py:live

A durable run records its steps in a journal. After a crash, another process can resume it. Finished steps do not run
again.
"""
_MORE_ANSWER: Final = """Answer an approval with --approve or --deny [WHY]. Answer an external call with --result or
--failure, in JSON. If the outcome of a call is unknown, answer with one of these options, with --again (the call did
not run, or can run twice), or with --unknown (the model receives a note). To answer several questions together, write
QUESTION=REPLY for each. REPLY is approve, deny, again, unknown, or the result as JSON.

\b
Examples:
  fxai runs answer order-17 b38cfe1a4d --deny "not today"
  fxai runs answer order-17 b38cfe1a4d=again 0f6a1be0c2=approve 91d3e8c7aa='{"paid": true}'
  fxai runs answer order-17 b38cfe1a4d --result '{"paid": true}'
"""
_MORE_SUBMIT: Final = """PROGRAM is the TARGET that you passed to fxai runs work. If RUN is already queued, claimed by a
worker, or done, the command changes nothing. If no worker runs PROGRAM, PROGRAM must be a target that this command can
load: module:name or path.py:name.

\b
Examples:
  fxai runs submit order-17 shop:handle_order
  fxai runs submit order-18 shop:handle_order --priority 5 --delay 60
"""
_MORE_WORK: Final = """TARGET is the module:name or path.py:name of a function. The function receives the name of a run
and returns its program with a durable layer. If a run waits for an answer, the worker releases it. The answer submits
the run again. If a worker is lost, other workers resume its runs. Ctrl-C lets active runs finish. A second Ctrl-C stops
the worker immediately.

\b
Examples:
  fxai runs work shop:handle_order
  fxai runs work shop:handle_order shop:send_invoice --store postgresql://runs@db/runs --concurrency 50

Exit codes: 1 the worker could not start, 2 wrong use, 130 and 143 stopped by a signal.
"""
_MORE_STEER: Final = """A run that fxai run --durable started reads the message. The program of another run
must provide an Inbox. A stopped run reads the message when it resumes. To list the messages that RUN has not read, use
fxai runs show RUN.

\b
Examples:
  fxai runs steer order-17 "Ship it to Oslo instead."
  fxai runs steer order-17 --queue "Then write the invoice."
"""
_MORE_RESUME: Final = """Pass the same agent as at the start of the run. fxai compares its requests with the recorded
requests. If the program changed, pass --on-change continue to continue with the new program.

Exit codes: 0 the agent answered, 1 it failed or needs answers, 2 wrong use, 130 stopped by Ctrl-C.
"""
_MORE_DIFF: Final = """BEFORE and AFTER are names of durable runs, or files that fxai runs record wrote (NAME.json). The
difference names calls, parameters, results, and the answer by JSON pointers. To ignore a value, pass its pointer. *
stands for any tool, member, or index.

\b
Examples:
  fxai runs diff order-17 order-18
  fxai runs diff order-17.json order-18 --ignore /usage --ignore '/calls/*/result/time'

Exit codes: 0 the runs are the same, 1 they differ, 2 an error, 130 stopped by Ctrl-C.
"""
_MORE_RECORD: Final = """FILE must end in .json. Only its owner can read it. fxai removes values that look like a key.

\b
Example:
  fxai runs record order-17 tests/order-17.json

Exit codes: 0 the file is written, 2 an error, 130 stopped by Ctrl-C.
"""
_MORE_REPLAY: Final = """SOURCE is the name of a durable run, or a file that fxai runs record wrote. With --with turns,
the model answers from the record, and the tools run. With --with results, the tools answer from the record, and the
model runs. If the record cannot answer, the replay stops there.

\b
Examples:
  fxai runs replay order-17.json --agent app.py:agent --layer app.py:handlers
  fxai runs replay order-17.json --with results --agent app.py:agent --layer app.py:handlers --model openai:gpt-5.5

Exit codes: 0 the runs are the same, 1 they differ, 2 an error, 130 stopped by Ctrl-C.
"""
_IGNORE: Final = option.value("--ignore POINTER", "JSON pointer of values to ignore. Repeatable.", multiple=True)


@click.group("runs", cls=option.Group, epilog=_MORE)
def runs() -> None:
    """List, show, answer, steer, cancel, resume, and compare durable runs."""


@runs.command("list", work="fxai.cli.run_list:show_list")
@click.option("--status", type=click.Choice(_STATUSES), help="Status of the runs. Default: any.")
@option.value("--prefix TEXT", "First characters of the run names. Default: any.", default="")
@option.value("--limit N", "Maximum number of runs. Default: all.", type=click.IntRange(min=1))
@option.value("--after RUN", "Last run of the previous page. Default: start with the first page.")
@_STORE
@option.shown
def list_command() -> None:
    """Show the status of runs, newest first."""


@runs.command(work="fxai.cli.run_list:show_run")
@click.argument("run")
@_STORE
@option.shown
def show() -> None:
    """Show the status of RUN, its turns and calls, and its open questions."""


@runs.command(epilog=_MORE_ANSWER)
@click.argument("run")
@click.argument("questions", metavar="QUESTION...", nargs=-1, required=True)
@click.option("--approve", is_flag=True, help="Approve the call.")
@option.value("--deny WHY", "Deny the call; the model receives WHY.", is_flag=False, flag_value="")
@option.value("--result JSON", "Result of the call.")
@option.value("--failure JSON", "Failure of the call.")
@click.option("--again", is_flag=True, help="Run a call with an unknown outcome again.")
@click.option("--unknown", is_flag=True, help="Tell the model that the outcome is unknown.")
@_STORE
@option.as_json
def answer(out: TextIO, _: TextIO, run: str, store: str | None, as_json: bool, **chosen: Any) -> bool:
    """Answer each QUESTION of RUN. QUESTION is the id of a question or of its call."""
    from fxai.cli.run_list import answer_questions, replies_of, reply_of

    questions: tuple[str, ...] = chosen.pop("questions")
    given: list[tuple[Any, Any]] = [(name, value) for name, value in chosen.items() if value not in (None, False)]
    if len(given) > 1 or (not given and any("=" not in one for one in questions)):
        raise click.UsageError(
            "missing reply. Pass one of --approve, --deny, --result, --failure, --again, --unknown, and QUESTION=REPLY."
        )
    replies = dict.fromkeys(questions, reply_of(*given[0])) if given else replies_of(questions)
    return answer_questions(out, run=run, replies=replies, store=store, as_json=as_json)


@runs.command(work="fxai.cli.run_list:cancel_run")
@click.argument("run")
@_STORE
@option.as_json
def cancel() -> None:
    """Cancel RUN permanently. If a program runs RUN, it stops within about a second."""


@runs.command(epilog=_MORE_STEER, work="fxai.cli.run_list:steer_run")
@click.argument("run")
@click.argument("message")
@click.option("--queue", is_flag=True, help="Wait for the answer of RUN. Default: join its next request.")
@option.value("--id ID", "Id of the message. fxai ignores a second message with this id.")
@_STORE
@option.as_json
def steer() -> None:
    """Send MESSAGE to RUN, which any process can run."""


@runs.command(epilog=_MORE_RESUME, reports=False)
@click.argument("run")
@_STORE
@click.option(
    "--on-change",
    type=click.Choice(["refuse", "old", "continue"]),
    default="refuse",
    show_default=True,
    help="Action if the program changed after the start of the run.",
)
@option.agent_options
@option.presented
def resume(out: TextIO, err: TextIO, run: str, store: str | None, on_change: Any, **given: Any) -> bool:
    """Resume RUN, which fxai run --durable started."""
    from fxai.cli.run_list import DurableArgs, prompt_of
    from fxai.cli.setting import run_agent

    return run_agent(
        out, err, prompt=prompt_of(run, store), durable=DurableArgs(run=run, store=store, on_change=on_change), **given
    )


# -- recorded runs


@runs.command("record", epilog=_MORE_RECORD, failed=WRONG_USE, work="fxai.cli.run_compare:write_record")
@click.argument("run")
@click.argument("file", type=click.Path())
@_STORE
@option.as_json
def record_command() -> None:
    """Write RUN to FILE, for fxai runs diff, fxai runs replay, and tests."""


@runs.command(epilog=_MORE_DIFF, failed=WRONG_USE)
@click.argument("before")
@click.argument("after")
@_IGNORE
@_STORE
@option.as_json
def diff(out: TextIO, _: TextIO, before: str, after: str, store: str | None, **given: Any) -> bool:
    """Show the differences between two runs."""
    from fxai.cli.run_compare import find_record, show_difference

    return show_difference(out, find_record(before, store), find_record(after, store), **given)


@runs.command("replay", epilog=_MORE_REPLAY, failed=WRONG_USE, work="fxai.cli.run_compare:replay")
@click.argument("source")
@click.option(
    "--with",
    "recorded",
    type=click.Choice(["turns", "results", "both"]),
    default="turns",
    show_default=True,
    help="Part of the record that answers.",
)
@option.value("--prompt TEXT", "Prompt of the run. Default: the prompt in the record.")
@_IGNORE
@_STORE
@option.as_json
@option.replay_options
def replay_command() -> None:
    """Run an agent again with the record SOURCE, and show the differences."""


# -- workers


@runs.command(epilog=_MORE_SUBMIT, work="fxai.cli.run_list:submit_run")
@click.argument("run")
@click.argument("program")
@click.option("--priority", type=int, default=0, show_default=True, help="Priority; higher values run first.")
@option.value(
    "--delay SECONDS", "Seconds to wait before the run. Default: 0.", type=click.FloatRange(min=0), default=0.0
)
@_STORE
@option.as_json
def submit() -> None:
    """Submit RUN, so that a worker starts or continues it with PROGRAM."""


@runs.command(epilog=_MORE_WORK, work="fxai.cli.run_list:work_on")
@click.argument("targets", nargs=-1, required=True, metavar="TARGET...")
@_STORE
@option.value(
    "--concurrency N", "Maximum number of active runs.", type=click.IntRange(min=1), default=16, show_default=True
)
@option.value(
    "--grace SECONDS",
    "Seconds to let active runs finish.",
    type=click.FloatRange(min=0),
    default=30.0,
    show_default=True,
)
def work() -> None:
    """Run submitted runs with the programs in TARGET, until you stop the worker."""
