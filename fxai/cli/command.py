"""The commands of `fxai` with their arguments and options. Use `main` to run the command line.

>>> from click.testing import CliRunner
>>> CliRunner().invoke(cli, ["--version"]).output.startswith("fxai ")
True
>>> chat_command.name
'chat'
"""

from __future__ import annotations

import os
import re
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

In a terminal, type /help to see all commands. Press Ctrl-C to stop an answer. If no answer is running, Ctrl-C, Ctrl-D,
or /exit ends the chat. If a call needs approval, fxai shows its arguments and runs it only after you approve it. The
agent defines which of its tools need approval. The tools of --mcp need approval unless their server marks them
read-only or you pass --yes.

If you pipe input into the command, fxai sends each line as a prompt. To answer a pending approval, use the next line:
/approve or /deny [REASON]. Any other line denies the call, and fxai sends the line as the next prompt.

Exit codes: 0 you ended the chat, 1 the chat could not start or a piped prompt failed, 2 wrong use, 130 Ctrl-C.
"""


@click.command("chat", cls=option.Command, epilog=_MORE_CHAT)
@option.agent_options
@click.option(
    "--store",
    metavar="PATH",
    type=click.Path(),
    help="Store of the conversations: a directory, or FILE.db for SQLite. Default: in a terminal, your data directory.",
)
@click.option(
    "--resume",
    metavar="[WHICH]",
    is_flag=False,
    flag_value="",
    help="Conversation to continue: its id, or words of its title. Default: the last conversation.",
)
@click.option("--list", "listing", is_flag=True, help="List the conversations that you can resume.")
@click.option("--json", "as_json", is_flag=True, help="Write one JSON object per line, like fxai run --json.")
@option.color
@option.debug
def chat_command(as_json: bool, color: bool | None, debug: bool, listing: bool, **chosen: Any) -> None:
    """Chat with an agent. See its answers, calls, and results as they arrive.

    Without --agent, chat with the example agent. With --mcp or --system, chat with a new agent that has no other tools.
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

TARGET is an agent or a stateful prompt. Default: the example agent. The page is at /, and the API for useChat of the
AI SDK is at /api/chat. If a call needs approval, the page shows a button. If an MCP server asks a question, the page
shows a form.

Exit codes: 1 the server could not start, 2 wrong use, 130 and 143 stopped by a signal.
"""


@click.command("serve", cls=option.Command, epilog=_MORE_SERVE)
@click.argument("target", type=click.Path(), metavar="[TARGET]", required=False)
@option.setting_options
@click.option("--host", metavar="NAME", default="127.0.0.1", show_default=True, help="Address to listen on.")
@click.option(
    "--port",
    metavar="N",
    type=click.IntRange(0, 65535),
    default=8000,
    show_default=True,
    help="Port; 0 is a free port.",
)
@click.option("--token-env", metavar="NAME", help="Environment variable with the token that each user must send.")
@click.option("--allow-host", "hosts", metavar="NAME", multiple=True, help="Host name that clients may use.")
@click.option("--allow-origin", "origins", metavar="URL", multiple=True, help="Origin of another page that may use it.")
@click.option(
    "--store", metavar="PATH", type=click.Path(), help="Store of the conversations: a directory, or FILE.db for SQLite."
)
@click.option(
    "--on-leave",
    type=click.Choice(["continue", "cancel"]),
    default="continue",
    show_default=True,
    help="Action if no client reads an answer.",
)
@click.option("--ag-ui", is_flag=True, help="Also serve AG-UI clients at /api/ag-ui.")
@option.debug
def serve_command(target: str | None, debug: bool, **chosen: Any) -> None:
    """Serve an agent over HTTP, with a chat page."""
    names = ("host", "port", "token_env", "hosts", "origins", "store", "on_leave", "ag_ui")
    wish = {name: chosen.pop(name) for name in names}

    def work(_: TextIO, err: TextIO) -> bool:
        from fxai.cli.job import AgentArgs
        from fxai.cli.serve_command import ServeArgs, serve

        return serve(target, AgentArgs(**chosen), ServeArgs(**wish), err)

    run_command(work, as_json=False, debug=debug)


_MORE: Final = """\b
To complete commands in your shell (use zsh_source or fish_source for other shells):
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

The default agent reads the files of the current directory. It never changes anything. It refuses files that can
contain secrets, unless you pass --show-secrets. The local model is small (270 million parameters), so
send short requests with one task each.

In a terminal, type a line while the agent works to steer it. The next step reads the line.

If a call needs approval, the run ends, because no user can answer. The tools of --mcp need approval unless their server
marks them read-only or you pass --yes.

