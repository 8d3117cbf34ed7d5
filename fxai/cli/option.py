r"""Options that several commands have.

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
"""How a group of commands is made."""


class _Whole(click.Command):
    @override
    def get_short_help_str(self, limit: int = 45) -> str:
        """The first paragraph of the help, whole, however long it is."""
        return " ".join((self.help or "").strip().partition("\n\n")[0].split()) or super().get_short_help_str(limit)


class Command(_Whole):
    """A command whose summary is shown whole."""


class Group(_Whole, click.Group):
    """Commands whose summaries are shown whole."""

    command_class: type[click.Command] | None = Command


def models_like(_: click.Context, __: click.Parameter, typed: str) -> list[str]:
    """The names of models that begin with a text."""
    from fxai.cli.model_list import list_models

    names = [f"{entry.name}:" if entry.server is not None else entry.name for entry in list_models()]
    return [name for name in names if name.startswith(typed)]


target: Final = click.argument("target", type=click.Path(), metavar="TARGET")
as_json: Final = click.option("--json", "as_json", is_flag=True, help="One JSON object on stdout, errors too.")
color: Final = click.option("--color/--no-color", default=None, help="By default where stdout is a terminal with it.")
debug: Final = click.option("--debug", is_flag=True, help="When something breaks, show where.")
layer: Final = click.option("--layer", metavar="TARGET", help="The layer of the handlers, where TARGET has none.")
env: Final = click.option(
    "--env", metavar="NAME", multiple=True, help="A variable of the environment that programs of MCP servers are given."
)
pins: Final = click.option(
    "--pins",
    metavar="FILE",
    type=click.Path(),
    help="Where tools of MCP servers are pinned: changed ones are held back.",
)

timeout: Final = click.option(
    "--timeout",
    metavar="SECONDS",
    type=click.FloatRange(min=0, min_open=True),
    help="How long an MCP server may take to open; else 30.",
)

_AGENT: Final = click.option(
    "--agent",
    metavar="TARGET",
    help="The agent or the stateful prompt, as module:name or path.py:name; else an example.",
)
_SETTING: Final = (
    click.option("--layer", metavar="TARGET", help="The layer of its handlers, and of its model if it gives one."),
    click.option(
        "--model",
        metavar="NAME",
        shell_complete=models_like,
        help="local (the default), local:/path/to/model.gguf, openai:NAME or anthropic:NAME; see fxai models.",
    ),
    click.option("--system", metavar="TEXT", help="System instructions, in front of the conversation."),
    click.option("--rounds", metavar="N", type=click.IntRange(min=1), help="How often the model is asked at most."),
    click.option(
        "--mcp",
        metavar="SERVER",
        multiple=True,
        help="An MCP server whose tools it has: a command or a URL; name=… before it prefixes them. May be repeated.",
    ),
    env,
    pins,
    timeout,
    click.option(
        "-y",
        "--yes",
        "unasked",
        is_flag=True,
        help="Run the servers' tools unasked, those too that are not marked read-only.",
    ),
    click.option(
        "--show-secrets",
        "secrets",
        is_flag=True,
        help="Let the example agent read files that may hold secrets: hidden ones, keys, passwords.",
    ),
)
_KEPT: Final = (
    click.option(
        "--memory",
        metavar="FILE",
        type=click.Path(),
        help="Where the conversation is kept, and gone on from: FILE.jsonl, or FILE.db for SQLite.",
    ),
    click.option(
        "--state",
        metavar="FILE",
        type=click.Path(),
        help="Where the state of a stateful prompt is kept, and gone on from: a file of JSON.",
    ),
)


def agent_options(command: _F) -> _F:
    """Adds the options that choose an agent, say how it runs, and where its conversation is kept."""
    return _with_options((_AGENT, *_SETTING, *_KEPT), command)


def setting_options(command: _F) -> _F:
    """Adds the options that say how an agent runs."""
    return _with_options(_SETTING, command)


def _with_options(options: tuple[Callable[[_F], _F], ...], command: _F) -> _F:
    for option in reversed(options):
        command = option(command)
    return command
