"""The commands of `fxai` with their arguments and options. Use `main` to run the command line.

>>> from click.testing import CliRunner
>>> CliRunner().invoke(cli, ["--version"]).output.startswith("fxai ")
True
>>> sorted(mcp.commands)
['call', 'serve', 'tools']
"""

from __future__ import annotations

import os
import re
import sys
from contextlib import redirect_stderr, redirect_stdout
from importlib import import_module
from typing import Any, Final, TextIO

import click

from fxai.cli import option
from fxai.cli.exit import CliError, error_from, report, writable
from fxai.cli.runs_command import runs

_MORE: Final = """\b
To complete commands in your shell (use zsh_source or fish_source for other shells):
  eval "$(_FXAI_COMPLETE=bash_source fxai)"
"""


def main() -> None:
    """Run the command line and end the process with its exit code. Write each error as one line to stderr."""
    for number in range(3):  # open closed streams, so that no other file gets their numbers and their output
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)
    stdout, stderr = writable(sys.stdout), writable(sys.stderr, forgiving=True)
    try:
        with redirect_stdout(stdout), redirect_stderr(stderr):
            code: Any = cli.main(prog_name="fxai", standalone_mode=False)
        stdout.flush()
    except (Exception, click.Abort) as raised:
        trouble = _wrong_use(raised) if isinstance(raised, click.ClickException) else error_from(raised)
        report(trouble, stdout, stderr, as_json="--json" in sys.argv[1:])
        code = trouble.code
    sys.exit(code if isinstance(code, int) else 0)


def _wrong_use(wrong: click.ClickException) -> CliError:
    context: click.Context | None = getattr(wrong, "ctx", None)
    where = "fxai" if context is None else context.command_path
    return CliError(_problem_of(wrong), f"Run {where} --help to see its options.", code=wrong.exit_code)


def _problem_of(wrong: click.ClickException) -> str:
    """Return the message of a wrong use. The messages of click have other forms, and some have several sentences."""
    if isinstance(wrong, click.NoSuchOption):
        near = " or ".join(wrong.possibilities or ())
        return f"unknown option {wrong.option_name}" + (f". Did you mean {near}?" if near else "")
    if isinstance(wrong, click.MissingParameter) and wrong.param is not None:
        return f"missing {wrong.param.make_metavar(click.Context(cli)) or wrong.param.name}"
    if isinstance(wrong, click.BadParameter) and wrong.param is not None:
        for pattern, requirement in _REFUSALS:
            if re.fullmatch(pattern, wrong.message):
                return f"{wrong.param.opts[0]} {re.sub(pattern, requirement, wrong.message)}"
        return f"{wrong.param.opts[0]} is invalid: {wrong.message}"
    message = wrong.format_message().replace("No such command", "unknown command")
    message = message.replace("Got unexpected extra", "unexpected")
    return f"{message[:1].lower()}{message[1:]}"


_REFUSALS: Final = (
    (r"(.+) is not in the range x>=(\S+)\.", r"must be at least \2, got \1"),
    (r"(.+) is not in the range x>(\S+)\.", r"must be greater than \2, got \1"),
    (r"(.+) is not in the range (\S+)<=x<=(\S+)\.", r"must be from \2 to \3, got \1"),
    (r"(.+) is not a valid (?:integer|float).*", r"must be a number, got \1"),
    (r"(.+) is not one of (.+)\.", r"must be one of \2, got \1"),
)


def _version(context: click.Context, _: click.Parameter, wanted: bool) -> None:
    if not wanted or context.resilient_parsing:
        return
    from importlib import metadata  # the import takes 20 ms

    try:
        version = metadata.version("fxai")
    except metadata.PackageNotFoundError:
        version = "(source tree, not installed)"
    click.echo(f"fxai {version}")
    context.exit()


@click.group(cls=option.Group, epilog=_MORE)
@click.option("--version", is_flag=True, expose_value=False, is_eager=True, callback=_version, help="Show the version.")
def cli() -> None:
    """Try typed tools and agents for language models from the command line."""


# -- agents


_MORE_RUN: Final = """\b
Examples:
  fxai run
  fxai run "How many lines are in README.md?"
  echo "Count the words of notes.txt" | fxai run --json -
  fxai run --agent app.py:agent --layer app.py:live "Hello"
  fxai run --agent app.py:prompt --layer app.py:live --state state.json "Hello"
  fxai run --model openai:gpt-5.5 "Which files are here?"

The default agent counts and lists the files of the current directory. It never changes anything. The local model is
small (270 million parameters), so send short requests with one task each.

In a terminal, type a line while the agent works to steer it. The next step reads the line.

If a call needs approval, the run ends, because no user can answer. The tools of --mcp need approval unless their server
marks them read-only or you pass --yes.

Exit codes: 0 the agent answered, 1 the run failed, 2 wrong use, 130 stopped by Ctrl-C.
"""