Exit codes: 0 the agent answered, 1 the run failed, 2 wrong use, 130 stopped by Ctrl-C.
"""
_TARGETS: Final = """\b
TARGET is one of:
  module:name, path.py:name   a toolkit, a tool, a function tool, the tools of
                              an object, an agent, a stateful prompt (its first
                              step), or a tool source
  tools.json                  a list of tools in JSON, such as the answer of an
                              MCP server to tools/list
  -                           a list of tools in JSON from stdin
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

The command sends no request. Exit codes: 0 shown, 1 a tool cannot be sent, 2 wrong use.
"""
_MORE_CHECK: Final = f"""{_TARGETS}
\b
Examples:
  fxai check app.py:kit
  fxai check app.py:kit --layer app.py:live --provider openai
  fxai check app.py:kit --level info --ignore parameter-undescribed
  fxai check --json tools.json
  fxai check --rules

With --layer, the command builds the layer and releases it.
Exit codes: 0 no problem (and no output), 1 problems found, 2 wrong use.
"""
_MORE_CALL: Final = f"""{_TARGETS}
\b
Examples:
  fxai call app.py:kit add '{{"a": 1, "b": 2}}' --layer app.py:live
  fxai call app.py:add add @parameters.json
  echo '{{"a": 1, "b": 2}}' | fxai call app.py:add add -

The result is JSON on stdout. Preliminary results and the output of handlers go to stderr.
Exit codes: 0 the call succeeded, 1 it failed, 2 wrong use, 130 stopped by Ctrl-C.
"""
_MORE_MODELS: Final = """\b
Examples:
  fxai models
  fxai models openai:gpt-6-luna local:/path/to/model.gguf
  fxai models --check
  fxai models --json | jq '.models[] | select(.ok).name'

The command never shows keys. --check requests the model's page from each provider. It generates nothing and costs
nothing. Exit codes: 0 shown, 1 with --check if a provider fails or a model is not usable, 2 wrong use.
"""
_MORE_TOKENS: Final = """\b
Examples:
  fxai tokens "How many lines are in README.md?"
  fxai tokens --model anthropic:claude-sonnet-5 --tools app.py:kit - < prompt.txt
  fxai tokens --estimate --json - < prompt.txt | jq .tokens

