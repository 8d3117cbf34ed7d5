"""The command line: its commands with their options; `main` runs them.

>>> from click.testing import CliRunner
>>> CliRunner().invoke(cli, ["--version"]).output.startswith("fxai ")
True
>>> chat_command.name
'chat'
"""

from __future__ import annotations

import os
import sys
from contextlib import redirect_stderr, redirect_stdout, suppress
from importlib import metadata
from typing import Any, Final, TextIO

import click

from fxai.cli import option
from fxai.cli.exit import PIPE_CLOSED, CliError, abandon, error_from, run_command, writable
from fxai.cli.mcp_command import mcp
from fxai.cli.runs_command import runs
from fxai.cli.worker_command import worker_command
from fxai.schema.display import json_line

_MORE_CHAT: Final = """\b
Examples:
  fxai chat
  fxai chat --model openai:gpt-5.5 --memory notes.jsonl
  fxai chat --agent app.py:agent --layer app.py:live
  fxai chat --agent app.py:prompt --layer app.py:live --state state.json
  fxai chat --mcp "uvx mcp-server-git" --mcp "time=uvx mcp-server-time"
  fxai chat --resume
  printf 'Hello\\nWho are you?\\n' | fxai chat --json

In a terminal: /help shows what else can be typed. Ctrl-C stops an answer, and the conversation is as it was before;
where nothing is being answered it leaves, as Ctrl-D and /exit do. A call that asks for approval is shown with what it
would be run with, and runs only if you say so: an agent's own tools say themselves whether they ask, those of --mcp
ask unless their server marks them read-only, or --yes is given.

Piped in, each line is sent in turn. Where a call asks for approval, the next line is /approve or /deny [REASON]; any
other line denies it, and is sent next.

Exit codes: 0 it was left, 1 it could not begin, or an answer to a piped line failed, 2 wrong use, 130 stopped.
"""


@click.command("chat", cls=option.Command, epilog=_MORE_CHAT)
@option.agent_options
@click.option(
    "--store",
    metavar="PLACE",
    type=click.Path(),
    help="Where conversations are kept: a folder, or FILE.db for SQLite. Else, in a terminal, your data folder.",
)
@click.option(
    "--resume",
    metavar="[WHICH]",
    is_flag=False,
    flag_value="",
    help="Go on with a conversation: the last one, or WHICH by its id or words of its title.",
)
@click.option("--list", "listing", is_flag=True, help="Show the conversations that can be gone on with.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object a line, as fxai run --json, for each answer.")
@option.color
@option.debug
def chat_command(as_json: bool, color: bool | None, debug: bool, listing: bool, **chosen: Any) -> None:
    """Talk with an agent: its answers, calls and results as they come.

    Without --agent it is the example agent; with --mcp or --system, an agent with nothing else.
    """

    def work(out: Any, err: Any) -> bool:
        from fxai.cli.chat_command import ChatArgs, chat, list_chats
        from fxai.cli.job import AgentArgs

        keeping = ChatArgs(store=chosen.pop("store"), resume=chosen.pop("resume"))
        if listing:
            return list_chats(keeping.store, out, as_json=as_json)
        return chat(AgentArgs(**chosen), out, err, keeping=keeping, as_json=as_json, color=color)

    run_command(work, as_json=as_json, debug=debug, closing={"type": "done"})


_MORE_SERVE: Final = """\b
Examples:
  fxai serve
  fxai serve app.py:agent --layer app.py:live --model openai:gpt-5.5
  fxai serve app.py:agent --layer app.py:live --store chats.db
  fxai serve --mcp "uvx mcp-server-git" --port 8080
  TOKEN=… fxai serve app.py:agent --host 0.0.0.0 --token-env TOKEN --allow-host chat.example.org

TARGET is an agent or a stateful prompt; without it the example agent is served. The page is at /, useChat of the AI SDK
is answered at /api/chat. A call that asks for approval waits for a button of the page, and a question of an MCP server
is a form there.

Exit codes: 1 it cannot be served, 2 wrong use, 130 and 143 stopped by a signal.
"""


