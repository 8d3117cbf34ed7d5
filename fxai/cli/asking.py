"""Asking: the agent, the layer and the prompts that `fxai run` was given, as a job.

>>> asked(("Hello",), model="local").prompts
('Hello',)
"""

from __future__ import annotations

import sys
from typing import Any

import click
import msgspec

from fxai.agents.agent import Agent
from fxai.cli.job import Job
from fxai.cli.piped import piped
from fxai.cli.target import load
from fxai.cli.trouble import WRONG_USE, Trouble
from fxai.effects.layer import LayerOf

__all__ = ["asked", "prompts"]


def asked(
    given: tuple[str, ...] | str | None,
    *,
    agent: str | None = None,
    layer: str | None = None,
    model: str | None = None,
    rounds: int | None = None,
) -> Job:
    """The job of what was said on the command line; without an agent, the example agent's.

    Raises:
        Trouble: there is no such agent or layer, or no prompt.
    """
    own: tuple[str, ...] = ()
    chosen: Agent[Any]
    supplied: LayerOf[Any, Any, Any] | None = None
    if agent is None:
        from fxai.cli import example

        chosen, supplied, own = example.agent, example.layer, example.PROMPTS
    else:
        chosen = load(agent, Agent, "an agent")
    if layer is not None:
        kind: type[LayerOf[Any, Any, Any]] = LayerOf
        added = load(layer, kind, "a layer")
        supplied = added if supplied is None else supplied | added
    if rounds is not None:
        chosen = msgspec.structs.replace(chosen, budget=msgspec.structs.replace(chosen.budget, rounds=rounds))
    return Job(chosen, supplied, model, given if isinstance(given, tuple) else prompts(given, own))


def prompts(given: str | None, own: tuple[str, ...]) -> tuple[str, ...]:
    """What is asked: as given, else what is piped in, else `own`.

    Raises:
        Trouble: there is no prompt, or an empty one.
    """
    if given in (None, "-"):
        text = _read(wait=given == "-" or not own)
        if not (text or "").strip() and given is None:
            text = None
        if text is None and own:
            return own
        if text is None:
            raise Trouble("there is no prompt", "say what is wanted: fxai run PROMPT, or pipe it in", code=WRONG_USE)
        given = text
    if not given.strip():
        raise Trouble("the prompt is empty", "say what is wanted: fxai run PROMPT", code=WRONG_USE)
    return (given.encode("utf-8", "surrogateescape").decode("utf-8", "replace"),)


def _read(*, wait: bool) -> str | None:
    if sys.stdin is not None and sys.stdin.isatty() and wait:
        click.echo("What is wanted? (Ctrl-D ends it)", err=True)
    return piped(sys.stdin, wait=wait)