If the provider counts tokens, the command sends it the prompt and the tools. The provider generates nothing. The output
states how the number was found. Exit codes: 0 shown, 1 failed, 2 wrong use.
"""
_LEVELS: Final = ("info", "warning", "error")


def main() -> None:
    """Run the command line and end the process with its exit code. Write each error as one line to stderr."""
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
    """Open stdin, stdout, and stderr if they are closed, so that no other file gets their numbers and their output."""
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)


def _report_wrong_use(wrong: click.ClickException, stdout: TextIO, stderr: TextIO) -> int:
    context: click.Context | None = getattr(wrong, "ctx", None)
    where = "fxai" if context is None else context.command_path
    trouble = CliError(_wrong_use(wrong), f"Run {where} --help to see its options.")
    if "--json" in sys.argv[1:]:
        with suppress(CliError):
            stdout.write(json_line({"ok": False, "error": trouble.to_data()}))
            stdout.flush()
    stderr.write(f"fxai: {trouble}\n")
    return wrong.exit_code


def _wrong_use(wrong: click.ClickException) -> str:
    """Return the message of a wrong use. The messages of click have other forms, and some have several sentences."""
    if isinstance(wrong, click.NoSuchOption):
        near = " or ".join(wrong.possibilities or ())
        return f"unknown option {wrong.option_name}" + (f". Did you mean {near}?" if near else "")
    if isinstance(wrong, click.MissingParameter) and wrong.param is not None:
        return f"missing {wrong.param.make_metavar(click.Context(cli)) or wrong.param.name}"
    if isinstance(wrong, click.BadParameter) and wrong.param is not None:
        return f"{wrong.param.opts[0]} {_must(wrong.message)}"
    message = wrong.format_message().replace("No such command", "unknown command")
    message = message.replace("Got unexpected extra", "unexpected")
    return f"{message[:1].lower()}{message[1:]}"


_REFUSALS: Final = (
    (re.compile(r"(.+) is not in the range x>=(\S+)\."), r"must be at least \2, got \1"),
    (re.compile(r"(.+) is not in the range x>(\S+)\."), r"must be greater than \2, got \1"),
    (re.compile(r"(.+) is not in the range (\S+)<=x<=(\S+)\."), r"must be from \2 to \3, got \1"),
    (re.compile(r"(.+) is not a valid (?:integer|float).*"), r"must be a number, got \1"),
    (re.compile(r"(.+) is not one of (.+)\."), r"must be one of \2, got \1"),
)


def _must(message: str) -> str:
    """Return the requirement of an option, and the value that a user passed."""
    for pattern, requirement in _REFUSALS:
        if pattern.fullmatch(message):
            return pattern.sub(requirement, message)
    return f"is invalid: {message}"


def _version(context: click.Context, _: click.Parameter, wanted: bool) -> None:
    if not wanted or context.resilient_parsing:
        return
    try:
        version = metadata.version("fxai")
    except metadata.PackageNotFoundError:
        version = "(source tree, not installed)"
    click.echo(f"fxai {version}")
    context.exit()


@click.group(cls=option.Group, epilog=_MORE, **option.GROUP)
@click.option("--version", is_flag=True, expose_value=False, is_eager=True, callback=_version, help="Show the version.")
@click.pass_context
def cli(context: click.Context) -> None:
    """Try typed tools and agents for language models from the command line."""
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
@click.option("--durable", metavar="RUN", help="Name of a durable run, which fxai runs resume can continue.")
@click.option("--store", metavar="PATH_OR_URL", help="Store of the durable run, as for fxai runs. Requires --durable.")
@click.option("--json", "as_json", is_flag=True, help="Write one JSON object per line: each part, then a summary.")
@click.option("-q", "--quiet", is_flag=True, help="Write only the answer.")
@click.option("--color/--no-color", default=None, help="Default: color if stdout is a terminal without NO_COLOR.")
@option.debug
def run(prompt: str | None, as_json: bool, debug: bool, durable: str | None, store: str | None, **chosen: Any) -> None:
    """Run an agent on PROMPT. Show its turns, calls, results, failures, and answer as they arrive.

    If PROMPT is missing or -, read it from stdin. If stdin is empty, the example agent runs its three default prompts.
    """
    if store is not None and durable is None:
        raise click.UsageError("--store requires --durable RUN.")

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
    """Show the tools of TARGET: names, kinds, descriptions, parameters, annotations, and options."""
    from fxai.cli.inspect import show_tools

    run_command(
        lambda out, err: show_tools(target, out, err, as_json=as_json, color=color), as_json=as_json, debug=debug
    )


@cli.command(epilog=_MORE_SCHEMA)
@option.target
@click.argument("names", nargs=-1, metavar="[TOOL]...")
@click.option("--provider", metavar="NAME", shell_complete=_providers, help="Provider to prepare the tools for.")
@click.option("--api", type=click.Choice(["responses", "chat"]), help="API of OpenAI. Default: responses.")
@click.option(
    "--model",
    metavar="NAME",
    shell_complete=option.models_like,
    help="Model to prepare the tools for, such as openai:NAME. Default: a recent model of the provider.",
)
@click.option("--strict/--no-strict", default=None, help="Strict mode of the model. Default: not set.")
@option.as_json
@option.color
@option.debug
def schema(target: str, as_json: bool, debug: bool, **chosen: Any) -> None:
    """Show the JSON Schemas of the tools of TARGET, or the tools of a request to a provider."""
    from fxai.cli.inspect import show_schema

    run_command(lambda out, err: show_schema(target, out, err, as_json=as_json, **chosen), as_json=as_json, debug=debug)


@cli.command(epilog=_MORE_CHECK)
@click.argument("target", type=click.Path(), metavar="TARGET", required=False)
@click.option("--layer", metavar="TARGET", help="Layer of the handlers. It must have one handler for each tool.")
@click.option(
    "--provider", "providers", metavar="NAME", multiple=True, shell_complete=_providers, help="Provider. Default: all."
)
@click.option("--level", type=click.Choice(_LEVELS), default="warning", show_default=True, help="Lowest severity.")
@click.option(
    "--ignore", "ignored", metavar="CODE", multiple=True, shell_complete=_codes, help="Code of a rule to ignore."
)
@click.option("--rules", is_flag=True, help="List the rules and check nothing.")
@option.as_json
@option.color
@option.debug
def check(target: str | None, rules: bool, as_json: bool, debug: bool, **chosen: Any) -> None:
    """Lint the tools of TARGET. Show each problem with its location and remedy on one line."""
    from fxai.cli.inspect import check_tools, list_rules

    if rules:
        run_command(lambda out, _: list_rules(out, as_json=as_json), as_json=as_json, debug=debug)
    elif target is None:
        raise click.UsageError("missing TARGET")
    else:
        run_command(
            lambda out, err: check_tools(target, out, err, as_json=as_json, **chosen), as_json=as_json, debug=debug
        )


@cli.command(epilog=_MORE_CALL)
@option.target
@click.argument("tool")
@click.argument("params", required=False, metavar="[JSON | @file | -]")
@click.option("--layer", metavar="TARGET", help="Layer of the tool's handler. Default: the handlers of TARGET.")
@click.option("-y", "--yes", "approved", is_flag=True, help="Approve the call if the tool needs approval.")
@click.option("--json", "as_json", is_flag=True, help="Write one JSON object per line: preliminary results, result.")
@option.debug
def call(target: str, tool: str, as_json: bool, debug: bool, **chosen: Any) -> None:
    """Call one TOOL of TARGET with arguments in JSON, and show the result in JSON. Default arguments: {}."""
    from fxai.cli.call_command import call_tool

    def work(out: TextIO, err: TextIO) -> bool:
        return call_tool(target, tool, out, err, as_json=as_json, **chosen)

    run_command(work, as_json=as_json, debug=debug, closing={"type": "result"})


@cli.command(epilog=_MORE_MODELS)
@click.argument("names", nargs=-1, metavar="[MODEL]...")
@click.option("--check", is_flag=True, help="Ask each provider that has a key.")
@option.as_json
@option.color
@option.debug
def models(names: tuple[str, ...], as_json: bool, debug: bool, **chosen: Any) -> None:
    """Show the models, whether you can use them here, and their abilities.

    MODEL is a name as for --model: openai:gpt-5.5, anthropic:claude-sonnet-5, local. Default: one model per provider.
    For each MODEL, show the facts that fxai knows, with their sources. "assumed" marks facts without a source.
    """
    from fxai.cli.model_list import show_models

    run_command(lambda out, _: show_models(names, out, as_json=as_json, **chosen), as_json=as_json, debug=debug)


@cli.command(epilog=_MORE_TOKENS)
@click.argument("prompt", required=False)
@click.option(
    "--model",
    metavar="NAME",
    shell_complete=option.models_like,
    help="Model that counts, as for fxai run. Default: local.",
)
@click.option("--tools", metavar="TARGET", help="Tools to count with the prompt, as for fxai tools.")
@click.option("--system", metavar="TEXT", help="Instructions to count with the prompt.")
@click.option("--estimate", is_flag=True, help="Estimate from the length of the text, without a model.")
@option.as_json
@option.debug
def tokens(prompt: str | None, as_json: bool, debug: bool, **chosen: Any) -> None:
    """Count the tokens of PROMPT with the provider, with the local model's tokenizer, or by an estimate.

    If PROMPT is missing or -, read it from stdin.
    """
    from fxai.cli.model_list import count_tokens

    run_command(
        lambda out, err: count_tokens(prompt, out, err, as_json=as_json, **chosen), as_json=as_json, debug=debug
    )


_MORE_EVAL: Final = """\b
Examples:
  fxai eval app.py:evaluation --layer app.py:live --runs 20
  fxai eval app.py:evaluation --model openai:gpt-5.5 --at-least 0.9 --svg rates.svg
  fxai eval app.py:evaluation --store new.json --compare old.json

