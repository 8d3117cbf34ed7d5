"""The command line: what there is to say, and what becomes of it.

>>> from click.testing import CliRunner
>>> CliRunner().invoke(cli, ["--version"]).output.startswith("fxai ")
True
"""

from __future__ import annotations

import os
import select
import sys
import traceback
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NoReturn, TextIO

import click
import msgspec

from fxai.cli.trouble import INTERRUPTED, PIPE_CLOSED, WRONG_USE, Trouble

if TYPE_CHECKING:
    from fxai.cli.job import Job

__all__ = ["cli", "main"]

_PATIENCE: Final = 0.5
_MORE: Final = """\b
Completion for your shell (bash here; zsh and fish likewise):
  eval "$(_FXAI_COMPLETE=bash_source fxai)"
"""
_MORE_RUN: Final = """\b
Examples:
  fxai run
  fxai run "How many lines are in README.md?"
  echo "Show the last 3 commits" | fxai run --json -
  fxai run --agent app.py:agent --layer app.py:live "Hello"

The default agent reads the files and the git history of the current folder and changes nothing. The local model is
small (270 million parameters): short requests for one thing at a time suit it best.

Exit codes: 0 it answered, 1 it failed, 2 wrong use, 130 stopped by Ctrl-C.
"""


def main() -> None:
    """Runs the command line, and ends the process with its exit code; errors are one line on stderr."""
    try:
        code: Any = cli.main(prog_name="fxai", standalone_mode=False)
    except click.ClickException as wrong:
        context: click.Context | None = getattr(wrong, "ctx", None)
        where = "fxai" if context is None else context.command_path
        print(f"fxai: {Trouble(wrong.format_message(), f'{where} --help shows what there is')}", file=sys.stderr)
        code = wrong.exit_code
    except click.Abort:
        print("fxai: interrupted", file=sys.stderr)
        code = INTERRUPTED
    sys.exit(code if isinstance(code, int) else 0)


def _version(context: click.Context, _: click.Parameter, wanted: bool) -> None:
    if not wanted or context.resilient_parsing:
        return
    try:
        said = metadata.version("fxai")
    except metadata.PackageNotFoundError:
        said = "(a source tree that is not installed)"
    click.echo(f"fxai {said}")
    context.exit()


