"""The answer of a run, its steps, and the failures of a run. Use this module to read the result of an agent.

>>> from fxai.messages.part import Finish, Text, ToolCall, ToolResult
>>> turn = Response((ToolCall("c1", "add", {"a": 1, "b": 2}), ToolResult("c1", "add", 3), Finish("tool-calls")))
>>> steps = Step(1, turn), Step(2, Response((Text("It is 3."), Finish("stop"))))
>>> answer = Answer(steps, Prompt.make("What is 1 + 2?"))
>>> answer.text, [result.result for result in answer.steps[0].results]
('It is 3.', [3])
>>> print(BudgetExceeded("rounds", 10, Prompt.make("Count to infinity.")))
the run did not finish within 10 rounds. Allow more with Budget(rounds=…), or continue from `history`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from decimal import Decimal
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final, Generic, Literal, TypeAlias, cast, final, overload

import msgspec
from returns.result import Failure, Result, Success
from typing_extensions import TypeVar, override

from fxai.agents.state import PromptState
from fxai.effects.cause import Cause, Failed, FailureError, Interrupt, Succeeded, leave, left_in
from fxai.messages.calls import Pending
from fxai.messages.errors import AiError
from fxai.messages.message import Message
from fxai.messages.part import FinishReason, PrefixBreak, ToolCall, ToolResult, Usage, WarningPart
from fxai.messages.prompt import Prompt
from fxai.messages.response import Response
from fxai.models.cut import Compacted
from fxai.models.growth import lead_of
from fxai.schema.data import JsonObject
from fxai.tools.call import Call
from fxai.tools.tool import Tool
from fxai.tools.tool_error import NotRun, ToolError

if TYPE_CHECKING:
    from fxai.agents.state import RenderReason
    from fxai.agents.step_patch import StepPatch
    from fxai.models.price import Price

_P = TypeVar("_P")
_S = TypeVar("_S")
_F = TypeVar("_F")
_O_co = TypeVar("_O_co", covariant=True, default=str)

# -- steps


_NO_STATE: Final = PromptState()


@final
class Surrounded(msgspec.Struct, frozen=True):
    """A conversation and the messages that a prompt adds to it. Steps share the conversation."""

    conversation: Prompt
    front: tuple[Message, ...]
    """Messages after the first system messages of the conversation."""
    behind: tuple[Message, ...] = ()

    @property
    def messages(self) -> Prompt:
        """All messages of the request."""
        given = self.conversation.messages
        lead = lead_of(given)
        return Prompt((*given[:lead], *self.front, *given[lead:], *self.behind))


@final
class StepRecord(msgspec.Struct, frozen=True):
    """The tools and messages of a step, its patches, and the state before and after it."""

    tools: tuple[str, ...] = ()
    """The active tools. The model could call exactly these tools."""
    asked: Prompt | Surrounded = Prompt.empty
    """The messages, or the conversation and its surroundings."""
    patches: tuple[tuple[str, StepPatch[Any]], ...] = ()
    """The patches, each with the key of the effect that returned it."""
    before: PromptState = _NO_STATE
    """The state when the render began; empty without a stateful prompt."""
    after: PromptState = _NO_STATE
    """The state when the calls of the step had ended; empty without a stateful prompt."""
    prefix_break: PrefixBreak | None = None
    """The reason why the request did not extend the previous request of the conversation, or None."""
    compacted: Compacted | None = None
    """The work of a compaction before the request, or None."""

    @property
    def messages(self) -> Prompt:
        """The messages that the model received."""
        return self.asked if isinstance(self.asked, Prompt) else self.asked.messages

    @property
    def is_rendered(self) -> bool:
        """True if a stateful prompt made the step."""
        return self.after is not _NO_STATE

    @override
    def __hash__(self) -> int:
        return hash(self.tools)


NO_RECORD: Final = StepRecord()
"""The record of a step without a request: approvals that the history answers ended the run."""


@final
class Step(msgspec.Struct, frozen=True):
    """A step of a run: the turn of the model and the results of its calls."""

    number: int
    """The number of the step, from 1."""
    response: Response
    """The turn of the model and the results of its calls."""
    record: StepRecord = NO_RECORD
    """The tools and messages of the request, the break of its prefix, and the state of a stateful prompt."""

    @property
    def text(self) -> str:
        """The text of the turn."""
        return self.response.text

    @property
    def calls(self) -> tuple[ToolCall, ...]:
        """The calls that the model made, in its order. `dynamic` marks calls of dynamic tools, which have no types."""
        return self.response.tool_calls

    @property
    def results(self) -> tuple[ToolResult, ...]:
        """The results of the calls. Results of calls that a user approved before this step are first.

        `result` is a value of the tool's type, or a failure. `dynamic` marks results of dynamic tools, which have no
        types.
        """
        return self.response.tool_results

    def params_of(self, tool: Tool[_P, Any, Any]) -> tuple[_P, ...]:
        """Return the typed arguments of the calls of a tool, in order, without calls with invalid arguments."""
        named = [call.params for call in self.calls if call.name == tool.name]
        read = [Call({tool.name: tool}, tool.name, params).parameters(tool) for params in named]
        return tuple([cast(_P, params.unwrap()) for params in read if params is not None])

    def results_of(self, tool: Tool[Any, _S, _F]) -> tuple[Result[_S, _F | ToolError | NotRun], ...]:
        """Return the typed results of the calls of a tool. Each result is a `Success` or a `Failure`.

        A `Failure` contains a failure of the tool, or the reason why its handler returned no result. The reason is
        `InvalidParameters` for invalid arguments, or a failure such as `Denied` for a call that did not run.
        """
        named = [result for result in self.results if result.name == tool.name]
        return tuple([Failure(each.result) if each.is_failure else Success(cast(_S, each.result)) for each in named])

    @property
    def usage(self) -> Usage:
        """The token usage of the step, with the request of a compaction for a summary."""
        compacted = self.record.compacted
        return self.response.usage if compacted is None else self.response.usage + compacted.usage

    @property
    def warnings(self) -> tuple[WarningPart, ...]:
        """The warnings about requested features that the provider did not apply."""
        return self.response.warnings

    @property
    def finish_reason(self) -> FinishReason:
        """The reason why the turn ended."""
        return self.response.finish_reason

    @override
    def __hash__(self) -> int:
        return hash(self.number)


@final
class Steps(Sequence[Step]):
    """The steps of a run so far, oldest first. The sequence does not change when the run continues."""

    # A view of the first `length` steps of a growing list, because a tuple would copy all steps after each step.
    __slots__ = ("_length", "_steps")

    def __init__(self, steps: list[Step]) -> None:
        self._steps = steps
        self._length = len(steps)

    @overload
    def __getitem__(self, index: int) -> Step: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[Step, ...]: ...
    @override
    def __getitem__(self, index: int | slice) -> Step | tuple[Step, ...]:
        if isinstance(index, slice):
            return tuple([self._steps[location] for location in range(*index.indices(self._length))])
        location = index + self._length if index < 0 else index
        if not 0 <= location < self._length:
            raise IndexError(f"step {index} does not exist: the run has {self._length} steps")
        return self._steps[location]

    @override
    def __len__(self) -> int:
        return self._length

    @override
    def __eq__(self, other: object) -> bool:
        return isinstance(other, Steps) and self[:] == other[:]

    @override
    def __hash__(self) -> int:
        return hash(self[:])

    @override
    def __repr__(self) -> str:
        return f"Steps({list(self[:])!r})"


# -- the answer

Ended: TypeAlias = Literal["done", "stopped", "limit", "pending"]
"""The way a run ended.

