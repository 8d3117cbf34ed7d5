"""Checks of your own tools: each law that a tool, a toolkit or its handlers should hold, tried on drawn data.

>>> import msgspec
>>> from fxai.tools.tool import Tool
>>> class Share(msgspec.Struct, frozen=True):
...     of: int
...     among: int
>>> share = Tool.make("share", parameters=Share, success=int)
>>> check_tool(share, max_examples=20)
>>> from returns.result import Success
>>> check_handler(share, share.handler(lambda given: Success(given.of // given.among)), seed=1)
Traceback (most recent call last):
fxai.testing.law.LawError: the tool 'share' breaks a law: every valid call ends in a success or a declared failure
  with:  {"of":0,"among":0}
  found: the handler crashed: ZeroDivisionError: ...
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from fxai.effects.layer import AnyLayer
from fxai.testing.handler_law import HANDLER_LAWS, LAYER_LAWS, Handled
from fxai.testing.law import LawCase, Trial
from fxai.testing.tool_law import TOOL_LAWS, TOOLKIT_LAWS, Subject
from fxai.tools.tool import AnyTool, Tool
from fxai.tools.toolkit import Toolkit

if TYPE_CHECKING:
    from hypothesis.strategies import SearchStrategy

__all__ = ["check_handler", "check_layer", "check_tool", "check_toolkit", "laws_of"]

Layer = AnyLayer


def check_tool(
    tool: AnyTool,
    *,
    parameters: SearchStrategy[Any] | None = None,
    max_examples: int = 100,
    seed: int | None = None,
    derandomize: bool = False,
) -> None:
    """Hold a tool to every law of tools.

    What is written is read as what it was; the JSON Schema takes exactly what the decoder takes, on each validator that
    is installed; successes and failures are written as their schemas say; the strict schema of each provider says what
    the tool's own says; annotating keeps kind, schema and identity; input examples are valid.

    Args:
        tool: any kind of tool.
        parameters: valid parameters as plain JSON data, where those drawn from the schema will not do.
        max_examples: how much data is drawn for each law.
        seed: where the drawing starts, to repeat it.
        derandomize: draw the same data each time.

    Raises:
        LawError: a law does not hold; says the smallest data that shows it, where, and what to do.
    """
    _check(_tool_cases(tool, parameters, Trial(max_examples, seed, derandomize)))


def check_toolkit(
    toolkit: Toolkit[Any], *, max_examples: int = 100, seed: int | None = None, derandomize: bool = False
) -> None:
    """Hold a toolkit to every law: each tool to its own, merging to those of a monoid, names to being reversible.

    Raises:
        LawError: as `check_tool`.
    """
    _check(laws_of(toolkit, max_examples=max_examples, seed=seed, derandomize=derandomize))


def check_handler(
    tool: AnyTool,
    layer: Layer,
    *,
    parameters: SearchStrategy[Any] | None = None,
    max_examples: int = 100,
    seed: int | None = None,
    derandomize: bool = False,
) -> None:
    """Hold a tool's handler to its word: each valid call ends in a success or a declared failure, never in a crash.

    What the handler gives is written as its schema says, and what the schema refuses never reaches it. The layer is
    built anew for each call; it must need nothing, so give it test services where it needs some. Within a running
    event loop the calls are run in a thread of their own.

    Raises:
        LawError: as `check_tool`.
    """
    _check(_handler_cases(tool, layer, parameters, Trial(max_examples, seed, derandomize)))


def check_layer(
    toolkit: Toolkit[Any],
    layer: Layer,
    *,
    parameters: Mapping[str, SearchStrategy[Any]] | None = None,
    max_examples: int = 100,
    seed: int | None = None,
    derandomize: bool = False,
) -> None:
    """Hold a toolkit's layer to its word: one handler for each tool that needs one, each as `check_handler` says.

    Args:
        toolkit: the tools.
        layer: their handlers, which need nothing more.
        parameters: by a tool's name, valid parameters as plain JSON data.
        max_examples: how much data is drawn for each law.
        seed: where the drawing starts, to repeat it.
        derandomize: draw the same data each time.

    Raises:
        LawError: as `check_tool`.
    """
    _check(_layer_cases(toolkit, layer, parameters or {}, Trial(max_examples, seed, derandomize)))


def laws_of(
    toolkit: Toolkit[Any] | AnyTool,
    layer: Layer | None = None,
    *,
    parameters: Mapping[str, SearchStrategy[Any]] | None = None,
    max_examples: int = 100,
    seed: int | None = None,
    derandomize: bool = False,
) -> list[LawCase]:
    """Every law of a toolkit (or of one tool), of its tools and, with a layer, of its handlers: one case each.

    >>> str(laws_of(Tool.make("ping"))[0])
    'ping: decoding undoes encoding'
    """
    kit: Toolkit[Any] = Toolkit.of([toolkit]) if isinstance(toolkit, Tool) else toolkit
    trial, given = Trial(max_examples, seed, derandomize), parameters or {}
    cases = [case for tool in kit for case in _tool_cases(tool, given.get(tool.name), trial)]
    if not isinstance(toolkit, Tool):
        cases += [LawCase(law, kit, "toolkit", f"the {kit!r}", trial) for law in TOOLKIT_LAWS]
    return cases if layer is None else [*cases, *_layer_cases(kit, layer, given, trial)]


def _check(cases: Iterable[LawCase]) -> None:
    for case in cases:
        case.check()


def _tool_cases(tool: AnyTool, given: SearchStrategy[Any] | None, trial: Trial) -> list[LawCase]:
    subject = Subject(tool, given)
    return [LawCase(law, subject, tool.name, f"the tool {tool.name!r}", trial) for law in TOOL_LAWS]


def _handler_cases(tool: AnyTool, layer: Layer, given: SearchStrategy[Any] | None, trial: Trial) -> list[LawCase]:
    subject = Handled(tool, layer, given)
    return [LawCase(law, subject, tool.name, f"the tool {tool.name!r}", trial) for law in HANDLER_LAWS]


def _layer_cases(
    kit: Toolkit[Any], layer: Layer, given: Mapping[str, SearchStrategy[Any]], trial: Trial
) -> list[LawCase]:
    cases = [LawCase(law, (kit, layer), "layer", f"the layer of {kit!r}", trial) for law in LAYER_LAWS]
    for tool in kit:
        if tool.requires_handler:
            cases += _handler_cases(tool, layer, given.get(tool.name), trial)
    return cases