@click.group(invoke_without_command=True, epilog=_MORE, context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--version", is_flag=True, expose_value=False, is_eager=True, callback=_version, help="Show the version.")
@click.pass_context
def cli(context: click.Context) -> None:
    """Tools for language models as typed values: try them from the command line."""
    if context.invoked_subcommand is None:
        click.echo(context.get_help())


@cli.command(epilog=_MORE_RUN)
@click.argument("prompt", required=False)
@click.option("--agent", metavar="TARGET", help="The agent, as module:name or path.py:name; else the example agent.")
@click.option("--layer", metavar="TARGET", help="The layer of its handlers, and of its model if it gives one.")
@click.option("--model", metavar="NAME", help="local (the default), or local:/path/to/model.gguf.")
@click.option("--rounds", metavar="N", type=click.IntRange(min=1), help="How often the model is asked at most.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object a line: every part, then a closing object.")
@click.option("-q", "--quiet", is_flag=True, help="Only the answer.")
@click.option("--color/--no-color", default=None, help="By default where stdout is a terminal and NO_COLOR is unset.")
@click.option("--debug", is_flag=True, help="When something breaks, show where.")
def run(prompt: str | None, as_json: bool, quiet: bool, color: bool | None, debug: bool, **chosen: Any) -> None:
    """Run an agent on PROMPT and show what it does: turns, calls, results, failures and the answer, as they come.

    Without PROMPT, or with - in its place, the prompt is read from stdin where something is piped in; else the example
    agent is asked three questions of its own.
    """
    stdout, stderr = _writable(sys.stdout), _writable(sys.stderr)
    trouble = _run(stdout, stderr, prompt, as_json=as_json, quiet=quiet, color=color, **chosen)
    if trouble is not None:
        _stop(trouble, stderr, debug=debug)


def _run(
    stdout: TextIO, stderr: TextIO, prompt: str | None, *, as_json: bool, quiet: bool, color: bool | None, **chosen: Any
) -> Trouble | None:
    from fxai.cli.job import run as run_job
    from fxai.cli.lines import AnswerOnly, JsonLines
    from fxai.cli.loading import Loading
    from fxai.cli.screen import Screen
    from fxai.cli.summary import Record

    if as_json and quiet:
        return Trouble("--json and --quiet cannot both be", "take one of them", code=WRONG_USE)
    presenter = JsonLines(stdout) if as_json else AnswerOnly(stdout) if quiet else Screen(stdout, color=color)
    try:
        job = _job(prompt, **chosen)
    except Trouble as trouble:
        presenter.ended(Record().summary(0.0, trouble))
        return trouble
    with Loading(stderr, color=color, quiet=quiet) as loading:
        return run_job(job, presenter, loading, loading.end)


def _job(prompt: str | None, *, agent: str | None, layer: str | None, model: str | None, rounds: int | None) -> Job:
    from fxai.agents.agent import Agent
    from fxai.cli.job import Job
    from fxai.cli.target import load
    from fxai.effects.layer import LayerOf

    own: tuple[str, ...] = ()
    asked: Agent[Any]
    given: LayerOf[Any, Any, Any] | None = None
    if agent is None:
        from fxai.cli import example

        asked, given, own = example.agent, example.layer, example.PROMPTS
    else:
        asked = load(agent, Agent, "an agent")
    if layer is not None:
        kind: type[LayerOf[Any, Any, Any]] = LayerOf
        added = load(layer, kind, "a layer")
        given = added if given is None else given | added
    if rounds is not None:
        asked = msgspec.structs.replace(asked, budget=msgspec.structs.replace(asked.budget, rounds=rounds))
    return Job(asked, given, model, _prompts(prompt, own))


def _prompts(given: str | None, own: tuple[str, ...]) -> tuple[str, ...]:
    """What is asked: as given, else what is piped in, else the example's own."""
    if given in (None, "-"):
        piped = _piped(wait=given == "-" or not own)
        if not (piped or "").strip() and given is None:
            piped = None
        if piped is None and own:
            return own
        if piped is None:
            raise Trouble("there is no prompt", "say what is wanted: fxai run PROMPT, or pipe it in", code=WRONG_USE)
        given = piped
    if not given.strip():
        raise Trouble("the prompt is empty", "say what is wanted: fxai run PROMPT", code=WRONG_USE)
    return (given.encode("utf-8", "surrogateescape").decode("utf-8", "replace"),)


def _piped(*, wait: bool) -> str | None:
    """The text on stdin, if it is no terminal. Without `wait`, only if it comes soon: it may be open and never end."""
    stdin = sys.stdin
    if stdin is None or stdin.isatty():
        if not wait or stdin is None:
            return None
        click.echo("What is wanted? (Ctrl-D ends it)", err=True)
    elif not wait and not _comes_soon(stdin):
        return None
    buffer = getattr(stdin, "buffer", None)
    return stdin.read() if buffer is None else buffer.read().decode("utf-8", "replace")


def _comes_soon(stdin: TextIO) -> bool:
    try:
        return bool(select.select([stdin], [], [], _PATIENCE)[0])
    except (OSError, ValueError):  # no file at all; on Windows, no socket
        return not hasattr(stdin, "fileno") or sys.platform != "win32"


def _stop(trouble: Trouble, stderr: TextIO, *, debug: bool) -> NoReturn:
    if trouble.code == PIPE_CLOSED:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # what is left is for nobody
    else:
        if debug and trouble.cause is not None:
            traceback.print_exception(trouble.cause, file=stderr)
        print(f"fxai: {trouble}", file=stderr)
    click.get_current_context().exit(trouble.code)


def _writable(stream: TextIO | None) -> TextIO:
    """The stream, one that no text is too odd for; one that goes nowhere where there is none."""
    if stream is None:
        return Path(os.devnull).open("w", encoding="utf-8")
    reconfigure: Any = getattr(stream, "reconfigure", None)
    if reconfigure is not None:
        reconfigure(errors="replace")
    return stream
