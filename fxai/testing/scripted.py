"""A scripted model. Use it in tests to answer with fixed turns and to record the requests.

>>> from fxai.effects import fx
>>> from fxai.models.language_model import LanguageModel
>>> from fxai.messages.errors import RateLimitError
>>> model = ScriptedModel.make([["It is ", "fine."], fails(RateLimitError(retry_after=1))])
>>> fx.run(LanguageModel.generate_text("How is it?").provide(model.layer)).text
'It is fine.'
>>> model.requests[0].prompt.messages[-1].role
'user'
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Sequence
from itertools import count
from typing import Any, Never, TypeAlias, final

import msgspec
from typing_extensions import override

from fxai.effects.cause import Cause, Fail
from fxai.effects.effect import AnyEffect, Await, Effect, EffectOf, FailCause, Generate, Succeed, Suspend, Sync
from fxai.effects.layer import LayerOf
from fxai.effects.pull import END
from fxai.effects.stream import Stream, StreamOf
from fxai.messages.errors import AiError
from fxai.messages.part import (
    AnyPart,
    Finish,
    FinishReason,
    Part,
    Reasoning,
    ReasoningDelta,
    ReasoningEnd,
    ReasoningStart,
    StreamPart,
    Text,
    TextDelta,
    TextEnd,
    TextStart,
    ToolCall,
    ToolParamsStart,
    Usage,
)
from fxai.messages.reason import Reason
from fxai.messages.response import Response, stream_of
from fxai.models.language_model import LanguageModel
from fxai.models.model_facts import ModelFacts
from fxai.models.model_info import ModelInfo
from fxai.models.model_request import ModelRequest
from fxai.models.token_count import TokenCount, estimate_request


@final
class Delay(msgspec.Struct, frozen=True):
    """A pause in a turn, in seconds of the `Clock`."""

    seconds: float
    """Seconds of the clock."""


@final
class Failure(msgspec.Struct, frozen=True):
    """A failure at this point of the turn. A stream emits the earlier items first."""

    reason: Reason | AiError
    """The reason, or the whole error."""


Turn: TypeAlias = "str | AnyPart | Delay | Failure | Sequence[Turn]"
"""The answer of the model to one request: one item or several items. Strings are pieces of one text, as in a stream.