@cli.command(epilog=_MORE_RUN, reports=False)
@click.argument("prompt", required=False)
@option.agent_options
@option.value("--durable RUN", "Name of a durable run, which fxai runs resume can continue.")
@option.value("--store PATH_OR_URL", "Store of the durable run, as for fxai runs. Requires --durable.")
@option.presented
def run(out: TextIO, err: TextIO, durable: str | None, store: str | None, **given: Any) -> bool:
    """Run an agent on PROMPT. Show its turns, calls, results, failures, and answer as they arrive.

    If PROMPT is missing or -, read it from stdin. If stdin is empty, the example agent runs its three default prompts.
    """
    from fxai.cli.setting import run_agent

    if durable is None:
        if store is not None:
            raise click.UsageError("--store requires --durable RUN.")
        return run_agent(out, err, **given)
    from fxai.cli.run_list import DurableArgs

    return run_agent(out, err, durable=DurableArgs(run=durable, store=store), **given)


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


@cli.command(epilog=_MORE_CHAT, closing="done")
@option.agent_options
@option.value(
    "--store PATH",
    "Store of the conversations: a directory, or FILE.db for SQLite. Default: in a terminal, your data directory.",
    type=click.Path(),
)
@option.value(
    "--resume [WHICH]",
    "Conversation to continue: its id, or words of its title. Default: the last conversation.",
    is_flag=False,
    flag_value="",
)
@click.option("--list", "listing", is_flag=True, help="List the conversations that you can resume.")
@click.option("--json", "as_json", is_flag=True, help="Write one JSON object per line, like fxai run --json.")
@option.color
def chat(out: TextIO, err: TextIO, listing: bool, **given: Any) -> bool:
    """Chat with an agent. See its answers, calls, and results as they arrive.

    Without --agent, chat with the example agent. With --mcp or --system, chat with a new agent that has no other tools.
    """
    from fxai.cli.chat_command import chat, list_chats

    if listing:
        return list_chats(out, given["store"], as_json=given["as_json"])
    return chat(out, err, **given)


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


@cli.command(epilog=_MORE_SERVE, work="fxai.cli.serve_command:serve")
@click.argument("target", type=click.Path(), metavar="[TARGET]", required=False)
@option.setting_options
@option.value("--host NAME", "Address to listen on.", default="127.0.0.1", show_default=True)
@option.value("--port N", "Port; 0 is a free port.", type=click.IntRange(0, 65535), default=8000, show_default=True)
@option.value("--token-env NAME", "Environment variable with the token that each user must send.")
@option.value("--allow-host NAME", "Host name that clients may use.", "hosts", multiple=True)
@option.value("--allow-origin URL", "Origin of another page that may use it.", "origins", multiple=True)
@option.value("--store PATH", "Store of the conversations: a directory, or FILE.db for SQLite.", type=click.Path())
@click.option(
    "--on-leave",
    type=click.Choice(["continue", "cancel"]),
    default="continue",
    show_default=True,
    help="Action if no client reads an answer.",
)
@click.option("--ag-ui", is_flag=True, help="Also serve AG-UI clients at /api/ag-ui.")
def serve() -> None:
    """Serve an agent over HTTP, with a chat page."""


# -- tools


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


@cli.command(epilog=_MORE_TOOLS, work="fxai.cli.inspect:show_tools")
@option.target
@option.shown
def tools() -> None:
    """Show the tools of TARGET: names, kinds, descriptions, parameters, annotations, and options."""


_providers: Final = option.completing(lambda: import_module("fxai.lint.rule").PROVIDERS)
_rules: Final = option.completing(lambda: import_module("fxai.lint.rule").RULES)
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


@cli.command(epilog=_MORE_SCHEMA, work="fxai.cli.inspect:show_schema")
@option.target
@click.argument("names", nargs=-1, metavar="[TOOL]...")
@option.value("--provider NAME", "Provider to prepare the tools for.", shell_complete=_providers)
@click.option("--api", type=click.Choice(["responses", "chat"]), help="API of OpenAI. Default: responses.")
@option.model("Model to prepare the tools for, such as openai:NAME. Default: a recent model of the provider.")
@click.option("--strict/--no-strict", default=None, help="Strict mode of the model. Default: not set.")
@option.shown
def schema() -> None:
    """Show the JSON Schemas of the tools of TARGET, or the tools of a request to a provider."""


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
_LEVELS: Final = ("info", "warning", "error")


