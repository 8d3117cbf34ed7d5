"""A streamed round: the parts of a model's turn as they come, then the results of its calls.

>>> from fxai.effects import fx
>>> from fxai.messages.part import Finish, TextDelta
>>> said = StreamOf.make(TextDelta("1", "Good day."), Finish("stop"))
>>> turn = StreamOf(said.pull().map(lambda pull: StreamedTurn(pull, Resolution({})).pull))
>>> [part.type for part in fx.run(turn.collect())]
['text-delta', 'finish']
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, final

from fxai.effects.channel import END, Channel
from fxai.effects.concurrency import for_each
from fxai.effects.effect import EffectOf, FlatMap, Succeed, Suspend
from fxai.effects.stream import StreamOf
from fxai.messages.gather import gather
from fxai.messages.part import StreamPart, ToolResult
from fxai.models.resolve import Resolution, Turn

__all__ = ["StreamedTurn"]


@final
class StreamedTurn:
    """One streamed round: the model's parts, then the results, then how it finished."""

    __slots__ = ("_ahead", "_broken", "_parts", "_resolution", "_resolve_tools", "_results", "_said", "_source", "pull")

    def __init__(
        self,
        source: EffectOf[Any, Any, Any],
        resolution: Resolution,
        *,
        resolve_tools: bool = True,
        early: Iterable[ToolResult] = (),
    ) -> None:
        self._source = source
        self._resolution = resolution
        self._resolve_tools = resolve_tools
        self._parts: list[Any] = []  # calls, results and finish: what the resolution needs
        self._said: list[Any] = list(early)
        self._broken: dict[str, Any] = {}  # what began as a call and is none yet
        self._results: EffectOf[Any, Any, Any] | None = None
        self._ahead = list(resolution.warnings)
        self.pull: EffectOf[Any, Any, Any] = Suspend(self._beginning if self._ahead else self._following)

    def _beginning(self) -> EffectOf[Any, Any, Any]:
        """The warnings of the round, then what the model says."""
        return self._seen(self._ahead.pop(0)) if self._ahead else self._following()

    def _following(self) -> EffectOf[Any, Any, Any]:
        if self._results is not None:
            return self._results
        return FlatMap(self._source, self._seen)

    def _seen(self, part: Any) -> EffectOf[Any, Any, Any]:
        if part is END:
            return self._resolve()
        kind = part.type
        if kind == "tool-call":
            part = self._resolution.flagged(part)
            self._broken.pop(part.id, None)
            self._parts.append(part)
        elif kind == "tool-params-start":
            part = self._resolution.flagged(part)
            self._broken[part.id] = part
        elif kind in ("finish", "tool-result"):
            self._parts.append(part)
        self._said.append(part)
        return Suspend(self._following) if kind == "finish" else Succeed(part)

    def _resolve(self) -> EffectOf[Any, Any, Any]:
        """The calls whose parameters broke off, the results, and how the turn finished."""
        whole = gather(self._said) if self._broken else ()
        cut = [part for part in whole if part.type == "tool-call" and part.id in self._broken]
        flagged = [self._resolution.flagged(call) for call in cut]
        self._said += flagged
        turn = Turn([*self._parts, *flagged], self._resolution)
        if not self._resolve_tools:
            return self._then(StreamOf.from_iterable([*flagged, *turn.finish()]))

        def body(channel: Channel[StreamPart]) -> EffectOf[Any, Any, Any]:
            def finish(_: object) -> EffectOf[Any, Any, Any]:
                return turn.ending(self._said).flat_map(lambda parts: for_each(parts, channel.put))

            return for_each(flagged, channel.put).and_then(turn.resolve(channel.put)).flat_map(finish)

        return self._then(StreamOf.from_channel(body))

    def _then(self, stream: StreamOf[Any, Any, Any]) -> EffectOf[Any, Any, Any]:
        def opened(pull: EffectOf[Any, Any, Any]) -> EffectOf[Any, Any, Any]:
            self._results = pull
            return pull

        return stream.pull().flat_map(opened)
