"""What a server offers at one time: tools with their handlers, there until other ones take their place.

An offer that was replaced stays until the calls that it runs have ended; then what its layer acquired is released.
"""

from __future__ import annotations

from typing import Any, final

import anyio
import msgspec

from fxai.effects.cause import Succeeded
from fxai.effects.context import ContextOf
from fxai.effects.effect import EffectOf, Suspend, Within
from fxai.effects.fiber import run_fiber
from fxai.effects.layer import MemoMap
from fxai.effects.scope import NOTHING, Scope
from fxai.mcp.server.tool import ServedTool, served
from fxai.tools.call import Call
from fxai.tools.source import AnyBound
from fxai.tools.toolkit import HandlerError

__all__ = ["Offer", "offered"]


@final
class Offer(msgspec.Struct, eq=False):
    """The tools that are offered, by the names that clients know, and the services to run them with."""

    bound: AnyBound
    tools: dict[str, ServedTool]
    services: ContextOf[Any]
    scope: Scope
    running: int = 0
    is_replaced: bool = False

    @property
    def documents(self) -> list[dict[str, Any]]:
        """What `tools/list` says."""
        return [tool.document for tool in self.tools.values()]

    def call(self, tool: ServedTool, arguments: Any, call_id: str, **more: Any) -> Call:
        """The call of one of these tools with the arguments that a client gave."""
        given = tool.params(arguments)
        own = tool.tool
        return Call({own.name: own}, own.name, given, call_id=call_id, on_invalid_call="error", **more)

    def entered(self) -> None:
        """Keeps the handlers while a call runs; each call that entered has to leave."""
        self.running += 1

    async def left(self) -> None:
        """Ends what `entered` began; the last call releases what a replaced offer holds."""
        self.running -= 1
        if self.is_replaced:
            with anyio.CancelScope(shield=True):
                await run_fiber(self._released(), self.services)

    def replaced(self) -> EffectOf[None, Any, None]:
        """Marks it as replaced, and releases what it holds where no call runs."""

        def mark() -> EffectOf[None, Any, None]:
            self.is_replaced = True
            return self._released()

        return Suspend(mark)

    def _released(self) -> EffectOf[None, Any, None]:
        return self.scope.close(Succeeded(None)) if self.is_replaced and not self.running else NOTHING


def offered(bound: AnyBound) -> EffectOf[Offer, Any, Any]:
    """The offer of these tools, their handlers built with the services around.

    A tool that no handler of ours answers is a `HandlerError`, a defect: a server could not answer its calls.
    """
    foreign = [tool.name for tool in bound.toolkit if not tool.requires_handler]
    if foreign:
        raise HandlerError(
            f"an MCP server cannot answer calls of {', '.join(foreign)}: somebody else runs them; leave them out by "
            "toolkit.omit(…)"
        )

    def build(context: ContextOf[Any]) -> EffectOf[Offer, Any, Any]:
        scope = Scope()
        memo = MemoMap.of(context)

        def made(services: ContextOf[Any]) -> Offer:
            return Offer(bound, tools, memo.into(context.merge(services)), scope)

        tools = served(bound.toolkit)
        built = bound.layer.build_in(memo, scope).map(made)
        return built.on_exit(lambda end: NOTHING if isinstance(end, Succeeded) else scope.close(end))

    return Within(build)
