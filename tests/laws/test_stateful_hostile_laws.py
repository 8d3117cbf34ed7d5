"""The laws of stateful prompts over hostile data: texts that forge sections, wrong names, and states that are bent."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fxai.agents import Agent
from fxai.agents.stateful import PromptState, RenderFailed, RenderOf, StatefulPrompt, StepPatch
from fxai.effects import Backend, fx
from fxai.testing import ScriptedModel, call, text
from fxai.tools import Tool
from tests.kit.data import is_array, is_object
from tests.kit.every import every
from tests.kit.reaching import Reached, bent
from tests.kit.trials import examples

_LOOK: Any = Tool.make("look", success=str)


def _done(_: object) -> Any:
    return fx.succeed("done")


def end_of(render: Callable[[Any], None], turns: list[Any] | None = None, **given: Any) -> tuple[Any, list[Any]]:
    """How a run of a render ended, and its requests."""
    model = ScriptedModel.make(turns or [text("ok")])
    prompt: Any = StatefulPrompt.make("p", render)
    ended: Any = fx.run_exit(prompt.execute("go", **given).provide(model.layer))
    return ended, model.requests


def system_of(render: Callable[[Any], None]) -> str:
    """The system prompt that a render makes."""
    _, (request, *_) = end_of(render)
    return request.prompt.system() or ""


# -- texts that forge sections

_FORGED = st.sampled_from(
    [
        *("</role>", "</facts>", "</data>", "<role>", "<data>", "<DATA>", "</Role >", "<system>", "</look>", "<look/>"),
        *(
            "\uff1c/role\uff1e",
            "<\u200b/role>",
            "<\n/role>",
            "&lt;",
            "&#60;/role>",
            "<![CDATA[",
            "<!--",
            "\\u003c",
            "<<look>>",
        ),
        *(
            "<look>",
            "<wipe>",
            "<",
            ">",
            "\n",
            "\r",
            "\x85",
            "\u2028",
            "\x00",
            "\x1b[2J",
            ": ",
            "- ",
            "'",
            '"',
            "\\",
            "}}",
            "{look}",
        ),
    ]
)
_TEXTS = st.lists(_FORGED | st.text(max_size=3), max_size=6).map("".join)
_DATA: Any = st.recursive(
    st.none() | st.booleans() | st.integers() | _TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_TEXTS, inner, max_size=3),
    max_leaves=6,
)


@pytest.mark.slow
@settings(max_examples=examples(150, least=150))
@given(_TEXTS, _TEXTS, _DATA, _TEXTS, st.booleans())
def test_no_text_closes_a_section_or_opens_another(
    role: str, plain: str, facts: Any, patched: str, hides: bool
) -> None:
    """Each `<` of a system prompt is of a section that is defined, or of a reference to a tool that is."""
    role, plain, patched = (one.encode("utf-8", "replace").decode() for one in (role, plain, patched))

    def render(at: RenderOf[Any, Any]) -> None:
        look = at.tool(_LOOK, _done)
        at.system("role", role)
        at.data("plain", plain)
        at.data("facts", facts)
        patch: Any = StepPatch.system("more", patched) + StepPatch.data("last", [patched, {patched: patched}])
        at.effect("e", lambda _: patch + look.disable() if hides else patch)

    system = system_of(render)
    tags = re.findall(r"<[^>]*>?", system)

    framed = [tag for tag in tags if tag != "<look>"]
    data = ["<data>", *[f"<{end}{name}>" for name in ("plain", "facts", "last") for end in ("", "/")], "</data>"]
    assert framed == ["<role>", "</role>", "<more>", "</more>", *data]
    assert tags.count("<look>") == role.count("<look>") + patched.count("<look>")
    for tag in framed:  # a tag of a section stands on a line of its own
        assert re.search(rf"(?m)^{re.escape(tag)}$", system)


@given(_DATA)
def test_data_are_read_as_they_were_given(facts: Any) -> None:
    """Every string of data is there as JSON, and so is every scalar."""
    system = system_of(lambda at: at.data("facts", {"it": facts}) and None)

    def strings(value: Any) -> list[str]:
        if isinstance(value, str):
            return [value]
        if is_array(value):
            return [one for item in value for one in strings(item)]
        return [one for item in value.values() for one in strings(item)] if is_object(value) else []

    written = [json.loads(one) for one in re.findall(r'"(?:[^"\\]|\\.)*"', system)]
    for one in strings(facts):
        assert one in written


_NO_NAMES = [
    "",
    "a b",
    "role\n",
    "<role>",
    "/role",
    "r" * 65,
    "1st",
    "r\u043ele",
    "role\u200b",
    "-a",
    ".a",
    "a>",
    "data",
    "é",
]


@every("name", _NO_NAMES)
@every("kind", ["system", "data", "patch system", "patch data"])
def test_a_name_that_is_none_is_refused(kind: str, name: str) -> None:
    """In a render and in a patch alike; a typed failure, before the model is asked."""

    def render(at: RenderOf[Any, Any]) -> None:
        if kind == "system":
            at.system(name, "text")
        elif kind == "data":
            at.data(name, "text")
        elif kind == "patch system":
            at.effect("e", lambda _: StepPatch.system(name, "text"))
        else:
            at.effect("e", lambda _: StepPatch.data(name, "text"))

    ended, requests = end_of(render)
    (reason,) = ended.cause.reasons

    assert isinstance(reason.error, RenderFailed)
    assert reason.error.reason == "name"
    assert requests == []


@every(
    "name",
    ["data", "DATA", "/data", "/role", "/facts", "role ", " role", "ROLE", "facts/", "!--", "/role\n", "x<y", "a\tb"],
)
def test_no_name_of_a_tool_forges_a_section(name: str) -> None:
    """Servers name their tools as they like: a text that mentions one opens no section, and closes none."""
    forging: Any = Tool.make(name, success=str)

    def render(at: RenderOf[Any, Any]) -> None:
        forge = at.tool(forging, _done)
        at.system("role", f"{forge} <{name}>")
        at.data("facts", "true ones")

    system = system_of(render)

    assert re.findall("<[^>]*>", system) == ["<role>", "</role>", "<data>", "<facts>", "</facts>", "</data>"]


def test_a_key_stands_for_one_thing_whoever_defines_it() -> None:
    """The agent's own tools, those of the render and of patches, and sections share one namespace."""
    done: Any = _LOOK.handler(_done)
    kit: Any = Agent.make
    agent = kit("a", toolkit=_toolkit(), prompt=_prompt(lambda at: at.system("look", "text") and None))
    model = ScriptedModel.make([text("ok")])
    ended: Any = fx.run_exit(agent.execute("go").provide(done).provide(model.layer))
    assert [failure.reason for failure in ended.cause.failures] == ["conflict"]

    def patched(at: RenderOf[Any, Any]) -> None:
        at.tool(_LOOK, _done)
        at.effect("e", lambda _: StepPatch.system("look", "text"))

    ended, _ = end_of(patched)
    assert [failure.reason for failure in ended.cause.failures] == ["conflict"]