`text` and the other functions return a `Turn`, so a list of mixed items has the type `list[Turn]`.
"""

_ids = count(1)


def text(value: str) -> Turn:
    """Return a turn with the text `value`."""
    return value


def call(name: str, params: object, *, id: str | None = None) -> ToolCall:
    """Return a call of a tool with a JSON value. Without an `id`, the call receives a new id.

    Its arguments arrive in one piece, unless the turn contains them before the call as `ToolParamsStart`,
    `ToolParamsDelta`, and `ToolParamsEnd` with the same id.
    """
    return ToolCall(f"call_{next(_ids)}" if id is None else id, name, params)


def reasoning(value: str) -> Turn:
    """Return a piece of reasoning."""
    return Reasoning(value)


def finish(reason: FinishReason, usage: Usage = Usage()) -> Turn:  # noqa: B008  # an immutable value
    """Return the end of a turn. By default, a turn with calls ends with `"tool-calls"`, any other with `"stop"`."""
    return Finish(reason, usage)


def delay(seconds: float) -> Turn:
    """Return a pause in seconds of the `Clock`."""
    return Delay(seconds)


def fails(reason: Reason | AiError) -> Turn:
    """Return a failure of the turn at this point."""
    return Failure(reason)


class _Turn(msgspec.Struct, frozen=True):
    items: list[AnyPart | Delay | Failure]
    content: tuple[Part, ...] | None  # the whole turn, or None with a delay or failure

    @staticmethod
    def of(turn: Turn) -> _Turn:
        items = _items(turn)
        parts = [item for item in items if not isinstance(item, Delay | Failure)]
        return _Turn(items, Response.from_stream(parts).content if len(parts) == len(items) else None)


@final
class ScriptedModel:
    """A model that returns its turns in order. Several programs can share it. `requests` stores all requests."""

    __slots__ = ("_script", "_turns", "counted", "facts", "requests", "tokens")

    requests: list[ModelRequest]
    """The requests, in order."""
    counted: list[ModelRequest]
    """The requests whose tokens the model counted, in order."""

    def __init__(
        self,
        turns: Sequence[Turn],
        tokens: Callable[[ModelRequest], int] | None = None,
        facts: ModelFacts | None = None,
    ) -> None:
        self._script = len(turns)
        self._turns = iter([_Turn.of(turn) for turn in turns])
        self.tokens: Callable[[ModelRequest], int] | None = tokens
        """A function that returns the number of tokens of a request. None means an estimate."""
        self.facts: ModelFacts | None = facts
        """The limits and abilities of the model. None if they are unknown."""
        self.requests = []
        self.counted = []

    @staticmethod
    def make(
        turns: Sequence[Turn],
        *,
        tokens: Callable[[ModelRequest], int] | None = None,
        facts: ModelFacts | None = None,
    ) -> ScriptedModel:
        """Return a model with these turns. A request after the last turn is a defect with an explanation.

        Args:
            turns: Turns of the model.
            tokens: Function that returns the number of tokens of a request, like a provider. Default: an estimate.
            facts: Limits and abilities of the model. Default: unknown.
        """
        return ScriptedModel(turns, tokens, facts)

    @property
    def layer(self) -> LayerOf[LanguageModel, Never, None]:
        """The layer that provides this model. All programs with this layer share the script."""
        return LayerOf.succeed(LanguageModel, _Scripted(self))

    def next_turn(self, request: ModelRequest) -> _Turn:
        """Record the request and return the next turn.

        Raises:
            AssertionError: If no turn remains.
        """
        self.requests.append(request)
        turn = next(self._turns, None)
        if turn is None:
            raise AssertionError(
                f"scripted model has {self._script} turns, got {len(self.requests)} requests. Add a turn, "
                "or find the reason for the extra request."
            )
        return turn


class _Scripted(LanguageModel):
    def __init__(self, script: ScriptedModel) -> None:
        self._script = script

    @property
    @override
    def info(self) -> ModelInfo:
        return ModelInfo("fxai.testing", "scripted")

    @property
    @override
    def facts(self) -> ModelFacts | None:
        return self._script.facts

    @override
    def ask(self, request: ModelRequest) -> Effect[tuple[Part, ...], AiError]:
        def whole() -> Generator[AnyEffect, Any, tuple[Part, ...]]:
            turn = self._script.next_turn(request)
            if turn.content is not None:
                return turn.content
            parts: list[AnyPart] = []
            for item in turn.items:
                if isinstance(item, Delay | Failure):
                    yield _pause(item)
                else:
                    parts.append(item)
            return Response.from_stream(parts).content

        return Generate(whole, (), {})

    @override
    def ask_stream(self, request: ModelRequest) -> Stream[StreamPart, AiError]:
        def open_() -> AnyEffect:
            items = iter(self._script.next_turn(request).items)

            def pull() -> AnyEffect:
                item = next(items, END)
                return _pause(item).and_then(following) if isinstance(item, Delay | Failure) else Succeed(item)

            following = Suspend(pull)
            return following

        return StreamOf(Sync(open_))

    @override
    def count(self, request: ModelRequest) -> Effect[TokenCount, AiError]:
        def count() -> TokenCount:
            script = self._script
            script.counted.append(request)
            if script.tokens is None:
                return estimate_request(request)
            return TokenCount(script.tokens(request), "provider")

        return Sync(count)


def _pause(item: Delay | Failure) -> EffectOf[None, AiError]:
    if isinstance(item, Delay):
        seconds = item.seconds
        return Await(lambda fiber: fiber.clock().sleep(seconds))
    reason = item.reason
    error = reason if isinstance(reason, AiError) else AiError("ScriptedModel", "ask", reason)
    return FailCause(Cause((Fail(error),)))


def _items(turn: Turn) -> list[AnyPart | Delay | Failure]:
    """Return the items of a turn in stream form: text pieces, calls after their arguments, and a finish."""
    given = list(_flat(turn))
    streamed = {item.id for item in given if isinstance(item, ToolParamsStart)}
    items: list[AnyPart | Delay | Failure] = []
    ids = (f"text_{n}" for n in count())
    open_text: str | None = None
    for item in given:
        if isinstance(item, str):
            if open_text is None:
                open_text = next(ids)
                items.append(TextStart(open_text))
            items.append(TextDelta(open_text, item))
            continue
        if open_text is not None and not isinstance(item, Delay):
            items.append(TextEnd(open_text))
            open_text = None
        is_complete = not (isinstance(item, ToolCall) and item.id in streamed)
        items.extend(_pieces(item, next(ids)) if is_complete else (item,))
    if open_text is not None:
        items.append(TextEnd(open_text))
    if not any(isinstance(item, Finish | Failure) for item in items):
        called = any(isinstance(item, ToolCall) and not item.provider_executed for item in items)
        items.append(Finish("tool-calls" if called else "stop"))
    return items


def _flat(turn: Turn) -> Iterable[Any]:
    if isinstance(turn, Sequence) and not isinstance(turn, str):
        return (item for each in turn for item in _flat(each))
    return (turn,)


def _pieces(item: Any, id_: str) -> Iterable[Any]:
    if isinstance(item, Text):
        return (TextStart(id_), TextDelta(id_, item.text), TextEnd(id_, metadata=item.metadata))
    if isinstance(item, Reasoning):
        return (ReasoningStart(id_), ReasoningDelta(id_, item.text), ReasoningEnd(id_, metadata=item.metadata))
    return stream_of([item]) if isinstance(item, ToolCall) else (item,)
