"""Sub-agents: an agent as a tool of another one, which is given its answer and nothing else of its run.

>>> from fxai import Agent, fx
>>> from fxai.testing import ScriptedModel, call, text
>>> poet = Agent.make("poet", model=ScriptedModel.make([text("Roses are red.")]).layer)
>>> model = ScriptedModel.make([call("poet", {"prompt": "On roses."}), text("Here it is.")])
>>> editor = Agent.make("editor").with_tools(poet.as_tool(description="Writes a verse."))
>>> answer = fx.run(editor.execute("A verse, please.").provide(model.layer))
>>> answer.steps[0].results[0].result, answer.text
('Roses are red.', 'Here it is.')
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any, Generic, Literal, Never, Protocol, TypeAlias, cast, final

import msgspec
from typing_extensions import TypeVar, override

from fxai.agents.answer import Answer, BudgetExceeded, describe_limit
from fxai.agents.run_options import Budget
from fxai.effects.constructor import fail
from fxai.effects.effect import EffectOf, Fetch, Succeed
from fxai.effects.layer import LayerOf
from fxai.effects.service import Clock
from fxai.messages.errors import AiError
from fxai.messages.prompt import PromptInput
from fxai.schema.codec import Schema
from fxai.schema.fault import SchemaError
from fxai.tools.handler import Gives, HandlerOf
from fxai.tools.tool import Tool
from fxai.tools.tool_error import ToolError
from fxai.tools.tool_options import CallContext, Resumable, ToolOptions
from fxai.tools.toolkit import BoundToolkit, Toolkit

_P = TypeVar("_P")
_O = TypeVar("_O")
_R_co = TypeVar("_R_co", covariant=True)
_O_co = TypeVar("_O_co", covariant=True)
_T_co = TypeVar("_T_co", covariant=True)
_E_co = TypeVar("_E_co", covariant=True)

SubAgentReason: TypeAlias = Literal["budget", "model", "tool", "pending", "output", "other"]
"""Why an agent gave no answer.

`budget`: its budget, or the time of the run that called it, was spent. `model`: its model could not be asked or
understood. `tool`: one of its tools failed. `pending`: calls of its tools wait for an approval or for a result.
`output`: it ended before there was an output of its type. `other`: its memory or a source of its tools failed.
"""


class Runnable(Protocol[_O_co]):
    """What a sub-agent runs: an agent, or a stateful prompt."""

    @property
    def name(self) -> str:
        """What it is called."""
        ...

    @property
    def budget(self) -> Budget:
        """How much one run may take."""
        ...

    @property
    def output(self) -> Schema[Any] | None:
        """What its answer is; None for text."""

    def execute(self, prompt: PromptInput, /) -> EffectOf[Answer[_O_co], Any, Any]:
        """The answer to `prompt`."""
        ...


@final
class Runs(Generic[_T_co, _O_co, _E_co, _R_co]):
    """What an agent is, as four types: see `Agent`. A type only, never made."""

    def __init__(self) -> None:
        raise TypeError("Runs is a type only: use Agent or StatefulPrompt")


class Callee(Protocol[_E_co, _R_co]):
    """What can be made a sub-agent of: an agent, or a stateful prompt, whose run fails with `E` and needs `R`."""

    # Not by `execute`: of an `Agent.make(…)` that stands for it as an argument pyright would infer a part only.
    def __fx_runs__(self) -> Runs[_R_co, object, _E_co, _R_co]:
        """For checkers: what it is."""
        ...


@final
class SubAgentRequest(msgspec.Struct, frozen=True):
    """The parameters of a tool that is an agent, unless others are given."""

    prompt: Annotated[str, msgspec.Meta(description="What it is to do, with everything that it needs to know for it.")]


@final
class SubAgentReport(msgspec.Struct, frozen=True):
    """The report to a model about an agent that gave no answer."""

    agent: str
    reason: SubAgentReason
    message: str
    """What happened, and what to do."""


@final
class SubAgentFailed(msgspec.Struct, frozen=True):
    """The failure of a tool that is an agent: which one, and why. A model reads all of it but the `error`."""

    agent: str
    reason: SubAgentReason
    message: str
    """What happened, and what to do."""
    error: Any = None
    """The failure of its run, or an answer without an output, with its whole conversation. It stays in this process."""

    @override
    def __str__(self) -> str:
        return self.message

    @override
    def __hash__(self) -> int:
        return hash((self.agent, self.reason, self.message))


_FAILURE: Schema[SubAgentFailed] = Schema.of(
    Annotated[
        SubAgentFailed,
        Schema.codec(
            wire=SubAgentReport,
            decode=lambda report: SubAgentFailed(report.agent, report.reason, report.message),
            encode=lambda failed: SubAgentReport(failed.agent, failed.reason, failed.message),
        ),
    ]
)


@final
class SubAgent(msgspec.Struct, Generic[_P, _O, _R_co], frozen=True):
    """An agent as a tool: `.tool`, and `.layer`, its handler. It goes wherever tools with their handlers go.

    A call is a run of the agent. Its answer is the tool's success; what its run fails with is a `SubAgentFailed`, which
    a model reads in words, without anything of the run's conversation. The time of the calling run bounds this one, and
    a cancellation of the calling run cancels it. It cannot wait for approvals: where a call of its own tools does, it
    fails.
    """

    runs: Runnable[_O]
    """The agent that is run."""
    tool: Tool[_P, _O, SubAgentFailed]
    prompt: Callable[[Any], PromptInput]
    """Makes the prompt of a run, of the parameters of the call."""

    @property
    def layer(self) -> LayerOf[HandlerOf[_P, _O, SubAgentFailed], Never, _R_co | None]:
        """The layer of the tool's handler, which needs what a run of the agent does."""
        layer: LayerOf[Any, Never, Any] = self.tool.handler(lambda params, call: _run(self, params, call))
        return layer

    @property
    def bound(self) -> BoundToolkit[HandlerOf[_P, _O, SubAgentFailed], Never, _R_co | None]:
        """The toolkit of this tool alone, with its layer."""
        return BoundToolkit.of(Toolkit.make(self.tool), self.layer, origin=self)

    def __fx_gives__(self) -> Gives[HandlerOf[_P, _O, SubAgentFailed], Never, _R_co | None]:
        """For checkers: what it gives."""
        raise NotImplementedError

    def __fx_bound__(self) -> BoundToolkit[HandlerOf[_P, _O, SubAgentFailed], Never, _R_co | None]:
        """The toolkit of this tool alone, with its layer."""
        return self.bound


