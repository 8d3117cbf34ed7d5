"""Tool search: offer hundreds of tools without their definitions. Use this module for large toolkits.

The model receives a search tool and the tools that its searches found. Found tools stay for the conversation. Handlers,
approvals, and journals work as for all tools.

>>> from fxai.agents.agent import Agent
>>> from fxai.effects import fx
>>> from fxai.effects.layer import Layer
>>> from fxai.testing import ScriptedModel, call, text
>>> kit = Toolkit.make(*[Tool.make(f"report_{number}", success=int) for number in range(200)])
>>> agent = Agent.make("finder", toolkit=kit, tool_search=ToolSearch(max_results=2))
>>> model = ScriptedModel.make([call("search_tools", {"query": "report_117"}), text("Found.")])
>>> handlers = kit.to_layer(Layer.merge_all(*[tool.handler(lambda _: fx.succeed(1)) for tool in kit]))
>>> _ = fx.run(agent.execute("Report 117?").provide(handlers).provide(model.layer))
>>> [[tool.name for tool in request.tools][:2] for request in model.requests]
[['search_tools'], ['search_tools', 'report_117']]
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final, cast, final
from weakref import WeakKeyDictionary

import msgspec

from fxai.effects.effect import AnyEffect, EffectOf, Succeed
from fxai.effects.layer import AnyLayer, LayerOf
from fxai.messages.prompt import Prompt
from fxai.models.model_facts import ModelFacts
from fxai.models.model_request import RoundOptions, ToolChoice
from fxai.models.prepared_tools import found_names
from fxai.tools.annotation import DeferLoading, Destructive, FindsTools, Idempotent, OpenWorld, Readonly
from fxai.tools.tool import AnyTool, Tool
from fxai.tools.tool_error import nearest_name
from fxai.tools.tool_index import ToolIndex, words_of
from fxai.tools.toolkit import AnyToolkit, Toolkit

if TYPE_CHECKING:
    from fxai.models.embedding_model import EmbeddingModel, Vector

_DESCRIPTION: Final = (
    "Search for more tools by words of a task, or by the exact names of tools. You can call the tools in the result "
    "from your next turn on. Search before you say that you cannot do something."
)
_LONGEST: Final = 300  # characters of the description of a found tool
_CLOSE: Final = 60  # the constant of reciprocal rank fusion


class ToolQuery(msgspec.Struct, frozen=True):
    """The parameters of the search tool."""

    query: str
    """Words of the task, or names of tools."""


class FoundTool(msgspec.Struct, frozen=True):
    """A tool in the result of a search."""

    name: str
    """The name of the tool."""
    description: str = ""
    """The description of the tool."""


class FoundTools(msgspec.Struct, frozen=True):
    """The result of a search, best first."""

    tools: list[FoundTool]
    """The tools, best match first."""
    note: str = ""
    """A message to the model, or an empty string."""


@final
class ToolSearch(msgspec.Struct, frozen=True):
    """The option `tool_search` of an agent: the model receives a search tool instead of all tools.

    If the model accepts added tools between messages, fxai adds the found tools there. If its facts state
    `tool_references`, each request contains all tools as deferred tools, and the result of a search refers to them. In
    both forms, the prefix of the requests stays. For other models, the tools of the request change, and the step
    records the break `"tools"`.
    """

    max_results: int = 5
    """Maximum number of tools in a result, except that the result contains all tools that the query names."""
    always: tuple[str, ...] = ()
    """The names of the tools that the model always receives. Tools of the provider are also always in the request."""
    name: str = "search_tools"
    """The name of the search tool."""
    description: str | None = None
    """The description of the search tool. Add the subjects of your tools to it. Default: a general description."""
    embedding: LayerOf[EmbeddingModel, Any, None] | None = None
    """An embedding model that ranks the tools together with their words, or None. Each search sends a request. If the
    embedding model fails, the words alone rank the tools."""
    min_similarity: float = 0.0
    """Minimum cosine similarity, from -1 to 1, of a tool that only the embedding model finds. The scale depends on the
    model, so measure it with requests for your tools. Default: 0, with which most models find a tool for any query."""
    hosted: AnyTool | None = None
    """The search tool of the provider, such as `anthropic.tool_search()`, or None. The request then contains all tools
    as deferred tools, and the provider searches them. If the facts of the model do not state `tool_search`, fxai uses
    its own search."""

    def __post_init__(self) -> None:
        if self.max_results < 1:
            raise ValueError(f"max_results must be at least 1, got {self.max_results}")
        if not -1 <= self.min_similarity <= 1:
            raise ValueError(f"min_similarity must be from -1 to 1, got {self.min_similarity}")
        if self.hosted is not None and self.hosted.provider is None:
            raise ValueError(f"hosted must be a search tool of a provider, got {self.hosted.name!r}")
        if isinstance(cast(object, self.always), str):
            raise TypeError(f"always must be names of tools, got {self.always!r}. Pass ({self.always!r},).")

    def check(self, agent: str, tools: Mapping[str, AnyTool]) -> None:
        """Check the names against all tools of an agent.

        Raises:
            ValueError: If `always` names an unknown tool, or a tool has the name of the search tool.
        """
        for name in self.always:
            if name not in tools:
                text = f"tool_search: agent {agent!r} has no tool {name!r}{nearest_name(name, tools)}"
                raise ValueError(f"{text}. Correct `always`.")
        if self.name in tools:
            text = f"tool_search: agent {agent!r} has its own tool {self.name!r}"
            raise ValueError(f"{text}. Choose another name with ToolSearch(name=…).")


@final
class Searching:
    """The tool search of a run: the tools that the model receives in each step."""

    def __init__(
        self, options: ToolSearch, facts: ModelFacts | None, always: Iterable[str] = (), *, adds: bool = False
    ) -> None:
        """Create the search of a run.

        The model also receives the tools named in `always` in each step. If `adds` is true, the run adds found tools
        between messages.
        """
        self._options = options
        can_defer = facts is not None and facts.tool_search is True
        self._by_provider = options.hosted is not None and can_defer
        by_reference = can_defer and not adds and facts is not None and facts.tool_references is True
        self._defers = self._by_provider or by_reference
        self._always = {*options.always, *always}
        self._found: dict[str, None] = {}  # in the order of their discovery
        self._read = 0  # the number of messages that this run has searched for results
        self._toolkit: AnyToolkit = Toolkit.empty()  # all tools of the last step
        self._state = (0, 0)  # the numbers of the tools that the model always receives and of the found tools
        self._offered: AnyToolkit = self._toolkit
        self._rest: tuple[AnyTool, ...] = ()
        self._tool = Tool.make(
            options.name,
            description=options.description or _DESCRIPTION,
            parameters=ToolQuery,
            success=FoundTools,
        ).annotate_all({Readonly: True, Idempotent: True, Destructive: False, OpenWorld: False, FindsTools: True})
        self.handlers: AnyLayer | None = None if self._by_provider else self._tool.handler(self._search)
        """The layer of the search tool, or None if the provider searches."""

    def offer(self, toolkit: AnyToolkit, history: Prompt, options: RoundOptions) -> AnyToolkit:
        """Return the tools of a step: the tools that the model always receives, the search tool, and the found tools.

        If the model accepts deferred tools, all other tools are also in the result, as deferred tools. The results of
        searches and the calls in the history name the found tools. The tool choice in the options can name more tools.
        """
        if not self._defers:
            self._read_results(history)
        choice = options.get("tool_choice")
        if isinstance(choice, ToolChoice):
            self._always.update(choice.names)  # they stay, because their order belongs to the prefix
        state = (len(self._always), len(self._found))
        if toolkit is self._toolkit and state == self._state:
            return self._offered
        self._toolkit, self._state, always = toolkit, state, self._always
        first = [tool for tool in toolkit if tool.name in always or tool.provider is not None]
        rest = self._rest = tuple(tool for tool in toolkit if tool.name not in always and tool.provider is None)
        here = {tool.name: tool for tool in rest}
        if self._defers and rest:
            deferred = [tool.annotate(DeferLoading, True) for tool in rest]
            hosted = self._options.hosted if self._by_provider else None
            self._offered = Toolkit.of([*first, *deferred, hosted or self._tool])
        elif rest:
            self._offered = Toolkit.of([*first, self._tool, *(here[name] for name in self._found if name in here)])
        else:
            self._offered = toolkit
        return self._offered

    def _read_results(self, history: Prompt) -> None:
        for at in range(self._read, len(history)):
            message = history[at]
            if message.role != "assistant" and message.role != "tool":
                continue
            for part in message.content:
                if part.type == "tool-call":
                    self._found.setdefault(part.name)
                elif part.type == "tool-result" and part.name == self._options.name:
                    self._found.update(dict.fromkeys(found_names(part.result)))
        self._read = len(history)

    # -- the search

    def _search(self, asked: ToolQuery) -> EffectOf[FoundTools]:
        index, most = _index_of(self._rest), self._options.max_results
        if self._options.embedding is None:
            return Succeed(self._result(index.search(asked.query, most)))

        def fuse(by_meaning: Sequence[int]) -> FoundTools:
            orders = (index.rank(asked.query), by_meaning)
            scores: defaultdict[int, float] = defaultdict(float)
            for order in orders:
                for position, at in enumerate(order):
                    scores[at] += 1 / (_CLOSE + position)
            ranked = sorted(scores, key=lambda at: (-scores[at], at))
            return self._result(index.first(asked.query, ranked, most))

        least = self._options.min_similarity
        return _rank_by_meaning(index, asked.query, self._options.embedding, least).map(fuse)

    def _result(self, found: Iterable[AnyTool]) -> FoundTools:
        listed = [FoundTool(tool.name, (tool.description or "")[:_LONGEST]) for tool in found]
        if listed:
            return FoundTools(listed, "You can call these tools from your next turn on.")
        return FoundTools([], f"No tool matches. {len(self._rest)} tools exist. Search again with other words.")


_index_of: Final = lru_cache(maxsize=32)(ToolIndex)
_VECTORS: Final[WeakKeyDictionary[ToolIndex, dict[Any, tuple[Vector, ...]]]] = WeakKeyDictionary()


def _rank_by_meaning(
    index: ToolIndex, query: str, embedding: LayerOf[EmbeddingModel, Any, None], least: float
) -> EffectOf[Sequence[int]]:
    """Return the positions of tools with at least this similarity, the most similar first. Return none if it fails."""
    from fxai.models.embedding_model import EmbeddingModel, similarity

    known = _VECTORS.setdefault(index, {})
    texts = () if embedding in known else tuple(map(words_of, index.tools))

    def rank(vectors: Sequence[Vector]) -> Sequence[int]:
        wanted, *rest = vectors
        tools = known.setdefault(embedding, tuple(rest))
        near = [similarity(wanted, vector) for vector in tools]
        return sorted((at for at, one in enumerate(near) if one >= least), key=lambda at: (-near[at], at))

    asked: AnyEffect = EmbeddingModel.embed_many((query, *texts)).provide(embedding)
    return asked.map(lambda made: rank(made.vectors)).catch_all(lambda _: Succeed(()))
