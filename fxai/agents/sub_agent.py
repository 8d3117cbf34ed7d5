"""Sub-agents: use an agent as a tool of another agent. The calling model receives only the answer of the sub-agent.

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
from fxai.tools.annotation import Resumable
from fxai.tools.handler_types import Gives, HandlerOf
from fxai.tools.tool import Tool
from fxai.tools.tool_error import ToolError
from fxai.tools.tool_info import CallContext
from fxai.tools.tool_options import ToolOptions
from fxai.tools.toolkit import BoundToolkit, Toolkit

_P = TypeVar("_P")
_O = TypeVar("_O")
_R_co = TypeVar("_R_co", covariant=True)
_O_co = TypeVar("_O_co", covariant=True)
_T_co = TypeVar("_T_co", covariant=True)
_E_co = TypeVar("_E_co", covariant=True)

SubAgentReason: TypeAlias = Literal["budget", "model", "tool", "pending", "output", "other"]
"""The reason why a sub-agent returned no answer.

- `budget`: the sub-agent exhausted its budget, or the time limit for the calling run passed.
- `model`: the request to its model failed, or its response was invalid.
- `tool`: a tool of the sub-agent failed.
- `pending`: calls of its tools need an approval or a result.
- `output`: it ended without an output of its type.
- `other`: its memory or a source of its tools failed.
"""


class Runnable(Protocol[_O_co]):
    """An agent or a stateful prompt that a sub-agent can run."""

    @property
    def name(self) -> str:
        """The name of the agent or prompt."""
        ...

    @property
    def budget(self) -> Budget:
        """The limits for a run."""
        ...

    @property
    def output(self) -> Schema[Any] | None:
        """The type of the answer, or None for text."""

    def execute(self, prompt: PromptInput, /) -> EffectOf[Answer[_O_co], Any, Any]:
        """Return an effect that runs the agent and succeeds with the answer to `prompt`."""
        ...


@final
class AgentTypes(Generic[_T_co, _O_co, _E_co, _R_co]):
    """The four types of an agent, see `Agent`. Use it as a type only; you cannot create an instance."""

    def __init__(self) -> None:
        raise TypeError("Runs is only a type. Create an Agent or a StatefulPrompt.")


class Callee(Protocol[_E_co, _R_co]):
    """An agent or a stateful prompt that can become a sub-agent. Its run can fail with `E` and needs `R`."""

    # this method exists because by `execute` pyright would infer only a part of an `Agent.make(…)` in an argument
    def __fx_runs__(self) -> AgentTypes[_R_co, object, _E_co, _R_co]:
        """Declare the types of the agent for type checkers."""
        ...


@final
class SubAgentRequest(msgspec.Struct, frozen=True):
    """The default parameters of a tool that runs an agent."""

    prompt: Annotated[str, msgspec.Meta(description="The task, with all information that the agent needs.")]
    """The request to the agent."""


@final
class SubAgentReport(msgspec.Struct, frozen=True):
    """The report that a model receives about a sub-agent without an answer."""

    agent: str
    reason: SubAgentReason
    message: str
    """The event and the remedy."""


@final
class SubAgentFailed(msgspec.Struct, frozen=True):
    """The failure of a tool that runs an agent: the agent and the reason. A model reads all fields except `error`."""

    agent: str
    """The name of the agent."""
    reason: SubAgentReason
    """The kind of the failure."""
    message: str
    """The event and the remedy."""
    error: Any = None
    """The failure of the run, or an answer without an output, with the conversation. It stays in this process."""

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
    """An agent as a tool: `.tool` is the tool, and `.layer` provides its handler. Use it like a bound toolkit.

    A call starts a run of the agent. The answer is the success value of the tool. If the run fails, the call fails with
    a `SubAgentFailed`. The model reads its message, which contains nothing of the sub-agent's conversation. The time
    limit for the calling run also limits the sub-agent. If you cancel the calling run, fxai cancels the sub-agent. A
    sub-agent cannot wait for approvals: if a call of its tools needs an approval, the sub-agent fails.
    """

    runs: Runnable[_O]
    """The agent or stateful prompt to run."""
    tool: Tool[_P, _O, SubAgentFailed]
    """The tool that runs the agent."""
    prompt: Callable[[Any], PromptInput]
    """A function that converts the parameters of a call to the prompt of a run."""

    @property
    def layer(self) -> LayerOf[HandlerOf[_P, _O, SubAgentFailed], Never, _R_co | None]:
        """The layer of the tool's handler. It has the requirements of a run of the agent."""
        layer: LayerOf[Any, Never, Any] = self.tool.handler(lambda params, call: _run(self, params, call))
        return layer

    @property
    def bound(self) -> BoundToolkit[HandlerOf[_P, _O, SubAgentFailed], Never, _R_co | None]:
        """A toolkit that contains only this tool, with its layer."""
        return BoundToolkit.of(Toolkit.make(self.tool), self.layer, origin=self)

    def __fx_gives__(self) -> Gives[HandlerOf[_P, _O, SubAgentFailed], Never, _R_co | None]:
        """Declare the types of the handler for type checkers."""
        raise NotImplementedError

    def __fx_bound__(self) -> BoundToolkit[HandlerOf[_P, _O, SubAgentFailed], Never, _R_co | None]:
        """Return a toolkit that contains only this tool, with its layer."""
        return self.bound


