"""Compactions: shorten the messages that a model receives. Use them to keep a long conversation within a budget.

A compaction is a value. It consists of stages, which run in order, and each stage has a trigger. Agents, stateful
prompts, memories, and chats accept a compaction, and `apply` shortens a prompt by hand. A compaction never changes the
stored messages: the history stays whole, and the metadata of a message records what the model no longer receives.
Therefore the next run continues with the same shortened messages, and it needs no second summary.

Each compaction keeps all system messages, each turn with an open call, and the newest turn. It removes a call only
together with its result. A turn starts with a message of the user.

>>> from fxai.effects import fx
>>> from fxai.testing import ScriptedModel
>>> prompt = Prompt.make([{"role": "user", "content": one} for one in ("One", "Two", "Three")])
>>> recent = fx.run(Compaction.window(2).apply(prompt).provide(ScriptedModel.make([]).layer))
>>> [message.text for message in recent]
['Two', 'Three']
>>> Compaction.clear_results(keep=3).then(Compaction.summary()).at_tokens(100_000)
Compaction.clear_results(keep=3).at_tokens(100000).then(Compaction.summary(keep=2).at_tokens(100000))
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Generator, Iterable
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias, cast, final

import msgspec
from typing_extensions import override

from fxai.effects.constructor import fail, gen
from fxai.effects.effect import AnyEffect, Effect, Fetch, Gen, Generate
from fxai.effects.layer import LayerOf
from fxai.messages.errors import AiError
from fxai.messages.message import Message, TextPart, UserMessage
from fxai.messages.part import Usage
from fxai.messages.prompt import Prompt
from fxai.messages.reason import ContextOverflowError, InvalidOutputError
from fxai.messages.response import Response
from fxai.models.cut import Compacted, Cut, count_cleared, read_compacted, split_turns
from fxai.models.growth import Growth
from fxai.models.language_model import LanguageModel
from fxai.models.model_request import ModelRequest, ask_model
from fxai.models.token_count import estimated_tokens
from fxai.tools.tool import AnyTool

if TYPE_CHECKING:
    from fxai.models.token_bound import BytesBound

_Steps: TypeAlias = Generator[AnyEffect, Any, Any]

TokenCounter: TypeAlias = Callable[[Prompt], int] | Literal["model"]
"""The way to count tokens: `"model"` for the count of the model that receives the request, or a function of messages.