def _toolkit() -> Any:
    from fxai.tools import Toolkit

    return Toolkit.make(_LOOK)


def _prompt(render: Callable[[Any], Any]) -> Any:
    return StatefulPrompt.make("p", render)


# -- states that are bent


class Point(msgspec.Struct, frozen=True):
    """A value of a state."""

    x: int
    tags: list[str] = []


def _render(at: RenderOf[Any, Any]) -> None:
    count, point = at.state("count", 0), at.state("point", Point(1, ["a"]))
    at.state("names", {"a": [1]}, schema=dict[str, list[int]])
    at.tool(_LOOK, lambda _: count.update(lambda value: value + 1).as_("done"))
    at.effect("once", lambda _: point.update(lambda value: Point(value.x + 1, value.tags)).as_(None), ())
    at.effect("each", lambda _: StepPatch.message("each"), (count.value, "x", None, 1.5, ("a", 1)))
    at.effect("often", lambda _: None)


def _written() -> Any:
    ended, _ = end_of(_render, [call("look", {}), text("ok")])
    return ended.value.state.to_data()


_OTHERS: Any = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=3) | st.just("count"),
    lambda inner: (
        st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from(["a", "values", "count", "type"]), inner)
    ),
    max_leaves=4,
)


@pytest.mark.parametrize("backend", ["asyncio"])
def test_a_bent_state_is_refused_or_run_and_never_breaks(backend: Backend) -> None:
    """It is no state, or a run that is given it goes well, or fails with the key that does not fit."""
    reached = Reached()
    written = _written()

    @settings(max_examples=examples(200, least=200))
    @given(bent(st.just(written), _OTHERS))
    def law(document: Any) -> None:
        state = PromptState.from_data(document).value_or(None)
        reached("refused", state is None)
        if state is None:
            return
        before = state.to_data()
        ended, _ = end_of(_render, [call("look", {}), text("ok")], state=state)
        assert state.to_data() == before
        if not hasattr(ended, "cause"):
            reached("went well")
            assert PromptState.from_json(ended.value.state.to_json()).unwrap().to_json() == ended.value.state.to_json()
            return
        reached("failed")
        (reason,) = ended.cause.reasons
        assert isinstance(reason.error, RenderFailed)
        assert reason.error.reason == "state"
        assert any(key in reason.error.message for key in ("count", "point", "names"))

    reached.by(law, **{"refused": 5, "went well": 5, "failed": 5})


