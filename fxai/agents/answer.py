"""Answers: what a run of an agent gives, with its steps; and the errors that a run can fail with.

>>> from fxai.messages.part import Finish, Text, ToolCall, ToolResult
>>> turn = Response((ToolCall("c1", "add", {"a": 1, "b": 2}), ToolResult("c1", "add", 3), Finish("tool-calls")))
>>> steps = Step(1, turn), Step(2, Response((Text("It is 3."), Finish("stop"))))
>>> answer = Answer(steps, Prompt.make("What is 1 + 2?"))
>>> answer.text, [result.result for result in answer.steps[0].results]
('It is 3.', [3])
>>> print(BudgetExceeded("rounds", 10, Prompt.make("Count to infinity.")))
the run was not done after 10 rounds: allow more with Budget(rounds=…), or go on from `history`
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final, Generic, Literal, TypeAlias, cast, final, overload

import msgspec
from returns.result import Failure, Result, Success
from typing_extensions import TypeVar, override

from fxai.agents.step_record import NO_RECORD, StepRecord
from fxai.effects.cause import Cause, Failed, FailureError, Succeeded
from fxai.messages.calls import Pending
from fxai.messages.errors import AiError
from fxai.messages.part import FinishReason, ToolCall, ToolResult, Usage, WarningPart
from fxai.messages.prompt import Prompt
from fxai.messages.response import Response
from fxai.tools.tool import Tool
from fxai.tools.tool_error import NotRun, ToolError

if TYPE_CHECKING:
    from fxai.agents.state import PromptState, RenderReason

_S = TypeVar("_S")
_F = TypeVar("_F")
_O_co = TypeVar("_O_co", covariant=True, default=str)

# -- steps


@final
class Step(msgspec.Struct, frozen=True):
    """One round of a run: the model's turn and the results of its calls."""

    number: int
    """The number of the round, from 1."""
    response: Response
    record: StepRecord = NO_RECORD
    """The tools and messages of its request, whether this extended the previous one, and the state of a prompt."""

    @property
    def text(self) -> str:
        """The text of the model's turn."""
        return self.response.text

    @property
    def calls(self) -> tuple[ToolCall, ...]:
        """The calls that the model made, in order; `dynamic` marks those of tools that no type describes."""
        return self.response.tool_calls

    @property
    def results(self) -> tuple[ToolResult, ...]:
        """The results in the order of the calls; before them those of calls that were approved before this step.

        `result` is the value of the tool's type, or what failed; `dynamic` marks those of tools that no type describes.
        """
        return self.response.tool_results

    def results_of(self, tool: Tool[Any, _S, _F]) -> tuple[Result[_S, _F | ToolError | NotRun], ...]:
        """The results of the calls of one tool, with its types: a `Success` or a `Failure` each.

        Such a failure is the tool's own, or it says why its handler gave none: `InvalidParameters` that the model gave,
        or a call that was not run, such as one that was `Denied`.
        """
        named = [result for result in self.results if result.name == tool.name]
        return tuple([Failure(each.result) if each.is_failure else Success(cast(_S, each.result)) for each in named])

    @property
    def usage(self) -> Usage:
        """The tokens that it took."""
        return self.response.usage

    @property
    def warnings(self) -> tuple[WarningPart, ...]:
        """What was requested and not done."""
        return self.response.warnings

    @property
    def finish_reason(self) -> FinishReason:
        """Why the model's turn ended."""
        return self.response.finish_reason

    @override
    def __hash__(self) -> int:
        return hash(self.number)


@final
class Steps(Sequence[Step]):
    """The steps of a run so far, the first one first. It does not change when the run goes on."""

    # A view of the first `length` steps of a list that only ever grows: a tuple would copy all of them each round.
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
            return tuple([self._steps[place] for place in range(*index.indices(self._length))])
        place = index + self._length if index < 0 else index
        if not 0 <= place < self._length:
            raise IndexError(f"step {index} of {self._length}")
        return self._steps[place]

    @override
    def __len__(self) -> int:
        return self._length

    @override
    def __iter__(self) -> Iterator[Step]:
        return iter(self[:])

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
"""How a run ended.

`done`: the model's last turn called no tool, or was cut (`finish_reason` says which). `stopped`: a stop condition held.
`limit`: its budget was spent, and it answered all the same. `pending`: calls wait for an approval or for a result from
outside.
"""


@final
class Answer(msgspec.Struct, Generic[_O_co], frozen=True):
    """What a run gave: its steps, the whole conversation, and the output, of type `O`."""

    steps: tuple[Step, ...]
    history: Prompt
    """The conversation before the run and all of the run: another run can go on from it."""
    ended: Ended = "done"
    typed: bool = False
    """Whether the agent has an output type."""
    value: _O_co | msgspec.UnsetType = msgspec.UNSET
    """The typed output, where there is one; read `output` instead."""
    state: PromptState | None = None
    """The state of a stateful prompt after the run, for `execute(…, state=…)`; None of an agent without one."""

    @property
    def output(self) -> _O_co:
        """The typed answer; of an agent without an output type, the text.

        Raises:
            LookupError: the run ended before there was one: calls wait, a stop condition held, or the budget was spent
                (`ended` says which).
        """
        if not self.typed:
            return cast(_O_co, self.text)
        if self.value is msgspec.UNSET:
            raise LookupError(f"there is no output, because the run ended otherwise: {_why_untyped(self)}")
        return self.value

    @property
    def text(self) -> str:
        """The text of the last turn; where a limit ended the run, of the last turn that has any."""
        if self.ended == "limit":
            return next((text for step in reversed(self.steps) if (text := step.text)), "")
        return self.steps[-1].text

    @property
    def response(self) -> Response:
        """The last turn."""
        return self.steps[-1].response

    @property
    def usage(self) -> Usage:
        """The tokens of all steps."""
        return sum((step.usage for step in self.steps), Usage())

    @property
    def finish_reason(self) -> FinishReason:
        """Why the last turn ended; `"pending"` where calls wait for approvals or results, which is no failure."""
        return self.steps[-1].finish_reason

    @property
    def pending(self) -> tuple[Pending, ...]:
        """The calls that wait for an approval or for a result; put those behind `history` to go on."""
        return self.history.pending if self.finish_reason == "pending" else self.response.pending

    @override
    def __hash__(self) -> int:
        return hash(self.history)


