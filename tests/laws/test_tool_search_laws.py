"""The laws of tool search: exact names, honest results, found tools that stay, and requests that grow."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from returns.result import Success

from fxai import Agent, EmbeddingModel, Layer, Memory, Tool, Toolkit, fx
from fxai.agents import Answer, Changes, ToolSearch
from fxai.annotations import DeferLoading, FindsTools, Idempotent
from fxai.durable import Runs, durable
from fxai.effects import Backend, Effect
from fxai.messages import AiError, AssistantMessage, Prompt, RateLimitError, ToolCallPart, ToolMessage, ToolResultPart
from fxai.models import Embeddings, ModelRequest, ToolChoice
from fxai.providers import anthropic, openai
from fxai.testing import ScriptedModel, call, text
from fxai.tools.tool_index import ToolIndex
from tests.kit.tool_requests import LARGE, MANY, large_server, many_servers, recall

BACKENDS: tuple[Backend, ...] = ("asyncio", "trio")
INDEXES = {"large": ToolIndex(large_server()), "many": ToolIndex(many_servers())}

# -- the ranking


def _found(index: ToolIndex, requests: Sequence[tuple[str, str]], most: int) -> list[list[str]]:
    return [[tool.name for tool in index.search(query, most)] for query, _ in requests]


def test_requests_in_other_words_find_their_tools() -> None:
    """Five of 344 tools, and five of 99 tools, contain the right tool for at least four of five requests."""
    assert len(INDEXES["large"].tools) == 344
    assert len(INDEXES["many"].tools) == 99
    assert recall(_found(INDEXES["large"], LARGE, 5), LARGE) >= 45
    assert recall(_found(INDEXES["many"], MANY, 5), MANY) >= 37


@given(st.sampled_from(["large", "many"]), st.data(), st.integers(1, 5), st.booleans())
def test_exact_names_are_always_first(which: str, data: st.DataObject, most: int, upper: bool) -> None:
    """For any names within any words, the named tools come first, also if they are more than the maximum."""
    index = INDEXES[which]
    named = data.draw(st.lists(st.sampled_from(index.tools), min_size=1, max_size=7, unique_by=lambda one: one.name))
    words = data.draw(st.lists(st.sampled_from(["please", "open", "the", "mail", "(", ","]), max_size=3))
    query = " ".join([*words, *[tool.name.upper() if upper else tool.name for tool in named]])
    found = index.search(query, most)

    assert {tool.name for tool in named} == {tool.name for tool in found[: len(named)]}
    assert len(found) == max(len(named), min(most, len(found)))


@given(st.text(max_size=60))
def test_any_query_has_a_result_without_duplicates(query: str) -> None:
    """Tools in the result occur once, and the maximum holds."""
    for index in INDEXES.values():
        found = [tool.name for tool in index.search(query, 4)]

        assert len(set(found)) == len(found) <= max(4, len(query))


def test_a_query_without_a_match_finds_nothing() -> None:
    """Words that occur in no tool, and words that mean nothing, have no result. A name on the wire has one."""
    dotted = Tool.make("Calculator.add", description="Adds.")
    assert INDEXES["large"].search("xylophone qwertz", 5) == ()
    assert INDEXES["many"].search("what is the", 5) == ()
    assert INDEXES["many"].search("", 5) == ()
    assert ToolIndex(()).search("mail", 5) == ()
    assert ToolIndex((dotted,)).search("calculator__ADD", 5) == (dotted,)


# -- runs

names = [f"report_{number}" for number in range(20)]
reports = Toolkit.make(*[Tool.make(name, description=f"Report {name[7:]}.", success=str) for name in names])
search = Tool.make("search", success=str)
kit = reports.merge(Toolkit.make(search))


def _handlers() -> Any:
    def handler(tool: Any) -> Any:
        def answer(_: object) -> Success[str]:
            return Success(tool.name)

        return tool.handler(answer)

    return Layer.merge_all(*map(handler, kit))


def _run(agent: Any, model: ScriptedModel, prompt: Any = "Go.", backend: Backend = "asyncio") -> Answer[str]:
    answer: Answer[str] = fx.run(agent.execute(prompt).provide(_handlers()).provide(model.layer), backend=backend)
    return answer


def _tools(model: ScriptedModel) -> list[list[str]]:
    return [[tool.name for tool in request.tools] for request in model.requests]


SCRIPTS = st.lists(st.tuples(st.booleans(), st.sampled_from(names)), min_size=1, max_size=6)


@given(SCRIPTS, st.sampled_from(BACKENDS))
def test_found_tools_stay_and_each_break_is_recorded(script: list[tuple[bool, str]], backend: Backend) -> None:
    """A model can call exactly the tools that it received, and they only become more."""
    turns = [call("search_tools", {"query": name}) if finds else call(name, {}) for finds, name in script]
    model = ScriptedModel.make([*turns, text("Done.")])
    agent = Agent.make("finder", toolkit=kit, tool_search=ToolSearch(max_results=1, always=("search",)))
    answer = _run(agent, model, backend=backend)
    streamed = ScriptedModel.make([*turns, text("Done.")])
    fx.run(agent.stream("Go.").provide(_handlers()).provide(streamed.layer).drain(), backend=backend)
    found: list[str] = []
    for at, (finds, name) in enumerate(script):
        assert answer.steps[at].record.tools == ("search", "search_tools", *found)
        result = answer.steps[at].results[0]
        assert result.is_failure == (not finds and name not in found)
        if name not in found:
            found.append(name)  # also a tool that the model called without a search
    shown = _tools(model)
    breaks = [step.record.prefix_break for step in answer.steps]

    assert shown == _tools(streamed)
    assert shown[0] == ["search", "search_tools"]
    assert all(after[: len(before)] == before for before, after in itertools.pairwise(shown))
    assert breaks == [None, *["tools" if a != b else None for a, b in itertools.pairwise(shown)]]


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("provider", ["openai", "anthropic"])
def test_the_prefix_stays_at_a_provider_with_added_tools(provider: str, backend: Backend) -> None:
    """No step records a break, and the request of the provider starts with the same tools and messages."""
    facts = openai.facts("gpt-5.5") if provider == "openai" else anthropic.facts("claude-opus-5")
    turns = [call("search_tools", {"query": "report_7"}), call("report_7", {}), text("Done.")]
    model = ScriptedModel.make(turns, facts=facts)
    agent = Agent.make("finder", toolkit=kit, tool_search=ToolSearch(max_results=1, always=("search",)))
    answer = _run(agent, model, backend=backend)
    if provider == "openai":
        bodies: list[Any] = [openai.prepare_request(one, model="gpt-5.5").fields for one in model.requests]
        messages = [body["input"] for body in bodies]
    else:
        bodies = [anthropic.prepare_request(one, model="claude-opus-5").body for one in model.requests]
        messages = [body["messages"] for body in bodies]

    assert [step.record.prefix_break for step in answer.steps] == [None, None, None]
    assert [result.result for result in answer.steps[1].results] == ["report_7"]
    assert [[tool["name"] for tool in body["tools"]] for body in bodies] == [["search", "search_tools"]] * 3
    assert "report_7" in str(messages[1][len(messages[0]) :])
    assert len(str(messages[0])) < len(str(messages[1])) < len(str(messages[2]))


DOTTED = Toolkit.make(*[Tool.make(f"Report.no_{number}", success=str) for number in range(6)])
QUERIES = st.lists(st.sampled_from([*[tool.name for tool in DOTTED], "weather"]), min_size=1, max_size=5)
FORMS: list[tuple[str, Changes]] = [
    ("claude-sonnet-5", "auto"),
    ("claude-sonnet-5", "append"),
    ("claude-opus-5", "rewrite"),
]


@given(QUERIES, st.sampled_from(BACKENDS), st.sampled_from(FORMS))
def test_claude_receives_references_to_deferred_tools(
    queries: list[str], backend: Backend, form: tuple[str, Changes]
) -> None:
    """All requests have the same tools, their messages only grow, and each result refers to the found tools."""
    name, changes = form
    turns = [call("search_tools", {"query": query}) for query in queries]
    model = ScriptedModel.make([*turns, text("Done.")], facts=anthropic.facts(name))
    option = ToolSearch(max_results=1)
    agent = Agent.make("finder", toolkit=DOTTED, tool_search=option, changes=changes)
    handlers = Layer.merge_all(*[tool.handler(lambda _: Success("")) for tool in DOTTED])
    answer = fx.run(agent.execute("Go.").provide(handlers).provide(model.layer), backend=backend)
    bodies = [anthropic.prepare_request(one, model=name).body for one in model.requests]
    results = [block for one in bodies[-1]["messages"] for block in one["content"] if block["type"] == "tool_result"]

    assert [step.record.prefix_break for step in answer.steps] == [None] * len(bodies)
    assert {tool["name"] for tool in bodies[0]["tools"] if tool.get("defer_loading")} == {
        f"Report__no_{number}" for number in range(6)
    }
    for before, after in itertools.pairwise(bodies):
        assert before["tools"] == after["tools"]
        assert before["messages"] == after["messages"][: len(before["messages"])]
    for query, result in zip(queries, results, strict=True):
        if query == "weather":
            assert "No tool matches. 6 tools exist." in result["content"]
        else:
            assert result["content"] == [{"type": "tool_reference", "tool_name": query.replace(".", "__")}]
    assert not [one for prepared in model.requests for one in anthropic.prepare_request(prepared, model=name).warnings]


def test_a_found_tool_runs_and_another_provider_receives_its_name() -> None:
    """A call of a deferred tool runs. In a request to OpenAI, the tools are not deferred, and the result is data."""
    turns = [call("search_tools", {"query": "report_7"}), call("report_7", {}), text("Done.")]
    model = ScriptedModel.make(turns, facts=anthropic.facts("claude-sonnet-5"))
    answer = _run(Agent.make("finder", toolkit=kit, tool_search=ToolSearch(max_results=1)), model)
    body = openai.prepare_request(model.requests[-1], model="gpt-5.5").body
    (found, _) = [item["output"] for item in body["input"] if item.get("type") == "function_call_output"]

    assert answer.steps[1].results[0].result == "report_7"
    assert not [tool for tool in body["tools"] if tool.get("defer_loading")]
    assert '"name":"report_7"' in found


def test_a_custom_search_tool_finds_deferred_tools() -> None:
    """The annotation suffices. References name only deferred tools of the request, and a failure stays as it is."""
    listed = {"tools": [{"name": "report_1"}, {"name": "search"}, {"name": "gone"}, 3]}
    finder = Tool.make("find", success=dict[str, Any]).annotate(FindsTools, True)
    offered: list[Any] = [finder, search, *[tool.annotate(DeferLoading, True) for tool in reports]]

    def content(result: Any, *, is_failure: bool = False) -> Any:
        asked = Prompt.make("Go.").append(AssistantMessage.make(ToolCallPart("c", "find", {})))
        history = asked.append(ToolMessage.make(ToolResultPart("c", "find", result, is_failure)))
        body = anthropic.prepare_request(ModelRequest(history, tuple(offered)), model="claude-sonnet-5").body
        return body["messages"][-1]["content"][0]["content"]

    assert content(listed) == [{"type": "tool_reference", "tool_name": "report_1"}]
    assert content({"tools": [{"name": "gone"}]}) == '{"tools":[{"name":"gone"}]}'
    assert content("none") == "none"
    assert content(listed, is_failure=True).startswith('{"tools":')


def test_another_server_searches_with_changed_tools() -> None:
    """A model that another server hosts receives no deferred tools."""
    model = ScriptedModel.make(
        [call("search_tools", {"query": "report_7"}), text("Done.")], facts=anthropic.facts("glm-5")
    )
    answer = _run(Agent.make("finder", toolkit=kit, tool_search=ToolSearch(max_results=1)), model)

    assert _tools(model) == [["search_tools"], ["search_tools", "report_7"]]
    assert answer.steps[1].record.prefix_break == "tools"


def test_found_tools_stay_for_the_conversation() -> None:
    """The next run of a memory offers the found tool at once, and a call that waits for approval runs there."""
    secret = Tool.make("secret", description="A secret.", success=str, needs_approval=True)
    more = kit.merge(Toolkit.make(secret))
    agent = Agent.make("finder", toolkit=more, tool_search=ToolSearch(max_results=1)).with_memory(Memory.in_process())
    model = ScriptedModel.make([call("search_tools", {"query": "secret"}), call("secret", {}), text("Told.")])

    def run(prompt: Any) -> Any:
        layer = _handlers() | secret.handler(lambda _: Success("told")) | model.layer
        return fx.run(agent.execute(prompt).provide(layer))

    pending = run("Tell me.")
    answer = run(Prompt((ToolMessage.make(pending.pending[0].approve()),)))

    assert pending.ended == "pending"
    assert answer.text == "Told."
    assert _tools(model)[-1] == ["search_tools", "secret"]


def test_the_provider_can_search() -> None:
    """All other tools are deferred in each request, and any of them runs. Without facts, fxai searches itself."""
    agent = Agent.make("finder", toolkit=kit, tool_search=ToolSearch(always=("search",), hosted=openai.tool_search()))
    model = ScriptedModel.make([call("report_3", {}), text("Done.")], facts=openai.facts("gpt-5.5"))
    plain = ScriptedModel.make([text("Done.")])
    answer = _run(agent, model)
    _run(agent, plain)
    request = model.requests[0]

    assert answer.steps[0].results[0].result == "report_3"
    assert answer.steps[1].record.prefix_break is None
    assert [tool.name for tool in request.tools] == ["search", *names, "tool_search"]
    assert [tool.name for tool in request.tools if tool.get(DeferLoading)] == names
    assert _tools(plain) == [["search", "search_tools"]]


class Meaning(EmbeddingModel):
    """An embedding model that knows that income and report 9 mean the same, or that fails."""

    def __init__(self, *, fails: bool = False) -> None:
        self.asked: list[int] = []
        self._fails = fails

    def ask(self, texts: tuple[str, ...]) -> Effect[Embeddings, AiError]:
        """Return a vector for each text."""
        self.asked.append(len(texts))
        if self._fails:
            return fx.fail(AiError("Meaning", "embed", RateLimitError()))
        return fx.succeed(Embeddings(tuple(map(self._vector, texts))))

    def _vector(self, said: str) -> tuple[float, ...]:
        return (1.0, 0.0) if "income" in said or said.startswith("report_9:") else (0.1, 1.0)


@pytest.mark.parametrize("fails", [False, True])
def test_an_embedding_model_ranks_by_meaning(fails: bool) -> None:
    """The tools are embedded once. If the model fails, the words alone rank."""
    meaning = Meaning(fails=fails)
    option = ToolSearch(max_results=1, embedding=Layer.succeed(EmbeddingModel, meaning))
    agent = Agent.make("finder", toolkit=reports, tool_search=option)
    queries = [call("search_tools", {"query": query}) for query in ("income", "income", "report_4")]
    answer = _run(agent, ScriptedModel.make([*queries, text("Done.")]))
    found = [[one.name for one in step.results[0].result.tools] for step in answer.steps[:3]]

    assert found == [["report_9"], ["report_9"], ["report_4"]] if not fails else [[], [], ["report_4"]]
    assert meaning.asked == ([21, 21, 21] if fails else [21, 1, 1])


@pytest.mark.parametrize(("least", "count"), [(0.0, 5), (0.5, 0)])
def test_a_minimum_similarity_makes_an_empty_result_possible(least: float, count: int) -> None:
    """No tool has the words of the query, and the similarity of each tool is 0.1."""
    others = Toolkit.make(*[tool for tool in reports if tool.name != "report_9"])
    layer = Layer.succeed(EmbeddingModel, Meaning())
    agent = Agent.make("finder", toolkit=others, tool_search=ToolSearch(embedding=layer, min_similarity=least))
    answer = _run(agent, ScriptedModel.make([call("search_tools", {"query": "income"}), text("Done.")]))
    result = answer.steps[0].results[0].result

    assert len(result.tools) == count
    assert result.note.startswith("No tool matches.") == (count == 0)


@pytest.mark.parametrize("least", [-1.1, 2.0, float("nan")])
def test_a_minimum_similarity_is_a_cosine(least: float) -> None:
    """Other numbers have an error that names the limits."""
    with pytest.raises(ValueError, match="min_similarity must be from -1 to 1, got"):
        ToolSearch(min_similarity=least)


def test_no_match_is_a_result_that_says_so() -> None:
    """The model reads the number of the tools, and a required tool is in the request without a search."""
    model = ScriptedModel.make([call("search_tools", {"query": "weather"}), text("None.")])
    answer = _run(Agent.make("finder", toolkit=kit, tool_search=ToolSearch(), tool_choice="auto"), model)
    chosen = ScriptedModel.make([call("report_3", {}), text("Done.")])
    one = ToolChoice.tool("report_3")
    _run(Agent.make("finder", toolkit=kit, tool_search=ToolSearch(), tool_choice=one), chosen)

    assert answer.steps[0].results[0].result.note == "No tool matches. 21 tools exist. Search again with other words."
    assert _tools(chosen) == [["report_3", "search_tools"]] * 2


def test_a_resumed_run_offers_the_found_tools() -> None:
    """The journal contains the results of the search, so the index is not asked again."""

    class Crash(BaseException):
        """Stands for the end of the process."""

    crashes = [True]

    def handle(_: object) -> Any:
        if crashes:
            raise Crash
        return Success("done")

    work = Tool.make("work", success=str).annotate(Idempotent, True)
    agent: Any = Agent.make("finder", toolkit=Toolkit.make(work, search), tool_search=ToolSearch(always=("search",)))
    store, turns = Runs.in_process(), [call("search_tools", {"query": "work"}), call("work", {}), text("Done.")]

    def run(model: ScriptedModel) -> Any:
        layer = work.handler(handle) | search.handler(lambda _: Success("")) | model.layer
        return fx.run(agent.execute("Go.").provide(durable(layer, run="r", store=store)))

    with pytest.raises(Crash):
        run(ScriptedModel.make(turns[:2]))
    crashes.clear()
    model = ScriptedModel.make(turns[2:])

    assert run(model).text == "Done."
    assert _tools(model) == [["search", "search_tools", "work"]]


def test_wrong_options_are_refused() -> None:
    """Each error names the wrong value and the remedy."""
    wrong: Any = True
    wrong_names: Any = "search"
    with pytest.raises(ValueError, match=r"has no tool 'serch' \(did you mean 'search'\?\)\. Correct `always`"):
        _ = Agent.make("a", toolkit=kit, tool_search=ToolSearch(always=("serch",))).execute("Go.")
    with pytest.raises(ValueError, match="has its own tool 'search'"):
        _ = Agent.make("a", toolkit=kit, tool_search=ToolSearch(name="search")).execute("Go.")
    with pytest.raises(TypeError, match="tool_search must be a ToolSearch, got True"):
        Agent.make("a", toolkit=kit, tool_search=wrong)
    with pytest.raises(ValueError, match="max_results must be at least 1, got 0"):
        ToolSearch(max_results=0)
    with pytest.raises(TypeError, match="always must be names of tools, got 'search'"):
        ToolSearch(always=wrong_names)
    with pytest.raises(ValueError, match="hosted must be a search tool of a provider, got 'search'"):
        ToolSearch(hosted=search)
