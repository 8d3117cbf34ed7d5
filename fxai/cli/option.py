r"""Options and arguments that several commands share. Use them as decorators of a command.

>>> import click
>>> from click.testing import CliRunner
>>> @click.command()
... @as_json
... def hello(as_json: bool) -> None:
...     click.echo("{}" if as_json else "hello")
>>> CliRunner().invoke(hello, ["--json"]).output
'{}\n'
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import click
from typing_extensions import TypeVar, override

_F = TypeVar("_F", bound=Callable[..., Any])


GROUP: Final[dict[str, Any]] = {
    "invoke_without_command": True,
    "context_settings": {"help_option_names": ["-h", "--help"]},
}
"""The keyword arguments of `click.group` for each group of commands."""


class _Whole(click.Command):
    @override
    def get_short_help_str(self, limit: int = 45) -> str:
        """Return the whole first paragraph of the help, at any length."""
        return " ".join((self.help or "").strip().partition("\n\n")[0].split()) or super().get_short_help_str(limit)


class Command(_Whole):
    """A command whose summary is never shortened."""


class Group(_Whole, click.Group):
    """A group of commands whose summaries are never shortened."""

    command_class: type[click.Command] | None = Command


def models_like(_: click.Context, __: click.Parameter, typed: str) -> list[str]:
    """Return the names of models that start with `typed`."""
    from fxai.cli.model_list import list_models

    names = [f"{entry.name}:" if entry.server is not None else entry.name for entry in list_models()]
    return [name for name in names if name.startswith(typed)]


target: Final = click.argument("target", type=click.Path(), metavar="TARGET")
as_json: Final = click.option("--json", "as_json", is_flag=True, help="Write one JSON object to stdout, errors too.")
color: Final = click.option("--color/--no-color", default=None, help="Default: color if stdout is a color terminal.")
debug: Final = click.option("--debug", is_flag=True, help="Show the traceback of an error.")
layer: Final = click.option("--layer", metavar="TARGET", help="Layer of the handlers. Default: the handlers of TARGET.")
env: Final = click.option(
    "--env", metavar="NAME", multiple=True, help="Environment variable that MCP server programs receive. Repeatable."
)
pins: Final = click.option(
    "--pins",
    metavar="FILE",
    type=click.Path(),
    help="File with the pinned tools of MCP servers. fxai blocks tools that changed.",
)

timeout: Final = click.option(
    "--timeout",
    metavar="SECONDS",
    type=click.FloatRange(min=0, min_open=True),
    help="Seconds to wait for an MCP server to open. Default: 30.",
)

_AGENT: Final = click.option(
    "--agent",
    metavar="TARGET",
    help="Agent or stateful prompt, as module:name or path.py:name. Default: an example agent.",
)
_SETTING: Final = (
    click.option("--layer", metavar="TARGET", help="Layer of the handlers, which can also provide the model."),
    click.option(
        "--model",
        metavar="NAME",
        shell_complete=models_like,
        help="Model: local, local:/path/to/model.gguf, openai:NAME or anthropic:NAME; see fxai models. Default: local.",
    ),
    click.option("--system", metavar="TEXT", help="System instructions before the conversation."),
    click.option("--rounds", metavar="N", type=click.IntRange(min=1), help="Maximum number of requests to the model."),
    click.option(
        "--mcp",
        metavar="SERVER",
        multiple=True,
        help="MCP server with tools for the agent: a command or a URL. name=… adds a prefix to its tools. Repeatable.",
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
    click.option(
        "--show-secrets",
        "secrets",
        is_flag=True,
        help="Let the example agent read files that can contain secrets: hidden files, keys, passwords.",
    ),
)
_KEPT: Final = (
    click.option(
        "--memory",
        metavar="FILE",
        type=click.Path(),
        help="File of the conversation, which the agent continues: FILE.jsonl, or FILE.db for SQLite.",
    ),
    click.option(
        "--state",
        metavar="FILE",
        type=click.Path(),
        help="JSON file with the state of a stateful prompt, which the agent continues.",
    ),
)


def agent_options(command: _F) -> _F:
    """Add the options that select an agent, configure its run, and name the files of its conversation."""
    return _with_options((_AGENT, *_SETTING, *_KEPT), command)


def replay_options(command: _F) -> _F:
    """Add the options that select an agent and configure its run."""
    return _with_options((_AGENT, *_SETTING), command)


def setting_options(command: _F) -> _F:
    """Add the options that configure the run of an agent."""
    return _with_options(_SETTING, command)


def _with_options(options: tuple[Callable[[_F], _F], ...], command: _F) -> _F:
    for option in reversed(options):
        command = option(command)
    return command