def sub_agent_of(
    agent: Runnable[Any], name: str | None, parameters: Any, prompt: Any, options: ToolOptions
) -> SubAgent[Any, Any, Any]:
    """Return the sub-agent of an agent. See `Agent.as_tool`."""
    if (parameters is None) != (prompt is None):
        raise SchemaError("parameters and prompt must be passed together: prompt converts the parameters to a prompt")
    all_options: Any = {"description": f"Runs the agent {agent.name!r}.", "failure_mode": "return", **options}
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
    """Run the agent within the remaining seconds, or within its own budget if it is smaller."""
    if seconds <= 0:
        return fail(
            SubAgentFailed(agent.name, "budget", f"agent {agent.name!r} was not started: its time limit had passed")
        )
    own = agent.budget.seconds
    left = seconds if own is None else min(own, seconds)
    budget = msgspec.structs.replace(agent.budget, seconds=left)
    return run(msgspec.structs.replace(cast(Any, agent), budget=budget))


def _output(name: str, answer: Answer[_O]) -> EffectOf[_O, SubAgentFailed]:
    if answer.ended == "pending":
        waiting = ", ".join(sorted({call.name for call in answer.pending}))
        why = f"calls of its tools need a user ({waiting}), and it cannot wait. Continue without it, or ask the user."
        return fail(SubAgentFailed(name, "pending", f"agent {name!r} returned no answer: {why}", answer))
    if answer.typed and answer.value is msgspec.UNSET:
        why = "it ended without an output. Request less, or change the request."
        return fail(SubAgentFailed(name, "output", f"agent {name!r} returned no answer: {why}", answer))
    return Succeed(answer.output)


def _failure(name: str, error: Any) -> SubAgentFailed:
    """Return the failure of a run. Its message contains nothing of the conversation."""
    reason: SubAgentReason = "other"
    why = f"it could not run ({type(error).__name__}). Continue without it."
    if isinstance(error, BudgetExceeded):
        reason, why = "budget", f"it did not finish within {describe_limit(error.limit, error.what)}. Request less."
    elif isinstance(error, AiError):
        remedy = "Try again later." if error.is_retryable else "Continue without it."
        reason, why = "model", f"its model did not answer ({type(error.reason).__name__}). {remedy}"
    elif isinstance(error, ToolError):
        reason, why = "tool", f"its tool {error.name!r} failed. Change the request, or continue without it."
    return SubAgentFailed(name, reason, f"agent {name!r} returned no answer: {why}", error)