- `done`: the last turn from the model called no tool, or the provider cut it short. `finish_reason` states the reason.
- `stopped`: a stop condition was true.
- `limit`: the run exhausted its budget and still answered.
- `pending`: a call needs an approval or an external result.
"""


@final
class Answer(msgspec.Struct, Generic[_O_co], frozen=True):
    """The result of a run: its steps, the whole conversation, and the output of type `O`."""

    steps: tuple[Step, ...]
    """The steps, oldest first."""
    history: Prompt
    """The conversation before the run and the messages of the run. Another run can continue from it."""
    ended: Ended = "done"
    """The way the run ended."""
    typed: bool = False
    """True if the agent has an output type."""
    value: _O_co | msgspec.UnsetType = msgspec.UNSET
    """The typed output, or `UNSET`. Read `output` instead."""
    state: PromptState | None = None
    """The state of a stateful prompt after the run, for `execute(…, state=…)`, or None."""

    @property
    def output(self) -> _O_co:
        """The typed answer, or the text if the agent has no output type.

        Raises:
            LookupError: If the run ended without an output, because calls are pending, a stop condition was true, or
                the run exhausted its budget. `ended` states the reason.
        """
        if not self.typed:
            return cast(_O_co, self.text)
        if self.value is not msgspec.UNSET:
            return self.value
        why = f"the budget is exhausted, and this last text is invalid: {self.text}. Allow more, or continue `history`."
        if self.ended == "pending":
            waiting = ", ".join(call.name for call in self.pending)
            why = f"calls are pending ({waiting}). Answer them, and continue from `history`."
        elif self.ended == "stopped":
            why = "a stop condition ended the run. Read `steps`, or continue from `history`."
        raise LookupError(f"answer has no output: {why}")

    @property
    def text(self) -> str:
        """The text of the last turn. If a limit ended the run, the text of the last turn that contains text."""
        if self.ended == "limit":
            return next((text for step in reversed(self.steps) if (text := step.text)), "")
        return self.steps[-1].text

    @property
    def response(self) -> Response:
        """The last turn."""
        return self.steps[-1].response

    @property
    def usage(self) -> Usage:
        """The token usage of all steps."""
        return sum((step.usage for step in self.steps), Usage())

    @property
    def finish_reason(self) -> FinishReason:
        """The reason why the last turn ended. `"pending"` if a call needs an approval or a result."""
        return self.steps[-1].finish_reason

    @property
    def pending(self) -> tuple[Pending, ...]:
        """The calls that need an approval or a result. To continue, append the answers to `history`."""
        return self.history.pending if self.finish_reason == "pending" else self.response.pending

    @override
    def __hash__(self) -> int:
        return hash(self.history)


@final
class AnswerPart(msgspec.Struct, Generic[_O_co], frozen=True, eq=False):
    """A state of the typed answer of a run while the model writes it. See `Agent.stream_object`."""

    read: Callable[[], Any]
    """Returns the partial. `partial` calls it."""
    turn: int = 1
    """The number of the turn that writes the answer, from 1. A later turn starts the answer again."""
    answer: Answer[_O_co] | None = None
    """The answer of the run in the last part of the stream, otherwise None."""

    @property
    def partial(self) -> Any:
        """The JSON value so far, or `msgspec.UNSET`. See `ObjectPart.partial`."""
        return self.read()

    @property
    def value(self) -> _O_co | None:
        """The typed output in the last part of the stream, or None. Also None if the run ended without output."""
        output = None if self.answer is None else self.answer.value
        return None if output is msgspec.UNSET else output


# -- failures of a run

Limit: TypeAlias = Literal["rounds", "tokens", "seconds", "calls", "money"]
"""A resource that a budget limits."""


def describe_limit(number: float, what: Limit) -> str:
    """Return an amount of a limited resource with its unit.

    >>> describe_limit(1, "rounds"), describe_limit(0.5, "seconds")
    ('1 round', '0.5 seconds')
    """
    if what == "money":
        return f"a cost of {number:g}"
    return f"{number:g} {what[:-1] if number == 1 else what}"


@final
class BudgetExceeded(msgspec.Struct, frozen=True):
    """The failure of a run that exhausted its budget: the resource, its limit, and the conversation so far."""

    what: Limit
    """The exhausted resource."""
    limit: float
    """The limit of the resource, in its unit: rounds, tokens, seconds, calls, or money."""
    history: Prompt
    """The conversation so far, with a result for each call. Another run with a new budget can continue from it."""
    state: PromptState | None = None
    """The state of a stateful prompt at this time. Without a stateful prompt, the state is None."""
    usage: Usage = Usage()
    """The usage of the run so far, without a turn that failed. An unknown number is None."""

    @override
    def __str__(self) -> str:
        return (
            f"the run did not finish within {describe_limit(self.limit, self.what)}. "
            f"Allow more with Budget({self.what}=…), or continue from `history`."
        )


@final
class RunFailed(AiError, frozen=True, tag="AiError"):
    """An `AiError` that ended a run, with the conversation so far. Another run can continue from this history.

    Its text and its JSON form do not contain the conversation, because the conversation can contain private data.
    """

    history: Prompt
    """The conversation before the turn that failed, with the results of all calls."""
    state: PromptState | None = None
    """The state of a stateful prompt at this time. Without a stateful prompt, the state is None."""
    usage: Usage = Usage()
    """The usage of the run so far, without a turn that failed, but with a turn that a guard refused."""

    @staticmethod
    def of(error: AiError, history: Prompt, state: PromptState | None = None) -> RunFailed:
        """Return the error with a conversation. If the error already has a conversation, return it unchanged."""
        if isinstance(error, RunFailed):
            return error
        return RunFailed(error.module, error.method, error.reason, history, state)

    @property
    def error(self) -> AiError:
        """The error without the conversation."""
        return AiError(self.module, self.method, self.reason)

    @override
    def to_data(self) -> JsonObject:
        """Return the error as a JSON value, without the conversation."""
        return self.error.to_data()

    @override
    def to_json(self) -> str:
        """Return the error as a JSON string, without the conversation."""
        return self.error.to_json()

    @override
    def __str__(self) -> str:
        return str(self.error)


@final
class RenderFailed(msgspec.Struct, frozen=True):
    """The failure of a run whose stateful prompt did not render: its name, the step, and the reason."""

    prompt: str
    """The name of the prompt."""
    step: int
    """The number of the step, from 1."""
    reason: RenderReason
    message: str
    """The problem and its remedy."""
    history: Prompt
    """The conversation so far. Each call has its result or is pending."""
    state: PromptState
    """The state at this time."""
    usage: Usage = Usage()
    """The usage of the run so far, without a turn that failed. An unknown number is None."""

    @override
    def __str__(self) -> str:
        return f"prompt {self.prompt!r} did not render for step {self.step}: {self.message}"


@final
class _Left(msgspec.Struct, frozen=True):
    """The data of a run that a defect or a cancellation ended."""

    history: Prompt
    usage: Usage


def keep_run(end: BaseException | Interrupt, history: Prompt, usage: Usage) -> None:
    """Store the conversation and the usage of a run with its end, for `history_of` and `usage_of`."""
    leave(end, _Left(history, usage))


def history_of(ended: object) -> Prompt | None:
    """Return the conversation of a run, regardless of how the run ended. Another run can continue from it.

    After a defect of a handler, the conversation contains the results of all calls that ended. The result of the broken
    call states that the tool broke. After a cancellation, the conversation ends before the cancelled turn.

    Args:
        ended: An `Exit`, a `Cause`, an `Answer`, a failure of a run, a `Timeout`, or an exception that a run raised.
            The `CancelledError` of a run is such an exception, and also the `TimeoutError` of `asyncio.timeout`.

    Returns None if `ended` belongs to no run of an agent. The exit of a concurrent program belongs to no run if a user
    cancelled the program. Read the exits of its runs with `on_exit`.

    >>> history_of(BudgetExceeded("rounds", 10, Prompt.make("Count to infinity."))) == Prompt.make("Count to infinity.")
    True
    >>> history_of(KeyError("n")) is None
    True
    """
    history: object = getattr(_end_of(ended, "history"), "history", None)
    return history if isinstance(history, Prompt) else None


def usage_of(ended: object) -> Usage | None:
    """Return the usage of a run, regardless of how the run ended.

    After a failure, a defect, or a cancellation, it is the usage of the finished turns. The usage of a turn that did
    not finish is unknown.

    Args:
        ended: The end of a run, like the argument of `history_of`.

    Returns None if `ended` belongs to no run of an agent. See `history_of`.

    >>> usage_of(BudgetExceeded("rounds", 1, Prompt.make("Count."), usage=Usage(20, 5)))
    Usage(input_tokens=20, output_tokens=5)
    """
    usage: object = getattr(_end_of(ended, "usage"), "usage", None)
    return usage if isinstance(usage, Usage) else None


def _end_of(ended: object, name: Literal["history", "usage"]) -> object:
    """Return the answer, failure, or stored data of the run that ended, which has the attribute `name`, or None."""
    if isinstance(ended, Succeeded):
        return _end_of(cast("Succeeded[object]", ended).value, name)
    if isinstance(ended, Failed | FailureError):
        return _end_of(cast(Any, ended).cause, name)
    if isinstance(ended, Cause):
        cause = cast("Cause[object]", ended)
        interrupts = (reason for reason in cause.reasons if isinstance(reason, Interrupt))
        found = (_end_of(one, name) for one in (*cause.failures, *cause.defects, *interrupts))
        return next((one for one in found if one is not None), None)
    left = left_in(ended)
    if left is None and isinstance(ended, TimeoutError):
        left = left_in(ended.__cause__)  # the CancelledError of asyncio.timeout
    if left is not None:
        return left
    return ended if isinstance(getattr(ended, name, None), Prompt | Usage) else None


# -- the cache of the provider


@final
class CacheStep(msgspec.Struct, frozen=True):
    """A step of a run, and the part of its request that the provider read from its cache."""

    step: int
    """The number of the step, from 1."""
    prefix_break: PrefixBreak | None
    """The reason why the request did not extend the previous request, or None if it did."""
    possible_tokens: int
    """The input tokens of the previous request, which an unchanged start would read from the cache."""
    cached_tokens: int
    """The input tokens from the cache."""

    @property
    def lost_tokens(self) -> int:
        """The input tokens that the provider could have read from its cache, but read again."""
        return max(self.possible_tokens - self.cached_tokens, 0)


@final
class CacheReport(msgspec.Struct, frozen=True):
    """The use of the provider's cache in a run."""

    steps: tuple[CacheStep, ...]
    """The steps with known usage after the first step."""

    @property
    def lost_tokens(self) -> int:
        """The input tokens that the provider could have read from its cache, in all steps."""
        return sum(step.lost_tokens for step in self.steps)

    def cost(self, price: Price) -> Decimal:
        """Return the money that the lost tokens cost in addition, in the currency of the price."""
        lost = [step.lost_tokens for step in self.steps]
        again = sum((price.cost(Usage(one, 0, 0)) or Decimal(0) for one in lost), Decimal(0))
        return again - sum((price.cost(Usage(one, 0, one)) or Decimal(0) for one in lost), Decimal(0))


def cache_report(answer: Answer[Any]) -> CacheReport:
    """Return the steps of a run that could have read more from the provider's cache, and the cause of each break.

    A step without a break can also lose tokens, for example if the cache expired or the request is too short for it.
    A step is missing if the provider stated no usage for it or for the step before it.
    """
    found: list[CacheStep] = []
    for before, after in pairwise(answer.steps):
        usage, possible = after.response.usage, before.response.usage.input_tokens
        if possible is not None and usage.cached_input_tokens is not None:
            found.append(CacheStep(after.number, after.record.prefix_break, possible, usage.cached_input_tokens))
    return CacheReport(tuple(found))


RunError: TypeAlias = RunFailed | ToolError | BudgetExceeded
"""The failures of a run. Each contains the `history`."""