@click.command("serve", cls=option.Command, epilog=_MORE_SERVE)
@click.argument("target", type=click.Path(), metavar="[TARGET]", required=False)
@option.setting_options
@click.option("--host", metavar="NAME", default="127.0.0.1", show_default=True, help="Where to listen.")
@click.option("--port", type=click.IntRange(0, 65535), default=8000, show_default=True, help="0 is a free port.")
@click.option("--token-env", metavar="NAME", help="The environment variable with the token that users have to bring.")
@click.option("--allow-host", "hosts", metavar="NAME", multiple=True, help="What clients call the server.")
@click.option("--allow-origin", "origins", metavar="URL", multiple=True, help="Pages of others that may use it.")
@click.option(
    "--store", metavar="PLACE", type=click.Path(), help="Where conversations are kept: a folder, or FILE.db for SQLite."
)
@click.option(
    "--on-leave",
    type=click.Choice(["continue", "cancel"]),
    default="continue",
    show_default=True,
    help="What becomes of an answer that nobody reads any more.",
)
@click.option("--ag-ui", is_flag=True, help="Serve clients of AG-UI, too, at /api/ag-ui.")
@option.debug
def serve_command(target: str | None, debug: bool, **chosen: Any) -> None:
    """Serve an agent over HTTP, with a page to chat with it."""
    names = ("host", "port", "token_env", "hosts", "origins", "store", "on_leave", "ag_ui")
    wish = {name: chosen.pop(name) for name in names}

    def work(_: TextIO, err: TextIO) -> bool:
        from fxai.cli.job import AgentArgs
        from fxai.cli.serve_command import ServeArgs, serve

        return serve(target, AgentArgs(**chosen), ServeArgs(**wish), err)

    run_command(work, as_json=False, debug=debug)