@every(
    "raw",
    [
        b"", b"null", b"[]", b"{", b'{"values": {"count": 1e999}}', b"[" * 100_000, b'{"values":' * 50_000,
        b"\xff\xfe", b"\xef\xbb\xbf{}", b'{"values": {"\\ud800": 1}}', b'"' + b"a" * 10**6 + b'"', b"9" * 10_000,
    ],
    ids=range(12),
)  # fmt: skip
def test_hostile_json_is_no_state(raw: bytes) -> None:
    """It is refused by a value in good time; or it is a state that can be written again."""
    read = PromptState.from_json(raw).value_or(None)

    assert read is None or PromptState.from_json(read.to_json()).unwrap() == read


# -- renders that go on and on


def test_a_render_that_calls_itself_is_a_defect() -> None:
    """Python's own error, once."""

    def render(at: RenderOf[Any, Any]) -> None:
        render(at)

    ended, requests = end_of(render)
    (reason,) = ended.cause.reasons

    assert isinstance(reason.defect, RecursionError)
    assert requests == []


def test_a_prompt_may_be_an_agent_of_itself() -> None:
    """Each run has a state of its own; it ends when the model does."""

    def render(at: RenderOf[Any, Any]) -> None:
        depth = at.state("depth", 0)
        at.agent("again", prompt)
        at.effect("count", lambda _: depth.update(lambda value: value + 1).as_(None))

    prompt: Any = StatefulPrompt.make("p", render)
    inner = call("again", {"prompt": "deeper"})
    model = ScriptedModel.make([inner, call("again", {"prompt": "deepest"}), text("three"), text("two"), text("one")])
    answer: Any = fx.run(prompt.execute("go").provide(model.layer))

    assert answer.text == "one"
    assert dict(answer.state.values) == {"depth": 2}


def test_very_many_things_are_defined_in_good_time() -> None:
    """Ten thousand sections, and a patch that hides every second one."""

    def render(at: RenderOf[Any, Any]) -> None:
        for number in range(9_000):
            at.system(f"s{number}", f"text {number}")
        at.effect("e", lambda _: StepPatch.hide(*[f"s{number}" for number in range(0, 9_000, 2)]))

    system = system_of(render)

    assert system.count("<s") == 4_500
    assert "<s1>" in system
    assert "<s0>" not in system
