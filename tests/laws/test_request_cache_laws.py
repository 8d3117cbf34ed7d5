"""A request that goes on from earlier ones is the request that is made anew, byte by byte, whatever was said."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fxai.annotations import Strict
from fxai.messages import (
    AssistantMessage,
    FilePart,
    Message,
    Prompt,
    ReasoningPart,
    SystemMessage,
    TextPart,
    ToolApprovalResponsePart,
    ToolCallPart,
    ToolMessage,
    ToolResultPart,
    UserMessage,
)
from fxai.messages.reason import ReasonBase
from fxai.models import ModelRequest, PreparationError, ToolChoice
from fxai.models.request_cache import RequestCache
from fxai.providers import anthropic, openai
from fxai.providers.anthropic import prepare_request as prepare_anthropic
from fxai.providers.openai import prepare_request as prepare_openai
from fxai.tools import Tool
from tests.kit.every import every
from tests.kit.foreign_histories import histories
from tests.kit.reaching import Reached
from tests.kit.trials import examples

_PARAMS: dict[str, Any] = {"type": "object", "properties": {"a": {"type": ["integer", "null"]}}}
_add = Tool.dynamic("kit.add", parameters=_PARAMS)
# Tools that differ in what is sent and have a name in common, and the providers' own.
TOOLS: list[tuple[Any, ...]] = [
    (),
    (_add,),
    (_add.annotate(Strict, False),),
    (Tool.dynamic("kit.add", parameters=_PARAMS, description="Adds."), openai.shell(), openai.custom("sql")),
    (_add, anthropic.bash(), anthropic.web_search(), anthropic.computer_toolset()),
]
IDS = st.sampled_from([*(f"c{number}" for number in range(6)), "call|1"])
NAMES = st.sampled_from(["kit.add", "kit.add", "gone", "shell", "sql", "bash"])
JSON: st.SearchStrategy[Any] = st.sampled_from(
    [None, 1, "text", {"a": 1}, {"a": None}, [], [{"type": "text", "text": "t"}]]
)
MARKS: st.SearchStrategy[dict[str, Any]] = st.sampled_from(
    [
        *(
            {},
            {},
            {},
            {"openai": {"id": "i1"}},
            {"openai": {"async": True}},
            {"openai": {"type": "mcp_approval_request"}},
        ),
        *(
            {"openai": {"type": "shell_call"}},
            {"openai": {"id": "i2", "phase": "final"}},
            {"openai": {"refusal": True}},
        ),
        *({"anthropic": {"signature": "s"}}, {"anthropic": {"cache_control": {"type": "ephemeral"}}}),
        *({"anthropic": {"container": "box"}}, {"anthropic": {"type": "server_tool_use"}}),
    ]
)
PICTURE = {"type": "file", "media_type": "image/png", "data": "aGk="}
texts = st.builds(TextPart, st.sampled_from(["", " ", "Hello. "]), metadata=MARKS)
files = st.builds(
    FilePart,
    st.sampled_from(["image/png", "application/pdf", "audio/wav", "video/mp4"]),
    st.just(b"hi"),
    metadata=MARKS,
)


@st.composite
def turns(draw: st.DrawFn) -> list[Message]:
    """What is said next: mostly as it should be, now and then with a call or a result too many."""
    kind = draw(st.sampled_from(["user", "system", "calls", "calls", "calls", "said", "odd"]))
    if kind == "user":
        return [UserMessage.make(*draw(st.lists(texts | files, min_size=1, max_size=2)))]
    if kind == "system":
        return [SystemMessage(draw(st.sampled_from(["Be brief.", " "])), metadata=draw(MARKS))]
    if kind == "said":
        parts = st.lists(texts | st.builds(ReasoningPart, st.just("Hm."), metadata=MARKS) | files, max_size=3)
        return [AssistantMessage.make(*draw(parts))]
    if kind == "odd":
        hosted = st.builds(ToolCallPart, IDS, NAMES, JSON, st.booleans(), metadata=MARKS)
        denied = st.builds(ToolApprovalResponsePart, IDS, st.booleans())
        one = st.one_of(
            hosted.map(AssistantMessage.make), denied.map(ToolMessage.make), _results(draw(IDS)).map(ToolMessage.make)
        )
        return [draw(one)]
    ids = draw(st.lists(IDS, min_size=1, max_size=2, unique=draw(st.booleans())))
    calls = [ToolCallPart(id_, draw(NAMES), draw(JSON), metadata=draw(MARKS)) for id_ in ids]
    return [AssistantMessage.make(*calls), ToolMessage.make(*[draw(_results(id_)) for id_ in ids])]


def _results(id_: str) -> st.SearchStrategy[ToolResultPart]:
    shown = JSON | st.just([PICTURE]) | st.just([{**PICTURE, "media_type": "video/mp4"}])
    return st.builds(ToolResultPart, st.just(id_), NAMES, shown, st.booleans(), metadata=MARKS)


@st.composite
def conversations(draw: st.DrawFn) -> list[ModelRequest]:
    """Requests of a conversation that grows, and of others that branch from it, in any order."""
    prompts = [Prompt([UserMessage.make("Go.")])]
    for _ in range(draw(st.integers(1, 7))):
        before = draw(st.sampled_from([prompts[-1], prompts[-1], prompts[-1], *prompts]))
        prompts.append(before.extend(draw(turns())))
    kit = draw(st.sampled_from(TOOLS))
    others = st.sampled_from([kit, kit, kit, *TOOLS])
    choices: Any = st.sampled_from(["auto", "auto", "none", ToolChoice.one_of(["kit.add"])])
    return [ModelRequest(prompt, draw(others), draw(choices)) for prompt in prompts]


class _Watched:
    """A small cache that counts what is taken from it."""

    def __init__(self) -> None:
        self._cache = RequestCache[Any, Any](most_histories=4)
        self.tools, self.keep = self._cache.tools, self._cache.keep
        self.resumed = 0
        self.from_between = False

    def take(self, prompt: Prompt, tools: object) -> Any:
        """As the cache."""
        found = self._cache.take(prompt, tools)
        self.resumed += found is not None
        self.from_between |= found is not None and 1 < found[1] < len(prompt)
        return found


def _openai(request: ModelRequest, api: Any, cache: Any) -> Any:
    sent = prepare_openai(request, model="gpt-5.5", api=api, cache=cache)
    assert sent.encoded == msgspec.json.encode(sent.fields)  # the stored text is the text of the plain items
    return sent.encoded, sent.warnings, sent.offer, sent.fields


def _anthropic(request: ModelRequest, model: Any, cache: Any) -> Any:
    sent = prepare_anthropic(request, model=model, cache=cache)
    assert msgspec.json.encode(sent.body) == sent.encoded
    return sent


def _outcome(prepare: Callable[..., Any], request: ModelRequest, wire: str, cache: Any) -> Any:
    try:
        return prepare(request, wire, cache)
    except PreparationError as error:
        return error.reason


WIRES: list[tuple[Callable[..., Any], str]] = [
    *((_openai, "responses"), (_openai, "chat")),
    *((_anthropic, "claude-sonnet-5"), (_anthropic, "claude-opus-4-8")),
]


def _call(id_: str, name: str = "kit.add", **metadata: Any) -> AssistantMessage:
    return AssistantMessage.make(ToolCallPart(id_, name, {"a": 1}, metadata=metadata))


def _result(id_: str, result: Any = 1) -> ToolMessage:
    return ToolMessage.make(ToolResultPart(id_, "kit.add", result))


USER, SYSTEM = UserMessage.make("Go."), SystemMessage("Be brief.")
# What is said first, and what behind it changes how that is sent where everything is written anew.
TURNS: dict[str, tuple[list[Message], list[Message]]] = {
    "another call with the same id": ([USER, _call("c"), _result("c")], [_call("c", "sql"), _result("c")]),
    "a call behind its result": ([USER, _result("c")], [_call("c", "sql"), USER]),
    "a result that was waited for": (
        [USER, _call("c", openai={"async": True}), USER],
        [USER, _result("c")],
    ),
    "the second result of one id": ([USER, _call("c"), _result("c"), _call("c"), USER], [_result("c", 2), USER]),
    "a system message that ends no turn": ([USER, SYSTEM], [USER]),
    "a system message at the front": ([SYSTEM], [SYSTEM, USER]),
    "a text that ends in space": ([USER, AssistantMessage.make("Well ")], [AssistantMessage.make("then "), USER]),
    "more of the same role": ([USER], [UserMessage.make("And now?"), USER]),
}


@every(("prepare", "wire"), WIRES)
@every("case", TURNS)
def test_what_comes_later_may_change_what_was_sent(prepare: Callable[..., Any], wire: str, case: str) -> None:
    """Then all is written anew; that goes for the request after it as well."""
    first, later = TURNS[case]
    cache = RequestCache[Any, Any]()
    for prompt in (Prompt(first), Prompt([*first, *later]), Prompt([*first, *later, USER]), Prompt(first)):
        request = ModelRequest(prompt, TOOLS[3])

        assert _outcome(prepare, request, wire, cache) == _outcome(prepare, request, wire, None)


@pytest.mark.parametrize(("prepare", "wire"), WIRES)
def test_histories_that_end_alike_are_told_apart(prepare: Callable[..., Any], wire: str) -> None:
    """They have as many messages, the last of them the very same, and differ before it."""
    cache = RequestCache[Any, Any]()
    for first in ("One.", "Two."):
        request = ModelRequest(Prompt([UserMessage.make(first), USER]), TOOLS[3])

        assert _outcome(prepare, request, wire, cache) == _outcome(prepare, request, wire, None)


@pytest.mark.slow
def test_a_request_that_goes_on_is_the_one_made_anew() -> None:
    """Over histories that grow and branch, with calls and results as they should be and not, and tools that change."""
    reached = Reached()

    @settings(max_examples=examples(150, least=150))
    @given(conversations(), st.sampled_from(WIRES))
    def law(requests: list[ModelRequest], wire: tuple[Callable[..., Any], str]) -> None:
        prepare, name = wire
        cache = _Watched()
        for request in requests:
            anew = _outcome(prepare, request, name, None)

            assert _outcome(prepare, request, name, cache) == anew
            reached("refused" if isinstance(anew, ReasonBase) else "sent")
        reached("resumed", cache.resumed > 0)
        reached("from_between", cache.from_between)

    reached.by(law, sent=200, refused=50, resumed=100, from_between=10)


@pytest.mark.parametrize(("prepare", "wire"), WIRES)
def test_a_foreign_history_that_grows_has_the_same_form(prepare: Callable[..., Any], wire: str) -> None:
    """A request that continues earlier requests is the request that fxai makes from the whole history."""
    reached = Reached()

    @settings(max_examples=examples(60))
    @given(histories(), st.lists(st.integers(1, 12), max_size=3))
    def law(prompt: Prompt, cuts: list[int]) -> None:
        cache = _Watched()
        for length in (*sorted(cuts), len(prompt)):
            request = ModelRequest(Prompt(prompt.messages[:length]), TOOLS[3])
            found = _outcome(prepare, request, wire, cache)

            assert found == _outcome(prepare, request, wire, None)
            reached("refused" if isinstance(found, ReasonBase) else "sent")
        reached("resumed", cache.resumed > 0)

    reached.by(law, sent=20, refused=5, resumed=5)