_MORE: Final = """\b
Completion for your shell (bash here; zsh and fish likewise):
  eval "$(_FXAI_COMPLETE=bash_source fxai)"
"""
_MORE_RUN: Final = """\b
Examples:
  fxai run
  fxai run "How many lines are in README.md?"
  echo "Read notes.txt" | fxai run --json -
  fxai run --agent app.py:agent --layer app.py:live "Hello"
  fxai run --agent app.py:prompt --layer app.py:live --state state.json "Hello"
  fxai run --model openai:gpt-5.5 "Read notes.txt"

The default agent reads the files and the git history of the current folder and changes nothing; files that may hold
secrets it refuses, unless --show-secrets is given. The local model is small (270 million parameters): short requests
for one thing at a time suit it best.

Where a call asks for approval the run ends, for there is no person to ask. So it does at tools of --mcp that their
server does not mark read-only, unless --yes is given.

Exit codes: 0 it answered, 1 it failed, 2 wrong use, 130 stopped by Ctrl-C.
"""
_TARGETS: Final = """\b
TARGET is one of
  module:name, path.py:name   a toolkit, a tool, a function tool, the tools of
                              an object, an agent, a stateful prompt (its first
                              step), or a tool source
  tools.json                  a list of tools, as an MCP server answers tools/list
  -                           the same, from stdin
  mcp:COMMAND, mcp:URL        the tools of an MCP server
"""
_MORE_TOOLS: Final = f"""{_TARGETS}
\b
Examples:
  fxai tools app.py:kit
  fxai tools --json app.py:agent | jq '.tools[].name'
  fxai tools tools.json
"""
_MORE_SCHEMA: Final = f"""{_TARGETS}
\b
Examples:
  fxai schema app.py:kit add
  fxai schema app.py:kit --provider openai
  fxai schema tools.json --provider anthropic --model claude-sonnet-5 --no-strict
  fxai schema app.py:kit --provider openai --api chat --json
  fxai schema app.py:kit --model openai:gpt-5.5

Nothing is sent to anybody. Exit codes: 0 shown, 1 a request cannot be made of it, 2 wrong use.
"""
_MORE_CHECK: Final = f"""{_TARGETS}
\b
Examples:
  fxai check app.py:kit
  fxai check app.py:kit --layer app.py:live --provider openai
  fxai check app.py:kit --level info --ignore parameter-undescribed
  fxai check --json tools.json
  fxai check --rules

With --layer the layer is built, and released again.
Exit codes: 0 nothing is wrong (and nothing printed), 1 there are faults, 2 wrong use.
"""
_MORE_CALL: Final = f"""{_TARGETS}
\b
Examples:
  fxai call app.py:kit add '{{"a": 1, "b": 2}}' --layer app.py:live
  fxai call app.py:add add @parameters.json
  echo '{{"a": 1, "b": 2}}' | fxai call app.py:add add -

The result is JSON on stdout; preliminary results and what handlers print go to stderr.
Exit codes: 0 it gave a result, 1 it failed, 2 wrong use, 130 stopped by Ctrl-C.
"""
_MORE_MODELS: Final = """\b
Examples:
  fxai models
  fxai models openai:gpt-6-luna local:/path/to/model.gguf
  fxai models --check
  fxai models --json | jq '.models[] | select(.ok).name'

Keys are never shown. --check asks each provider what it says of the model: nothing is generated and nothing charged.
Exit codes: 0 shown; 1 with --check, a provider fails or a model that was named cannot be used; 2 wrong use.
"""
_MORE_TOKENS: Final = """\b
Examples:
  fxai tokens "How many lines are in README.md?"
  fxai tokens --model anthropic:claude-sonnet-5 --tools app.py:kit - < prompt.txt
  fxai tokens --estimate --json - < prompt.txt | jq .tokens

A provider that counts is asked: it is sent the prompt and the tools, and generates nothing. It is said how the number
came to be. Exit codes: 0 shown, 1 it failed, 2 wrong use.
"""
_LEVELS: Final = ("info", "warning", "error")


def main() -> None:
    """Runs the command line, and ends the process with its exit code; errors are one line on stderr."""
    _open_standard()
    stdout, stderr = writable(sys.stdout), writable(sys.stderr, forgiving=True)
    try:
        with redirect_stdout(stdout), redirect_stderr(stderr):
            code: Any = cli.main(prog_name="fxai", standalone_mode=False)
        stdout.flush()
    except click.ClickException as wrong:
        code = _report_wrong_use(wrong, stdout, stderr)
    except (Exception, click.Abort) as raised:
        trouble = error_from(raised)
        if trouble.of_output:
            abandon(sys.stdout)
        stderr.write(f"fxai: {trouble}\n" * (trouble.code != PIPE_CLOSED))
        code = trouble.code
    sys.exit(code if isinstance(code, int) else 0)


def _open_standard() -> None:
    """Opens what of stdin, stdout and stderr was closed: else the next file would take its number and its text."""
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)


def _report_wrong_use(wrong: click.ClickException, stdout: TextIO, stderr: TextIO) -> int:
    context: click.Context | None = getattr(wrong, "ctx", None)
    where = "fxai" if context is None else context.command_path
    trouble = CliError(wrong.format_message(), f"{where} --help shows what there is")
    if "--json" in sys.argv[1:]:
        with suppress(CliError):
            stdout.write(json_line({"ok": False, "error": trouble.to_data()}))
            stdout.flush()
    stderr.write(f"fxai: {trouble}\n")
    return wrong.exit_code


def _version(context: click.Context, _: click.Parameter, wanted: bool) -> None:
    if not wanted or context.resilient_parsing:
        return
    try:
        said = metadata.version("fxai")
    except metadata.PackageNotFoundError:
        said = "(a source tree that is not installed)"
    click.echo(f"fxai {said}")
    context.exit()