@cli.command(epilog=_MORE_CHECK)
@click.argument("target", type=click.Path(), metavar="TARGET", required=False)
@option.value("--layer TARGET", "Layer of the handlers. It must have one handler for each tool.")
@option.value("--provider NAME", "Provider. Default: all.", "providers", multiple=True, shell_complete=_providers)
@click.option("--level", type=click.Choice(_LEVELS), default="warning", show_default=True, help="Lowest severity.")
@option.value("--ignore CODE", "Code of a rule to ignore.", "ignored", multiple=True, shell_complete=_rules)
@click.option("--rules", is_flag=True, help="List the rules and check nothing.")
@option.shown
def check(out: TextIO, err: TextIO, rules: bool, **given: Any) -> bool:
    """Lint the tools of TARGET. Show each problem with its location and remedy on one line."""
    from fxai.cli.inspect import check_tools, list_rules

    if rules:
        return list_rules(out, as_json=given["as_json"])
    if given["target"] is None:
        raise click.UsageError("missing TARGET")
    return check_tools(out, err, **given)


_MORE_CALL: Final = f"""{_TARGETS}
\b
Examples:
  fxai call app.py:kit add '{{"a": 1, "b": 2}}' --layer app.py:live
  fxai call app.py:add add @parameters.json
  echo '{{"a": 1, "b": 2}}' | fxai call app.py:add add -

The result is JSON on stdout. Preliminary results and the output of handlers go to stderr.
Exit codes: 0 the call succeeded, 1 it failed, 2 wrong use, 130 stopped by Ctrl-C.
"""


@cli.command(epilog=_MORE_CALL, closing="result", work="fxai.cli.call_command:call_tool")
@option.target
@click.argument("tool")
@option.params
@option.value("--layer TARGET", "Layer of the tool's handler. Default: the handlers of TARGET.")
@click.option("-y", "--yes", "approved", is_flag=True, help="Approve the call if the tool needs approval.")
@click.option("--json", "as_json", is_flag=True, help="Write one JSON object per line: preliminary results, result.")
def call() -> None:
    """Call one TOOL of TARGET with arguments in JSON, and show the result in JSON. Default arguments: {}."""


# -- models


_MORE_MODELS: Final = """\b
Examples:
  fxai models
  fxai models openai:gpt-6-luna local:/path/to/model.gguf
  fxai models --check
  fxai models --json | jq '.models[] | select(.ok).name'

The command never shows keys. --check requests the model's page from each provider. It generates nothing and costs
nothing. Exit codes: 0 shown, 1 with --check if a provider fails or a model is not usable, 2 wrong use.
"""


@cli.command(epilog=_MORE_MODELS, work="fxai.cli.model_list:show_models")
@click.argument("names", nargs=-1, metavar="[MODEL]...")
@click.option("--check", is_flag=True, help="Ask each provider that has a key.")
@option.shown
def models() -> None:
    """Show the models, whether you can use them here, and their abilities.

    MODEL is a name as for --model: openai:gpt-5.5, anthropic:claude-sonnet-5, local. Default: one model per provider.
    For each MODEL, show the facts that fxai knows, with their sources. "assumed" marks facts without a source.
    """


_MORE_TOKENS: Final = """\b
Examples:
  fxai tokens "How many lines are in README.md?"
  fxai tokens --model anthropic:claude-sonnet-5 --tools app.py:kit - < prompt.txt
  fxai tokens --estimate --json - < prompt.txt | jq .tokens

If the provider counts tokens, the command sends it the prompt and the tools. The provider generates nothing. The output
states how the number was found. Exit codes: 0 shown, 1 failed, 2 wrong use.
"""


@cli.command(epilog=_MORE_TOKENS, work="fxai.cli.model_list:count_tokens")
@click.argument("prompt", required=False)
@option.model("Model that counts, as for fxai run. Default: local.")
@option.value("--tools TARGET", "Tools to count with the prompt, as for fxai tools.")
@option.value("--system TEXT", "Instructions to count with the prompt.")
@click.option("--estimate", is_flag=True, help="Estimate from the length of the text, without a model.")
@option.as_json
def tokens() -> None:
    """Count the tokens of PROMPT with the provider, with the local model's tokenizer, or by an estimate.

    If PROMPT is missing or -, read it from stdin.
    """


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