TARGET is an Evaluation of fxai.evaluation. Each case runs several times, and each law of the case judges each
run. The table shows the rate of each law with its 95 % interval. A law that cannot judge a run never passes it.

With --at-least, the command fails if a law has a lower rate. With --compare, it fails if a law became worse by more
than chance explains.

Exit codes: 0 the rates reach the demands, 1 they do not or the evaluation could not run, 2 wrong use, 130 Ctrl-C.
"""


@cli.command("eval", cls=option.Command, epilog=_MORE_EVAL)
@click.argument("target")
@click.option("--layer", metavar="TARGET", help="Layer of the handlers, which can also provide the model.")
@click.option("--model", metavar="NAME", shell_complete=option.models_like, help="Model, as for fxai run.")
@click.option("--runs", metavar="N", type=click.IntRange(min=1), help="Runs of each case. Default: as the evaluation.")
@click.option("--case", "cases", metavar="NAME", multiple=True, help="Case to run. Repeatable. Default: all cases.")
@click.option("--at-least", metavar="RATE", type=click.FloatRange(0, 1), help="Smallest rate of each law, such as 0.9.")
@click.option("--compare", metavar="FILE", type=click.Path(), help="Results to compare with, from --store.")
@click.option("--store", metavar="FILE", type=click.Path(), help="JSON file for the results.")
@click.option("--svg", metavar="FILE", type=click.Path(), help="File for a picture of the rates.")
@click.option("--markdown", "form", flag_value="markdown", help="Show the table as Markdown.")
@click.option("--json", "form", flag_value="json", help="Show the results as one JSON object.")
@option.debug
def eval_command(target: str, form: Any, debug: bool, **chosen: Any) -> None:
    """Run the evaluation TARGET several times, and show the rates of its laws."""

    def work(out: TextIO, _: TextIO) -> bool:
        from fxai.cli.eval_command import evaluate

        return evaluate(target, out, form=form or "text", **chosen)

    run_command(work, as_json=form == "json", debug=debug)


cli.add_command(chat_command)
cli.add_command(serve_command)
cli.add_command(mcp)
cli.add_command(worker_command)
cli.add_command(runs)