A function counts a part of a conversation, and fxai adds the numbers. `estimated_tokens` is such a function.
"""

_INSTRUCTIONS: Final = (
    "Write a summary of the conversation above, which replaces it. Another model continues the work and sees only "
    "your summary. Include the task, decisions and their reasons, facts and names that are needed later, results so "
    "far, and open questions. Quote identifiers, paths, and numbers exactly. Write only the summary."
)


# -- stages


def describe_call(function: str, *values: object, **named: object) -> str:
    """Return a call as a string, without arguments that are None."""
    written = [repr(value) for value in values if value is not None]
    written += [f"{name}={value!r}" for name, value in named.items() if value is not None]
    return f"{function}({', '.join(written)})"


class _Stage(msgspec.Struct, frozen=True, kw_only=True):
    most_tokens: int | None = None
    """The stage runs only if the request has more tokens, or None."""
    count: TokenCounter = "model"
    numbers: tuple[int, ...] = ()
    """The stage runs only before these steps, or before any step if `numbers` and `every` are empty."""
    every: int | None = None
    """The stage runs only before each step whose number is a multiple of it, or None."""

    def is_due(self, step: int | None) -> bool:
        """Return whether the stage can run before a step. By hand, the step is None, and each stage can run."""
        if step is None or not (self.numbers or self.every):
            return True
        return step in self.numbers or (self.every is not None and step % self.every == 0)

    def find(self, meter: Meter, prompt: Prompt) -> _Steps:
        """Return the cut of a conversation and the usage of the stage, or None to change nothing."""
        raise NotImplementedError

    def __str__(self) -> str:
        text = self.name()
        if self.most_tokens is not None:
            text += describe_call(".at_tokens", self.most_tokens, count=None if self.count == "model" else self.count)
        if self.numbers or self.every:
            text += describe_call(".at_step", *self.numbers, every=self.every)
        return text

    def name(self) -> str:
        """Return the call of the constructor."""
        raise NotImplementedError


@final
class WindowStage(_Stage, frozen=True, kw_only=True):
    """The newest turns that fit in a limit. Create it with `Compaction.window`."""

    turns: int | None = None
    tokens: int | None = None
    size: TokenCounter = "model"

    @override
    def find(self, meter: Meter, prompt: Prompt) -> _Steps:
        there = len(split_turns(prompt)[1])
        most = there if self.turns is None else min(self.turns, there)
        if self.tokens is not None:
            most = yield from self._fit(meter, prompt, most)
        cut = Cut(max(most, 1))
        return None if cut.of(prompt) is prompt else (cut, Usage())

    def _fit(self, meter: Meter, prompt: Prompt, most: int) -> _Steps:
        """Return the largest number of turns that fit, by a binary search."""
        limit, fits = cast(int, self.tokens), 0
        if not (yield from meter.exceeds(Cut(most).of(prompt), limit, self.size)):
            return most
        while fits < most:
            middle = (fits + most + 1) // 2
            if (yield from meter.exceeds(Cut(middle).of(prompt), limit, self.size)):
                most = middle - 1
            else:
                fits = middle
        if not fits:
            yield _overflow((yield from meter.tokens(Cut(1).of(prompt), self.size)), limit)
        return fits

    def newest(self, newest_first: Iterable[Prompt]) -> tuple[Prompt, ...]:
        """Return the turns of a memory that fit, oldest first. It reads only the necessary turns.

        It always returns the newest turn, to answer its open calls.
        """
        turns: list[Prompt] = []
        tokens = 0
        for turn in newest_first:
            if self.tokens is not None:
                tokens += estimated_tokens(turn) if self.size == "model" else self.size(turn)
                if turns and tokens > self.tokens:
                    break
            turns.append(turn)
            if len(turns) == self.turns:
                break
        return tuple(reversed(turns))

    @override
    def name(self) -> str:
        count = None if self.size == "model" or self.tokens is None else self.size
        return describe_call("Compaction.window", self.turns, tokens=self.tokens, count=count)


@final
class ClearingStage(_Stage, frozen=True, kw_only=True):
    """The removal of older results. Create it with `Compaction.clear_results`."""

    keep: int
    exclude: tuple[str, ...] = ()

    @override
    def find(self, meter: Meter, prompt: Prompt) -> _Steps:
        yield from ()
        cut = Cut(results=self.keep, exclude=self.exclude)
        return None if cut.of(prompt) is prompt else (cut, Usage())

    @override
    def name(self) -> str:
        return describe_call("Compaction.clear_results", keep=self.keep, exclude=self.exclude or None)


@final
class SummaryStage(_Stage, frozen=True, kw_only=True):
    """A summary instead of older turns. Create it with `Compaction.summary`."""

    keep: int
    max_tokens: int
    model: LayerOf[LanguageModel, AiError, None] | None = None
    instructions: str = _INSTRUCTIONS

    @override
    def find(self, meter: Meter, prompt: Prompt) -> _Steps:
        _, turns = split_turns(prompt)
        cut = Cut(self.keep)
        room = None if self.most_tokens is None else self.most_tokens - self.max_tokens
        for shorter in () if room is None else (Cut(1), Cut(1, steps=1)):
            if not (yield from meter.exceeds(cut.of(prompt), cast(int, room), self.count)):
                break
            cut = shorter
        left = cut.of(prompt)
        if left is prompt or not (len(turns) > cast(int, cut.turns) or cut.steps):
            return None
        text, usage = yield from self._summarize(meter, prompt, left)
        return msgspec.structs.replace(cut, summary=text), usage

    def _summarize(self, meter: Meter, prompt: Prompt, left: Prompt) -> _Steps:
        """Return the summary of the messages before the last kept step or turn, and the usage of its request."""
        kept = {id(message) for message in left}
        end = 1 + max(at for at, one in enumerate(prompt) if id(one) not in kept)
        asked = Prompt(prompt[at] for at in range(end)).append(UserMessage((TextPart(self.instructions),)))
        # the same start and tools as the last request, so that the provider reads its cache
        request = ModelRequest(asked, meter.tools, "none" if meter.tools else "auto", max_tokens=self.max_tokens)
        asking: AnyEffect
        if self.model is None:
            asking = ask_model(meter.model, request)
        else:
            request = msgspec.structs.replace(request, tools=(), tool_choice="auto")
            asking = Fetch(LanguageModel).flat_map(lambda model: ask_model(model, request)).provide(self.model)
        response = Response((yield asking))
        if not response.text.strip():
            problem = "the model wrote no summary"
            reason = response.refusal or InvalidOutputError(description=problem)
            yield fail(AiError("Compaction", "summary", reason))
        return response.text.strip(), response.usage

    @override
    def name(self) -> str:
        instructions = None if self.instructions == _INSTRUCTIONS else self.instructions
        most = None if self.max_tokens == _SUMMARY_TOKENS else self.max_tokens
        named = {"model": self.model, "instructions": instructions, "max_tokens": most}
        return describe_call("Compaction.summary", keep=self.keep, **named)


_SUMMARY_TOKENS: Final = 2000


def _overflow(tokens: int, limit: int) -> AnyEffect:
    about = "the compaction must keep these messages"
    return fail(AiError("Compaction", "apply", ContextOverflowError(tokens=tokens, limit=limit, description=about)))


# -- token counts


@final
class Meter(msgspec.Struct, eq=False):
    """The counts of tokens in the requests of a run. It does not count the messages of the last request again."""

    model: LanguageModel
    """The model that counts."""
    tools: tuple[AnyTool, ...] = ()
    """The tools in the requests, which count too."""
    _bound: BytesBound | None = None
    _counted: tuple[ModelRequest | None, int] = (None, 0)  # the last count of the model
    _sums: dict[Any, tuple[tuple[Message, ...], int]] = {}  # by counter: the last messages and their sum

    def tokens(self, prompt: Prompt, count: TokenCounter) -> _Steps:
        """Return the number of tokens in a request with these messages."""
        if count == "model":
            last, known = self._counted
            if last is None or last.prompt is not prompt or last.tools is not self.tools:
                request = ModelRequest(prompt, self.tools)
                known = (yield self.model.count(request)).tokens
                self._counted = request, known
            return known
        before, total = self._sums.get(count, ((), 0))
        messages = prompt.messages
        start = len(before)
        if start > len(messages) or any(one is not two for one, two in zip(before, messages, strict=False)):
            start, total = 0, 0
        total += sum(count(Prompt((message,))) for message in messages[start:])
        self._sums[count] = messages, total
        return total

    def exceeds(self, prompt: Prompt, limit: int, count: TokenCounter) -> _Steps:
        """Return whether a request with these messages has more tokens than the limit."""
        if count == "model" and self.most(prompt) <= limit:
            return False  # a token has at least one byte, so that no count is necessary
        return (yield from self.tokens(prompt, count)) > limit

    def most(self, prompt: Prompt) -> float:
        """Return the maximum number of tokens in a request with these messages, or infinity if it is unknown."""
        from fxai.messages.wire import MessageError  # only compactions with a budget need these modules
        from fxai.models.token_bound import BytesBound

        self._bound = self._bound or BytesBound()
        try:
            bound = self._bound(ModelRequest(prompt, self.tools))
        except MessageError:
            return float("inf")
        return float("inf") if bound.gap is not None else bound.tokens


# -- compactions


@final
class Compaction(msgspec.Struct, frozen=True):
    """A rule that shortens the messages for a model. Create it with `window`, `clear_results`, or `summary`.

    Without a trigger, a compaction runs before each request. Then each new turn or result can change the start of the
    request, so that the provider cannot reuse its cache. With `at_tokens`, it runs only if the request is too large.
    """

    stages: tuple[WindowStage | ClearingStage | SummaryStage, ...] = ()
    """The stages of fxai in their order."""
    compact_at: int | None = None
    """Number of input tokens at which the provider itself compacts the conversation, or None."""

    def __post_init__(self) -> None:
        if not self.stages and self.compact_at is None:
            raise ValueError("compaction has no stage. Create it with window, clear_results, summary, or provider.")

    @staticmethod
    def window(turns: int | None = None, *, tokens: int | None = None, count: TokenCounter = "model") -> Compaction:
        """Return the compaction that keeps the newest turns and removes the older turns.

        Args:
            turns: Maximum number of turns, or None for no limit.
            tokens: Maximum number of tokens in the request, or None for no limit. If the newest turn alone exceeds it,
                the compaction fails with `ContextOverflowError`. The window of a `Memory` counts only the turns of the
                memory, and always keeps the newest turn.
            count: The way to count the tokens. Default: the model of the request counts them, see
                `LanguageModel.count`. A `Memory` outside a run estimates them.

        Raises:
            ValueError: If you pass no limit, or a limit is less than 1.
        """
        if turns is None and tokens is None:
            raise ValueError("window needs a limit. Pass window(20) for 20 turns, or window(tokens=…).")
        for bound, noun in ((turns, "turns"), (tokens, "tokens")):
            if bound is not None and bound < 1:
                raise ValueError(f"window must be at least 1, got {bound} {noun}. Pass None for no limit.")
        return Compaction((WindowStage(turns=turns, tokens=tokens, size=count),))

    @staticmethod
    def clear_results(*, keep: int = 3, exclude: Collection[str] = ()) -> Compaction:
        """Return the compaction that replaces older results with a note. The calls and all other messages remain.

        A result that is shorter than the note remains, and so does a failure.

        Args:
            keep: Number of newest results that remain. Default: 3.
            exclude: The names of tools whose results remain. They do not count for `keep`.

        Raises:
            ValueError: If `keep` is negative.
            TypeError: If `exclude` is a string.
        """
        if keep < 0:
            raise ValueError(f"keep must be at least 0, got {keep}")
        if isinstance(exclude, str):
            raise TypeError(f"exclude must be a list of tool names, got {exclude!r}. Pass [{exclude!r}].")
        return Compaction((ClearingStage(keep=keep, exclude=tuple(sorted(exclude))),))

    @staticmethod
    def summary(
        *,
        keep: int = 2,
        model: LayerOf[LanguageModel, AiError, None] | None = None,
        instructions: str = _INSTRUCTIONS,
        max_tokens: int = _SUMMARY_TOKENS,
    ) -> Compaction:
        """Return the compaction that replaces older turns with a summary, which a model writes.

        If the newest `keep` turns exceed the tokens of `at_tokens`, it keeps only the newest turn. If this turn is also
        too long, it keeps the user's message and the newest step of the turn, and the summary covers the other steps.

        Args:
            keep: Number of newest turns that remain. Default: 2.
            model: The layer of the model that writes the summary. Default: the model of the run. It then receives the
                start of the last request again, which its provider reads from its cache.
            instructions: The request for the summary, which follows the conversation.
            max_tokens: Maximum number of tokens of the summary. Default: 2,000.

        Raises:
            ValueError: If `keep` or `max_tokens` is less than 1.
        """
        for bound, noun in ((keep, "keep"), (max_tokens, "max_tokens")):
            if bound < 1:
                raise ValueError(f"{noun} must be at least 1, got {bound}")
        return Compaction((SummaryStage(keep=keep, model=model, instructions=instructions, max_tokens=max_tokens),))

    @staticmethod
    def provider(tokens: int) -> Compaction:
        """Return the compaction that the provider itself applies before the model reads a request.

        fxai sends each request whole, so that the request extends the last request. The answer contains the
        provider's compaction as a part of the history. If a provider or an API has no compaction, the response
        contains a warning. By hand, it has no effect.

        Args:
            tokens: Number of input tokens at which the provider compacts the conversation. Providers have a minimum,
                such as 50,000.

        Raises:
            ValueError: If `tokens` is less than 1.
        """
        if tokens < 1:
            raise ValueError(f"tokens must be at least 1, got {tokens}")
        return Compaction(compact_at=tokens)

    def at_tokens(self, most: int, *, count: TokenCounter = "model") -> Compaction:
        """Return the compaction that runs only if a request has more than `most` tokens.

        The stages run in order until the request has at most `most` tokens. If it is still larger after the last stage,
        the compaction fails with `ContextOverflowError`.

        Args:
            most: Maximum number of input tokens of a request.
            count: The way to count the tokens. Default: the model of the request counts them, with its tools. fxai
                requests no count for a request that has fewer bytes.

        Raises:
            ValueError: If `most` is less than 1, or the compaction is only a `provider`.
        """
        if most < 1:
            raise ValueError(f"most must be at least 1 token, got {most}")
        return self._with(most_tokens=most, count=count)

    def at_step(self, *numbers: int, every: int | None = None) -> Compaction:
        """Return the compaction that runs only before some steps of a run.

        In a chat, the number of the step is the number of model turns in the history plus 1.

        Args:
            numbers: The numbers of the steps, from 1.
            every: Run before each step whose number is a multiple of it.

        Raises:
            ValueError: If you pass no step, a number is less than 1, or the compaction is only a `provider`.
        """
        given = (*numbers, *(() if every is None else (every,)))
        if not given or min(given) < 1:
            raise ValueError(f"at_step needs at least one number of 1 or more, got {given}")
        return self._with(numbers=numbers, every=every)

    def then(self, other: Compaction) -> Compaction:
        """Return the compaction that runs the stages of this compaction, then the stages of the other compaction."""
        at = self.compact_at if other.compact_at is None else other.compact_at
        return Compaction((*self.stages, *other.stages), at)

    def _with(self, **trigger: Any) -> Compaction:
        if not self.stages:
            raise ValueError("provider(…) has its own trigger. Add at_tokens or at_step to the other compaction.")
        return msgspec.structs.replace(
            self, stages=tuple([msgspec.structs.replace(stage, **trigger) for stage in self.stages])
        )

    @override
    def __repr__(self) -> str:
        own = [] if self.compact_at is None else [f"Compaction.provider({self.compact_at})"]
        first, *others = *map(str, self.stages), *own
        return first + "".join(f".then({other})" for other in others)

    # -- use

    @gen
    def apply(self, prompt: Prompt) -> Gen[Prompt, AiError, LanguageModel]:
        """Return the shortened messages by hand, regardless of the triggers of the stages.

        The result does not record what is missing. To shorten a stored conversation for good, store the result.

        Fails with:
            AiError: `ContextOverflowError` if the messages exceed the budget after the last stage. Also if the model
                cannot count the tokens or write a summary.
        """
        found = yield from self.find(Meter((yield from LanguageModel)), prompt)
        return prompt if found is None else found.of(prompt)

    def find(self, meter: Meter, prompt: Prompt, step: int | None = None) -> Effect[Compacted | None, AiError, Any]:
        """Return the cuts for a conversation before a step, or None if the request stays unchanged.

        If `step` is None, each stage runs, regardless of its trigger.

        Fails with:
            AiError: See `apply`.
        """
        return Generate(_find, (self, meter, prompt, step), {})


def _find(compaction: Compaction, meter: Meter, prompt: Prompt, step: int | None) -> _Steps:
    cuts: list[Cut] = []
    usage, left = Usage(), prompt
    windows: list[tuple[int, TokenCounter]] = []  # the limits of the stages before a summary, which can be longer
    due = [stage for stage in compaction.stages if stage.is_due(step)]
    for stage in due:
        by_size = stage.most_tokens is not None and step is not None
        if by_size and not (yield from meter.exceeds(left, cast(int, stage.most_tokens), stage.count)):
            continue
        found = yield from stage.find(meter, left)
        if found is not None:
            cut, used = found
            cuts, usage, left = [*cuts, cut], usage + used, cut.of(left)
            for limit, count in windows:
                if (yield from meter.exceeds(left, limit, count)):
                    yield _overflow((yield from meter.tokens(left, count)), limit)
        if isinstance(stage, WindowStage) and stage.tokens is not None:
            windows.append((stage.tokens, stage.size))
    limits: list[tuple[int, TokenCounter]] = [
        (stage.most_tokens, stage.count) for stage in due if stage.most_tokens is not None
    ]
    if limits:
        most, count = max(limits, key=lambda one: one[0])
        if (yield from meter.exceeds(left, most, count)):
            yield _overflow((yield from meter.tokens(left, count)), most)
    if not cuts:
        return None
    cleared = count_cleared(left) - count_cleared(prompt)
    return Compacted(tuple(cuts), max(len(prompt) - len(left), 0), max(cleared, 0), usage)


def check_compaction(given: object) -> Compaction | None:
    """Return a compaction, or None for None. Raise `TypeError` if the value is not a compaction."""
    if given is None or isinstance(given, Compaction):
        return given
    raise TypeError(f"compaction must be a Compaction, got {given!r}. Pass Compaction.window(…), or combine stages.")


def split_window(compaction: Compaction) -> tuple[WindowStage | None, Compaction | None]:
    """Return the first window without a trigger, or None, and a compaction of the other stages, or None."""
    windows = [one for one in compaction.stages if isinstance(one, WindowStage)]
    window = next((one for one in windows if one.most_tokens is None and not (one.every or one.numbers)), None)
    rest = tuple([one for one in compaction.stages if one is not window])
    if not rest and compaction.compact_at is None:
        return window, None
    return window, msgspec.structs.replace(compaction, stages=rest)


@gen
def compact_request(
    compaction: Compaction, growth: Growth, model: LanguageModel, request: ModelRequest
) -> Gen[tuple[ModelRequest, Usage], AiError]:
    """Return a request of a chat after its compaction, and the usage of the compaction.

    Fails with:
        AiError: See `Compaction.apply`.
    """
    shown = read_compacted(request.prompt)
    number = 1 + sum(1 for message in request.prompt if message.role == "assistant")
    found = yield from compaction.find(Meter(model, request.tools), shown, number)
    growth.compacted = found
    compact_at = request.compact_at if compaction.compact_at is None else compaction.compact_at
    prompt, used = (shown, Usage()) if found is None else (found.of(shown), found.usage)
    return msgspec.structs.replace(request, prompt=prompt, compact_at=compact_at), used