def _why_untyped(answer: Answer[Any]) -> str:
    if answer.ended == "pending":
        waiting = ", ".join(call.name for call in answer.pending)
        return f"calls wait ({waiting}); answer them, and go on from `history`"
    if answer.ended == "stopped":
        return "a stop condition held first; look at `steps`, or go on from `history`"
    return f"its budget was spent, and the last text does not fit; allow more, or go on from `history`: {answer.text}"


# -- what a run fails with

Limit: TypeAlias = Literal["rounds", "tokens", "seconds", "calls"]
"""What a budget may run out of."""


def describe_limit(number: float, what: Limit) -> str:
    """An amount of what a budget limits, in words.

    >>> describe_limit(1, "rounds"), describe_limit(0.5, "seconds")
    ('1 round', '0.5 seconds')
    """
    return f"{number:g} {what[:-1] if number == 1 else what}"


@final
class BudgetExceeded(msgspec.Struct, frozen=True):
    """The failure of a run whose budget was spent: what ran out, how much there was, and the conversation so far."""

    what: Limit
    limit: float
    history: Prompt
    """Every call in it has its result: another run can go on from it, with a budget of its own."""
    state: PromptState | None = None
    """The state of a stateful prompt then; None of an agent without one."""

    @override
    def __str__(self) -> str:
        return (
            f"the run was not done after {describe_limit(self.limit, self.what)}: "
            f"allow more with Budget({self.what}=…), or go on from `history`"
        )


@final
class RunFailed(AiError, frozen=True, tag="AiError"):
    """An `AiError` that ended a run, with the conversation so far: another run can go on from its history.

    It is written as any `AiError`, without the conversation, which may hold what is not for a log.
    """

    history: Prompt
    """The conversation before the turn that failed, with the results of all calls."""
    state: PromptState | None = None
    """The state of a stateful prompt then; None of an agent without one."""

    @staticmethod
    def of(error: AiError, history: Prompt, state: PromptState | None = None) -> RunFailed:
        """The error with a conversation; an error that has its own keeps it."""
        if isinstance(error, RunFailed):
            return error
        return RunFailed(error.module, error.method, error.reason, history, state)

    @property
    def error(self) -> AiError:
        """The error without the conversation."""
        return AiError(self.module, self.method, self.reason)

    @override
    def to_data(self) -> dict[str, Any]:
        """The error as plain JSON data, without the conversation."""
        return self.error.to_data()

    @override
    def to_json(self) -> str:
        """The error as JSON text, without the conversation."""
        return self.error.to_json()

    @override
    def __str__(self) -> str:
        return str(self.error)


@final
class RenderFailed(msgspec.Struct, frozen=True):
    """The failure of a run whose stateful prompt was rendered wrongly: which one, at which step, and why."""

    prompt: str
    """What the prompt is called."""
    step: int
    """The number of the step that was rendered, from 1."""
    reason: RenderReason
    message: str
    """What is wrong, and what to do."""
    history: Prompt
    """The conversation so far; every call in it has its result, or waits."""
    state: PromptState
    """The state then."""

    @override
    def __str__(self) -> str:
        return f"the prompt {self.prompt!r} could not be rendered for step {self.step}: {self.message}"

    @override
    def __hash__(self) -> int:
        return hash((self.prompt, self.step, self.reason, self.message))


def keep_history(defect: BaseException, history: Prompt) -> None:
    """Store the conversation with a defect that ended a run, for `history_of`."""
    vars(defect)[_HISTORY] = history


def history_of(ended: object) -> Prompt | None:
    """Return the conversation of a run, however the run ended: another run can go on from it.

    After a defect of a handler, the conversation contains the results of all calls that ended. The result of the broken
    call states that the tool broke.

    Args:
        ended: An `Exit`, a `Cause`, an `Answer`, a failure of a run, or an exception that a run raised.

    Returns None if `ended` belongs to no run of an agent, or if the run was cancelled.

    >>> history_of(BudgetExceeded("rounds", 10, Prompt.make("Count to infinity."))) == Prompt.make("Count to infinity.")
    True
    >>> history_of(KeyError("n")) is None
    True
    """
    if isinstance(ended, Succeeded):
        return history_of(cast("Succeeded[object]", ended).value)
    if isinstance(ended, Failed | FailureError):
        return history_of(cast(Any, ended).cause)
    if isinstance(ended, Cause):
        cause = cast("Cause[object]", ended)
        found = [history_of(one) for one in (*cause.failures, *cause.defects)]
        return next((history for history in found if history is not None), None)
    kept = vars(ended).get(_HISTORY) if isinstance(ended, BaseException) else None
    history: object = getattr(ended, "history", None) if kept is None else kept
    return history if isinstance(history, Prompt) else None


_HISTORY: Final = "__fxai_history__"

RunError: TypeAlias = RunFailed | ToolError | BudgetExceeded
"""What a run can fail with; each holds the `history`."""