@click.group(cls=option.Group, epilog=_MORE, **option.GROUP)
@click.option("--version", is_flag=True, expose_value=False, is_eager=True, callback=_version, help="Show the version.")
@click.pass_context
def cli(context: click.Context) -> None:
    """Tools for language models as typed values: try them from the command line."""
    if context.invoked_subcommand is None:
        click.echo(context.get_help())


def _providers(_: click.Context, __: click.Parameter, typed: str) -> list[str]:
    from fxai.lint.rule import PROVIDERS

    return [name for name in PROVIDERS if name.startswith(typed)]


def _codes(_: click.Context, __: click.Parameter, typed: str) -> list[str]:
    from fxai.lint.rule import RULES

    return [code for code in RULES if code.startswith(typed)]


@cli.command(epilog=_MORE_RUN)
@click.argument("prompt", required=False)
@option.agent_options
@click.option("--durable", metavar="RUN", help="Journal it under this name, so that fxai runs resume goes on with it.")
@click.option("--store", metavar="PLACE", help="Where the journal is, as for fxai runs; needs --durable.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object a line: every part, then a closing object.")
@click.option("-q", "--quiet", is_flag=True, help="Only the answer.")
@click.option("--color/--no-color", default=None, help="By default where stdout is a terminal and NO_COLOR is unset.")
@option.debug
def run(prompt: str | None, as_json: bool, debug: bool, durable: str | None, store: str | None, **chosen: Any) -> None:
    """Run an agent on PROMPT and show what it does: turns, calls, results, failures and the answer, as they come.

    Without PROMPT, or with - in its place, the prompt is read from stdin where something is piped in; else the example
    agent is asked three questions of its own.
    """
    if store is not None and durable is None:
        raise click.UsageError("--store needs --durable RUN, the name of the run")

    def work(out: TextIO, err: TextIO) -> bool:
        from fxai.cli.job import run_agent

        made = None
        if durable is not None:
            from fxai.cli.run_list import DurableArgs

            made = DurableArgs(run=durable, store=store)
        return run_agent(out, err, prompt, made, as_json=as_json, **chosen)

    run_command(work, as_json=as_json, debug=debug, closes=False)


@cli.command(epilog=_MORE_TOOLS)
@option.target
@option.as_json
@option.color
@option.debug
def tools(target: str, as_json: bool, color: bool | None, debug: bool) -> None:
    """Show the tools of TARGET: names, kinds, descriptions, parameters, annotations, and what else they say."""
    from fxai.cli.inspect import show_tools

    run_command(
        lambda out, err: show_tools(target, out, err, as_json=as_json, color=color), as_json=as_json, debug=debug
    )


@cli.command(epilog=_MORE_SCHEMA)
@option.target
@click.argument("names", nargs=-1, metavar="[TOOL]...")
@click.option("--provider", metavar="NAME", shell_complete=_providers, help="What openai or anthropic would be sent.")
@click.option("--api", type=click.Choice(["responses", "chat"]), help="Which of OpenAI's interfaces; else responses.")
@click.option(
    "--model",
    metavar="NAME",
    shell_complete=option.models_like,
    help="The model that it would be sent to, openai:NAME say; else a recent one of the provider.",
)
@click.option("--strict/--no-strict", default=None, help="What the configuration says of strict mode; else nothing.")
@option.as_json
@option.color
@option.debug
def schema(target: str, as_json: bool, debug: bool, **chosen: Any) -> None:
    """Show the JSON Schemas of the tools of TARGET; or what a provider is sent, strict or not, and why."""
    from fxai.cli.inspect import show_schema

    run_command(lambda out, err: show_schema(target, out, err, as_json=as_json, **chosen), as_json=as_json, debug=debug)