def sub_agent_of(
    agent: Runnable[Any], name: str | None, parameters: Any, prompt: Any, options: ToolOptions
) -> SubAgent[Any, Any, Any]:
    """`agent.as_tool(…)`."""
    if (parameters is None) != (prompt is None):
        raise SchemaError("an agent with parameters of its own needs `prompt` too, which says what it is asked of them")
    all_options: Any = {"description": f"Asks the agent {agent.name!r}.", "failure_mode": "return", **options}
    tool: Tool[Any, Any, SubAgentFailed] = Tool.make(
        agent.name if name is None else name,
        parameters=SubAgentRequest if parameters is None else parameters,
        success=Schema[Any].of(str) if agent.output is None else agent.output,
        failure=_FAILURE,
        **all_options,
    )
    return SubAgent(agent, tool.annotate(Resumable, True), _prompt_of if prompt is None else prompt)


def _prompt_of(request: SubAgentRequest) -> PromptInput:
    return request.prompt


# -- a call


def _run(sub_agent: SubAgent[Any, Any, Any], params: Any, call: CallContext) -> EffectOf[Any, SubAgentFailed, Any]:
    agent, prompt, until = sub_agent.runs, sub_agent.prompt(params), call.deadline

    def run(agent: Runnable[Any]) -> EffectOf[Any, SubAgentFailed, Any]:
        answer = agent.execute(prompt).map_error(lambda error: _failure(agent.name, error))
        return answer.flat_map(lambda answer: _output(agent.name, answer))

    if until is None:
        return run(agent)
    clock: EffectOf[Clock, Never, Any] = Fetch(Clock)
    return clock.flat_map(lambda now: _within(agent, until - now.monotonic(), run))


def _within(agent: Runnable[Any], seconds: float, run: Callable[[Any], Any]) -> Any:
    """The run of the agent, in the seconds that are left, or fewer where its own budget says so."""
    if seconds <= 0:
        return fail(SubAgentFailed(agent.name, "budget", f"there was no time left for the agent {agent.name!r}"))
    own = agent.budget.seconds
    left = seconds if own is None else min(own, seconds)
    budget = msgspec.structs.replace(agent.budget, seconds=left)
    return run(msgspec.structs.replace(cast(Any, agent), budget=budget))


def _output(name: str, answer: Answer[_O]) -> EffectOf[_O, SubAgentFailed]:
    if answer.ended == "pending":
        waiting = ", ".join(sorted({call.name for call in answer.pending}))
        why = f"calls of its tools wait for somebody ({waiting}), and it cannot wait; do without it, or ask the user"
        return fail(SubAgentFailed(name, "pending", f"the agent {name!r} gave no answer: {why}", answer))
    if answer.typed and answer.value is msgspec.UNSET:
        why = "it ended before it had one; ask for less, or otherwise"
        return fail(SubAgentFailed(name, "output", f"the agent {name!r} gave no answer: {why}", answer))
    return Succeed(answer.output)


def _failure(name: str, error: Any) -> SubAgentFailed:
    """The failure of a run, in words that hold nothing of its conversation."""
    reason, why = _reason(error)
    return SubAgentFailed(name, reason, f"the agent {name!r} gave no answer: {why}", error)


def _reason(error: Any) -> tuple[SubAgentReason, str]:
    if isinstance(error, BudgetExceeded):
        return "budget", f"it was not done after {describe_limit(error.limit, error.what)}; ask for less"
    if isinstance(error, AiError):
        remedy = "ask again later" if error.is_retryable else "do without it"
        return "model", f"its model could not answer ({type(error.reason).__name__}); {remedy}"
    if isinstance(error, ToolError):
        return "tool", f"its tool {error.name!r} failed; ask otherwise, or do without it"
    return "other", f"it could not be run ({type(error).__name__}); do without it"
