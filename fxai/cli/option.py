r"""Commands of `fxai`, and the options and arguments that several commands share.

>>> from click.testing import CliRunner
>>> @click.command(cls=Command)
... @as_json
... def hello(out: TextIO, err: TextIO, as_json: bool) -> bool:
...     return bool(out.write("{}" if as_json else "hello"))
>>> CliRunner().invoke(hello, ["--json"]).output
'{}'
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pkgutil import resolve_name
from typing import Any, Final, TextIO

import click
from typing_extensions import TypeVar, override

from fxai.cli.exit import FAILED, run_command

_F = TypeVar("_F", bound=Callable[..., Any])


DEBUG: Final = "fxai.debug"
"""The key of the option `--debug` in the metadata of the context."""


class _Whole(click.Command):
    @override
    def get_short_help_str(self, limit: int = 45) -> str:
        """Return the whole first paragraph of the help, at any length."""
        return " ".join((self.help or "").strip().partition("\n\n")[0].split()) or super().get_short_help_str(limit)


class Command(_Whole):
    """A command with the option `--debug`. `run_command` runs its function.

    The function receives the streams for results and for other output, and the parameters. It returns True on success.
    """

    def __init__(
        self,
        *given: Any,
        work: str | None = None,
        closing: str | None = None,
        failed: int = FAILED,
        reports: bool = True,
        **options: Any,
    ) -> None:
        """Create a command. `closing` and `failed` are parameters of `run_command`.

        `work` names the function as `module:name`, so that only a run imports it. Default: the decorated function. If
        `reports` is false, the function writes the JSON object of an error itself.
        """
        super().__init__(*given, **options)
        self.params.append(click.Option(["--debug"], is_flag=True, help="Show the traceback of an error."))
        self.work: str | None = work
        self._closing = closing
        self._failed = failed
        self._reports = reports

    @override
    def invoke(self, ctx: click.Context) -> None:
        given = ctx.params
        debug = ctx.meta[DEBUG] = given.pop("debug")
        as_json = self._reports and bool(given.get("as_json", given.get("form") == "json"))

        def work(out: TextIO, err: TextIO) -> bool:
            function: Any = self.callback if self.work is None else resolve_name(self.work)
            return bool(ctx.invoke(function, out, err, **given))

        run_command(work, as_json=as_json, debug=debug, closing=self._closing, failed=self._failed)


class Group(_Whole, click.Group):
    """A group of commands. Without a command, it shows its help."""

    command_class: type[click.Command] | None = Command
    group_class: type[click.Group] | type[type] | None = type

    def __init__(self, *given: Any, **options: Any) -> None:
        """Create a group."""
        options |= {"invoke_without_command": True, "context_settings": {"help_option_names": ["-h", "--help"]}}
        super().__init__(*given, **options)

    @override
    def invoke(self, ctx: click.Context) -> None:
        super().invoke(ctx)
        if ctx.invoked_subcommand is None:
            click.echo(ctx.get_help())


def completing(names: Callable[[], Iterable[str]]) -> Callable[[click.Context, click.Parameter, str], list[str]]:
    """Return a function for shells that completes one of these names."""
    return lambda _, __, typed: [name for name in names() if name.startswith(typed)]


def model_names() -> Iterable[str]:
    """Return the names of models for `--model`."""
    from fxai.cli.model_list import list_models

    return [f"{entry.name}:" if entry.server is not None else entry.name for entry in list_models()]


def value(spec: str, text: str, *names: str, **more: Any) -> Callable[[_F], _F]:
    """Return the option of a spec such as `--name NAME` with this help. `names` are names of its parameter."""
    name, metavar = spec.split(" ")
    return click.option(name, *names, metavar=metavar, help=text, **more)


def model(text: str) -> Callable[[_F], _F]:
    """Return the option `--model` with this help."""
    return value("--model NAME", text, shell_complete=completing(model_names))


def combine(*options: Callable[[_F], _F]) -> Callable[[_F], _F]:
    """Return a decorator that adds these options in this order."""

    def add(command: _F) -> _F:
        for option in reversed(options):
            command = option(command)
        return command

    return add


target: Final = click.argument("target", type=click.Path(), metavar="TARGET")
params: Final = click.argument("params", required=False, metavar="[JSON | @file | -]")
as_json: Final = click.option("--json", "as_json", is_flag=True, help="Write one JSON object to stdout, errors too.")
color: Final = click.option("--color/--no-color", default=None, help="Default: color if stdout is a color terminal.")
shown: Final = combine(as_json, color)
"""The options of a command that shows data."""
presented: Final = combine(
    click.option("--json", "as_json", is_flag=True, help="Write one JSON object per line: each part, then a summary."),
    click.option("-q", "--quiet", is_flag=True, help="Write only the answer."),
    click.option("--color/--no-color", default=None, help="Default: color if stdout is a terminal without NO_COLOR."),
)
"""The options of a command that shows a run."""
layer: Final = value("--layer TARGET", "Layer of the handlers. Default: the handlers of TARGET.")
env: Final = value("--env NAME", "Environment variable that MCP server programs receive. Repeatable.", multiple=True)
pins: Final = value(
    "--pins FILE", "File with the pinned tools of MCP servers. fxai blocks tools that changed.", type=click.Path()
)

timeout: Final = value(
    "--timeout SECONDS",
    "Seconds to wait for an MCP server to open. Default: 30.",
    type=click.FloatRange(min=0, min_open=True),
)

_AGENT: Final = value(
    "--agent TARGET", "Agent or stateful prompt, as module:name or path.py:name. Default: an example agent."
)
_SETTING: Final = (
    value("--layer TARGET", "Layer of the handlers, which can also provide the model."),
    model("Model: local, local:/path/to/model.gguf, openai:NAME or anthropic:NAME; see fxai models. Default: local."),
    value("--system TEXT", "System instructions before the conversation."),
    value("--rounds N", "Maximum number of requests to the model.", type=click.IntRange(min=1)),
    value(
        "--mcp SERVER",
        "MCP server with tools for the agent: a command or a URL. name=… adds a prefix to its tools. Repeatable.",
        multiple=True,
    ),
    env,
    pins,
    timeout,
    click.option(
        "-y",
        "--yes",
        "unasked",
        is_flag=True,
        help="Run all tools of the servers without approval, even tools that are not marked read-only.",
    ),
)
_KEPT: Final = (
    value(
        "--memory FILE",
        "File of the conversation, which the agent continues: FILE.jsonl, or FILE.db for SQLite.",
        type=click.Path(),
    ),
    value(
        "--state FILE", "JSON file with the state of a stateful prompt, which the agent continues.", type=click.Path()
    ),
)

agent_options: Final = combine(_AGENT, *_SETTING, *_KEPT)
"""The options that select an agent, configure its run, and name the files of its conversation."""
replay_options: Final = combine(_AGENT, *_SETTING)
"""The options that select an agent and configure its run."""
setting_options: Final = combine(*_SETTING)
"""The options that configure the run of an agent."""