@cli.command("eval", epilog=_MORE_EVAL)
@click.argument("target")
@option.value("--layer TARGET", "Layer of the handlers, which can also provide the model.")
@option.model("Model, as for fxai run.")
@option.value("--runs N", "Runs of each case. Default: as the evaluation.", type=click.IntRange(min=1))
@option.value("--case NAME", "Case to run. Repeatable. Default: all cases.", "cases", multiple=True)
@option.value("--at-least RATE", "Smallest rate of each law, such as 0.9.", type=click.FloatRange(0, 1))
@option.value("--compare FILE", "Results to compare with, from --store.", type=click.Path())
@option.value("--store FILE", "JSON file for the results.", type=click.Path())
@option.value("--svg FILE", "File for a picture of the rates.", type=click.Path())
@click.option("--markdown", "form", flag_value="markdown", help="Show the table as Markdown.")
@click.option("--json", "form", flag_value="json", help="Show the results as one JSON object.")
def evaluate(out: TextIO, _: TextIO, form: Any, **given: Any) -> bool:
    """Run the evaluation TARGET several times, and show the rates of its laws."""
    from fxai.cli.run_compare import evaluate

    return evaluate(out, form=form or "text", **given)


# -- MCP servers


@cli.group()
def mcp() -> None:
    """Inspect an MCP server, call a tool, or serve tools with MCP."""


def _require_mcp() -> None:
    from fxai.cli.target import require_mcp

    require_mcp()


_token_env: Final = option.value("--token-env NAME", "Environment variable with the bearer token.")
_server: Final = click.argument("server", metavar="SERVER")

_SERVER: Final = """\b
SERVER is a URL, or a command that fxai starts without a shell:
  "uvx mcp-server-time"          http://127.0.0.1:8000/mcp
  time="uvx mcp-server-time"     the same server, with the prefix time_ for its tools
"""
_MORE_MCP_TOOLS: Final = f"""{_SERVER}
\b
Examples:
  fxai mcp tools "uvx mcp-server-time"
  fxai mcp tools --json "uvx mcp-server-git" | jq '.tools[].name'
  fxai mcp tools "uvx mcp-server-git" --pins pins.json
  fxai mcp tools "uvx mcp-server-git" --pins pins.json --approve git_log

With --pins, FILE records the tools as fxai first saw them. A tool that changed, or that the server added later, is
blocked here, in fxai chat and in fxai run, until you approve it.

Exit codes: 0 shown, 1 the server could not open, or fxai blocks or rejects a tool, 2 wrong use.
"""


@mcp.command("tools", epilog=_MORE_MCP_TOOLS)
@_server
@option.combine(option.pins, option.env, _token_env, option.timeout)
@option.value("--approve TOOL", "Blocked tool to approve in its present form.", multiple=True)
@click.option("--approve-all", is_flag=True, help="Approve all blocked tools.")
@option.shown
def show_server(out: TextIO, err: TextIO, **given: Any) -> bool:
    """Show the information and the tools of SERVER."""
    if given["pins"] is None and (given["approve"] or given["approve_all"]):
        raise click.UsageError("--approve requires --pins FILE, which stores the approval.")
    _require_mcp()
    from fxai.cli.mcp_servers import show_server

    return show_server(out, err, **given)


_MORE_MCP_CALL: Final = f"""{_SERVER}
\b
Examples:
  fxai mcp call "uvx mcp-server-time" get_current_time '{{"timezone": "Europe/Oslo"}}'
  fxai mcp call http://127.0.0.1:8000/mcp add @parameters.json --token-env TOKEN

The result goes to stdout: text as text, other content as JSON. With --json, the whole result is JSON. Progress goes to
stderr.

Exit codes: 0 the call succeeded, 1 it failed, 2 wrong use, 130 stopped by Ctrl-C.
"""


@mcp.command("call", epilog=_MORE_MCP_CALL, closing="result")
@_server
@click.argument("tool")
@option.params
@option.combine(option.pins, option.env, _token_env, option.timeout)
@click.option("--json", "as_json", is_flag=True, help="Write one JSON object per line: progress, then the result.")
def call_server(out: TextIO, err: TextIO, **given: Any) -> bool:
    """Call one TOOL of SERVER with arguments in JSON. Show the result as text or JSON. Default arguments: {}.

    The command calls the tool without approval, even if the tool changes data. If the server asks a question, such as
    the approval of a call, answer it in the terminal. Without a terminal, the command declines the question.
    """
    _require_mcp()
    from fxai.cli.mcp_servers import call_server

    return call_server(out, err, **given)