@cli.command(epilog=_MORE_CHECK)
@click.argument("target", type=click.Path(), metavar="TARGET", required=False)
@click.option("--layer", metavar="TARGET", help="The layer of the handlers: it must answer each tool, once.")
@click.option(
    "--provider", "providers", metavar="NAME", multiple=True, shell_complete=_providers, help="Only these; else all."
)
@click.option("--level", type=click.Choice(_LEVELS), default="warning", show_default=True, help="What counts at least.")
@click.option(
    "--ignore", "ignored", metavar="CODE", multiple=True, shell_complete=_codes, help="A rule that is not to count."
)
@click.option("--rules", is_flag=True, help="Show what is looked for, and look at nothing.")
@option.as_json
@option.color
@option.debug
def check(target: str | None, rules: bool, as_json: bool, debug: bool, **chosen: Any) -> None:
    """Lint the tools of TARGET: each fault with its place and its remedy, in a line."""
    from fxai.cli.inspect import check_tools, list_rules

    if rules:
        run_command(lambda out, _: list_rules(out, as_json=as_json), as_json=as_json, debug=debug)
    elif target is None:
        raise click.UsageError("Missing argument 'TARGET'.")
    else:
        run_command(
            lambda out, err: check_tools(target, out, err, as_json=as_json, **chosen), as_json=as_json, debug=debug
        )


@cli.command(epilog=_MORE_CALL)
@option.target
@click.argument("tool")
@click.argument("params", required=False, metavar="[JSON | @file | -]")
@click.option("--layer", metavar="TARGET", help="The layer of the tool's handler, where TARGET has none.")
@click.option("-y", "--yes", "approved", is_flag=True, help="Approve the call, if the tool asks for that.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object a line: preliminary results, then the result.")
@option.debug
def call(target: str, tool: str, as_json: bool, debug: bool, **chosen: Any) -> None:
    """Call one TOOL of TARGET: parameters in JSON ({} without any), the result in JSON."""
    from fxai.cli.call_command import call_tool

    def work(out: TextIO, err: TextIO) -> bool:
        return call_tool(target, tool, out, err, as_json=as_json, **chosen)

    run_command(work, as_json=as_json, debug=debug, closing={"type": "result"})


@cli.command(epilog=_MORE_MODELS)
@click.argument("names", nargs=-1, metavar="[MODEL]...")
@click.option("--check", is_flag=True, help="Ask the providers, where there is a key.")
@option.as_json
@option.color
@option.debug
def models(names: tuple[str, ...], as_json: bool, debug: bool, **chosen: Any) -> None:
    """Show which models there are, whether each can be asked from here, and what it can do.

    MODEL is a name as for --model: openai:gpt-5.5, anthropic:claude-sonnet-5, local. Without one, each provider's.
    For a MODEL, show each fact that fxai knows, with its sources. "assumed" marks facts that no source states.
    """
    from fxai.cli.model_list import show_models

    run_command(lambda out, _: show_models(names, out, as_json=as_json, **chosen), as_json=as_json, debug=debug)


@cli.command(epilog=_MORE_TOKENS)
@click.argument("prompt", required=False)
@click.option(
    "--model",
    metavar="NAME",
    shell_complete=option.models_like,
    help="The model that counts, as of fxai run; else local.",
)
@click.option("--tools", metavar="TARGET", help="Tools that would go with it, as of fxai tools.")
@click.option("--system", metavar="TEXT", help="Instructions that would go with it.")
@click.option("--estimate", is_flag=True, help="Ask no model: estimate from the length of the texts.")
@option.as_json
@option.debug
def tokens(prompt: str | None, as_json: bool, debug: bool, **chosen: Any) -> None:
    """Show how many tokens PROMPT takes, by the provider's count, the local model's tokenizer, or an estimate.

    Without PROMPT, or with - in its place, it is read from stdin.
    """
    from fxai.cli.model_list import count_tokens

    run_command(
        lambda out, err: count_tokens(prompt, out, err, as_json=as_json, **chosen), as_json=as_json, debug=debug
    )


cli.add_command(chat_command)
cli.add_command(serve_command)
cli.add_command(mcp)
cli.add_command(worker_command)
cli.add_command(runs)
