"""Repair: an invalid call, mended by asking a model again.

>>> from fxai.effects import fx
>>> from fxai.testing import ScriptedModel, call
>>> from fxai.tools.tool import Tool
>>> from returns.result import Success
>>> ping = Tool.make("ping", success=str)
>>> kit = Toolkit.make(ping)
>>> model = ScriptedModel.make([call("pong", {}), call("ping", {})])
>>> asked = LanguageModel.generate_text("Ping!", toolkit=kit, repair=repair_by_model(kit))
>>> answered = asked.provide(ping.handler(lambda _: Success("pong"))).provide(model.layer)
>>> [result.result for result in fx.run(answered).tool_results]
['pong']
"""

from __future__ import annotations

from typing import Any

from fxai.effects.effect import EffectOf
from fxai.messages.part import ToolCall
from fxai.messages.prompt import Prompt
from fxai.models.choice import ToolChoice
from fxai.models.language_model import LanguageModel
from fxai.models.resolve import Repair
from fxai.tools.failure import InvalidParameters, UnknownTool
from fxai.tools.toolkit import Toolkit

__all__ = ["repair_by_model"]


def repair_by_model(toolkit: Toolkit[Any]) -> Repair:
    """A repair that shows the failure to the model and takes the call that it makes instead, if it makes one.

    Args:
        toolkit: the tools that it may call; for invalid parameters it must call the same tool.
    """

    def repair(call: ToolCall, failure: UnknownTool | InvalidParameters) -> EffectOf[ToolCall | None, Any, Any]:
        written = call.params_text if call.params_text is not None else call.params
        said = f"This call failed: {call.name} with {written!r}. {failure}. Make the call as it should be."
        known = isinstance(failure, InvalidParameters)
        asked = LanguageModel.generate_text(
            Prompt.make(said),
            toolkit=toolkit,
            tool_choice=ToolChoice.tool(call.name) if known else "required",
            resolve_tools=False,
        )
        return asked.map(lambda response: _with_id(response.tool_calls, call.id))

    return repair


def _with_id(calls: tuple[ToolCall, ...], id_: str) -> ToolCall | None:
    if not calls:
        return None
    mended = calls[0]
    return ToolCall(id_, mended.name, mended.params, dynamic=mended.dynamic, params_text=mended.params_text)