_MORE_MCP_SERVE: Final = """\b
Examples:
  fxai mcp serve app.py:kit --layer app.py:live
  fxai mcp serve app.py:tools --http 127.0.0.1:8000
  TOKEN=… fxai mcp serve app.py:tools --http 0.0.0.0:8000 --token-env TOKEN --allow-host tools.example.org

TARGET is a toolkit with its layer, a function tool, the tools of an object, an agent, or a tool source. Without --http,
the server ends when the client closes stdin. The output of handlers goes to stderr.

Exit codes: 0 the client closed stdin, 1 the server could not start, 2 wrong use, 130 and 143 stopped by a signal.
"""


@mcp.command("serve", epilog=_MORE_MCP_SERVE)
@option.target
@option.layer
@option.value("--name NAME", "Name of the server. Default: the name in TARGET.")
@option.value("--http [HOST:]PORT", "Listen on this address, not on stdin; 0 is a free port.", "address")
@_token_env
@option.value("--allow-host NAME", "Host name that clients may use.", "hosts", multiple=True)
@option.value("--allow-origin URL", "Origin of a web page that may use it.", "origins", multiple=True)
def serve_tools(_: TextIO, err: TextIO, **given: Any) -> bool:
    """Serve the tools of TARGET to MCP clients, on stdin and stdout, or over HTTP."""
    if given["address"] is None and any(given[name] for name in ("token_env", "hosts", "origins")):
        raise click.UsageError("--token-env, --allow-host, and --allow-origin require --http.")
    _require_mcp()
    from fxai.cli.mcp_servers import serve

    return serve(err, **given)


# -- workers


_MORE_WORKER: Final = """\b
Examples:
  dask scheduler --host 127.0.0.1 --dashboard-address 127.0.0.1:8787
  fxai worker tcp://127.0.0.1:8786 shop:desk
  fxai worker tcp://10.0.0.5:8786 shop:desk --threads 64 --resource GPU=1
  fxai worker tls://10.0.0.5:8786 shop:desk --tls-ca ca.pem --tls-cert worker.pem --tls-key worker.key
  fxai worker --queue jobs.db shop:desk
  fxai worker --queue postgresql://ann@db.example.org/jobs shop:desk shop:till

TARGET is the module:name of tools with their handlers: a bound toolkit, a function tool, or a composite. The worker
builds each TARGET before it accepts calls. A Dask worker also builds other targets at their first call. Python also
searches the current directory for modules. Ctrl-C lets active calls finish. A second Ctrl-C stops the worker
immediately.

With --queue, the worker needs no scheduler. It takes calls from a database, where they survive the loss of the program
and of its workers. You can set the password of a PostgreSQL database with PGPASSWORD or a password file.

Any program that can reach a Dask worker or scheduler can run any code there. Run them in a separate network, or use TLS
with certificates that only they have.

Exit codes: 0 the cluster released the worker, 1 it could not start, 2 wrong use, 130 and 143 stopped by a signal.
"""


@cli.command(epilog=_MORE_WORKER, work="fxai.cli.worker_command:work")
@click.argument("arguments", nargs=-1, metavar="[SCHEDULER] [TARGET]...")
@option.value("--queue PATH_OR_URL", "Work queue: the path of a SQLite database, or postgresql://…")
@option.value(
    "--threads N", "Maximum number of active calls.", type=click.IntRange(min=1), default=16, show_default=True
)
@option.value("--resource NAME=N", "Resource that calls can reserve. Repeatable.", "resources", multiple=True)
@option.value("--name NAME", "Name in the cluster. Default: the address of the worker.")
@option.value("--host NAME", "Address to listen on. Default: the address that reaches SCHEDULER.")
@option.value("--tls-ca FILE", "Certificates of the authority of the cluster.", type=click.Path())
@option.value("--tls-cert FILE", "Certificate of this worker.", type=click.Path())
@option.value("--tls-key FILE", "Key of the certificate.", type=click.Path())
@option.value(
    "--grace SECONDS",
    "Seconds to let active calls finish, and again for their finalizers.",
    type=click.FloatRange(min=0),
    default=30.0,
    show_default=True,
)
@click.option("--telemetry", is_flag=True, help="Trace the calls with the OpenTelemetry providers of the process.")
def worker() -> None:
    """Run calls for the Dask cluster of SCHEDULER, such as tcp://127.0.0.1:8786, or for a --queue."""


cli.add_command(runs)
