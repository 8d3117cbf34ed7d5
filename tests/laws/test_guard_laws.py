"""The laws of guards: a guard that allows changes nothing, a refusal stops, and composition is associative."""

from __future__ import annotations

from typing import Any, Literal, cast

from hypothesis import given
from hypothesis import strategies as st
from returns.result import Failure, Result, Success

from fxai import Agent, Tool, Toolkit, fx
from fxai.effects import LayerOf
from fxai.guards import Guard, Refuse, rewrite_text
from fxai.messages import Response, Text
from fxai.models import ModelRequest
from fxai.testing import ScriptedModel, call, text
from fxai.tools.aspects import Invocation, Return

BACKENDS = st.sampled_from(["asyncio", "trio"])
MODES = st.sampled_from(["hold", "pass"])
VERDICTS = st.sampled_from(["allow", "effect", "refuse", "fail", "change"])

one = Tool.make("one", parameters=int, success=int, failure=str, failure_mode="return")
two = Tool.make("two", parameters=int, success=int, failure=str)
KIT: Toolkit[Any] = Toolkit.make(one, two)
LINES: list[str] = []


def _handler(n: int) -> Result[int, str]:
    LINES.append(f"handler({n})")
    return Failure("odd") if n % 2 else Success(n // 2)


def _handlers() -> LayerOf[Any, Any, None]:
    return one.handler(_handler) | two.handler(_handler)


def _verdict(kind: str, label: str, changed: Any) -> Any:
    LINES.append(label)
    match kind:
        case "refuse":
            return Refuse(label)
        case "fail":
            return fx.fail(label)
        case "effect":
            return fx.succeed(None)
        case "change":
            return Return(changed)
        case _:
            return None


@st.composite
def guards(draw: st.DrawFn, verdicts: st.SearchStrategy[str] = VERDICTS) -> Guard[None]:
    """A guard with any hooks, each of which has one verdict. A passing guard changes nothing."""
    label = draw(st.text("abc", min_size=1, max_size=2))
    streaming: Any = draw(MODES)

    def of_request(request: ModelRequest) -> Any:
        changed = rewrite_text(request, lambda one: f"{label}:{one}")
        return _verdict(kinds["before_model"], f"{label}.before_model", changed)

    def of_turn(request: ModelRequest, turn: Response) -> Any:
        changed = rewrite_text(turn, lambda one: f"{label}:{one}")
        kind = kinds["after_model"]
        return _verdict("allow" if streaming == "pass" and kind == "change" else kind, f"{label}.after_model", changed)

    def of_call(call: Invocation) -> Any:
        return _verdict(kinds["before_tool"], f"{label}.before_tool({call.params})", call.params + 2)

    def of_result(call: Invocation, result: Result[int, str]) -> Any:
        changed = result.map(lambda n: n + 10)
        return _verdict(kinds["after_tool"], f"{label}.after_tool({result})", changed)

    hooks: dict[str, Any] = {
        "before_model": of_request,
        "after_model": of_turn,
        "before_tool": of_call,
        "after_tool": of_result,
    }
    kinds = {name: draw(verdicts) for name in hooks}
    chosen: Any = {name: hooks[name] for name in draw(st.sets(st.sampled_from(sorted(hooks)), min_size=1))}
    made: Guard[None] = Guard.make(label, **chosen, streaming=streaming)
    return made


@st.composite
def worlds(draw: st.DrawFn) -> dict[str, Any]:
    """A script of a model, and the way to run it."""
    name, number = draw(st.sampled_from(["one", "two"])), draw(st.integers(0, 4))
    script = [(text("I call."), call(name, number)), text(draw(st.text(max_size=5)))]
    return {"script": script, "is_stream": draw(st.booleans()), "backend": draw(BACKENDS)}


def _run(guard: Guard[None] | None, world: dict[str, Any], *, twice: Guard[None] | None = None) -> Any:
    """Return the exit or the parts of a run, the lines of its hooks and handlers, and the requests to the model."""
    LINES.clear()
    scripted = ScriptedModel.make(world["script"])
    live: Any = scripted.layer | _handlers()
    live = live if twice is None else twice.wrap(live)
    live = live if guard is None else guard.wrap(live)
    agent, backend = Agent.make("clerk", toolkit=KIT), cast(Literal["asyncio", "trio"], world["backend"])
    parts: list[Any] = []
    if world["is_stream"]:
        stream = agent.stream("Go.").provide(live)
        ended: Any = fx.run_exit(stream.for_each(_reader(parts)), backend=backend)
    else:
        ended = fx.run_exit(agent.execute("Go.").provide(live), backend=backend)
    return ended, parts, list(LINES), [request.prompt for request in scripted.requests]


def _reader(parts: list[Any]) -> Any:
    def read(part: object) -> Any:
        return fx.sync(lambda: parts.append(part))

    return read


@given(guards(st.sampled_from(["allow", "effect"])), worlds())
def test_a_guard_that_allows_changes_nothing(guard: Guard[None], world: dict[str, Any]) -> None:
    """The run has the same exit, parts, handlers, and requests as a run without the guard."""
    plain, guarded = _run(None, world), _run(guard, world)

    assert guarded[:2] == plain[:2]
    assert [line for line in guarded[2] if line.startswith("handler")] == plain[2]
    assert guarded[3] == plain[3]


@given(guards(), guards(), guards(), worlds())
def test_composition_is_associative(a: Guard[None], b: Guard[None], c: Guard[None], world: dict[str, Any]) -> None:
    """Both groupings are equal values and equal runs."""
    left, right = a.and_then(b).and_then(c), a.and_then(b.and_then(c))

    assert left == right
    assert left.aspect == right.aspect
    assert hash(left) == hash(right)
    assert _run(left, world) == _run(right, world)


@given(guards(), guards(), worlds())
def test_to_compose_is_to_wrap_twice(outer: Guard[None], inner: Guard[None], world: dict[str, Any]) -> None:
    """A combination equals the outer guard around the layer that the inner guard wrapped."""
    assert _run(outer.and_then(inner), world) == _run(outer, world, twice=inner)


@given(guards(), worlds())
def test_the_empty_guard_is_neutral(guard: Guard[None], world: dict[str, Any]) -> None:
    """The empty guard changes no combination and no run."""
    assert guard.and_then(Guard.empty()) == Guard.empty().and_then(guard) == guard
    assert _run(Guard.empty(), world) == _run(None, world)


def _judge(at: int, kind: str) -> Any:
    def judge(call: Invocation) -> Any:
        return _verdict(kind, f"guard {at}", call.params)

    return judge


@given(st.integers(0, 9), st.lists(VERDICTS, min_size=1, max_size=4))
def test_a_refusal_stops_the_handler_and_the_inner_guards(n: int, kinds: list[str]) -> None:
    """The handler runs if and only if no guard refuses, and no guard after the refusal judges."""
    LINES.clear()
    whole: Guard[None] = Guard.empty()
    for at, kind in enumerate(kinds):
        whole = whole.and_then(Guard.make(f"g{at}", before_tool=_judge(at, kind)))
    outcome = fx.run(KIT.call("one", n).provide(whole.wrap(_handlers())))
    refusing = next((at for at, kind in enumerate(kinds) if kind in ("refuse", "fail")), None)

    judged = len(kinds) if refusing is None else refusing + 1
    assert [f"guard {at}" for at in range(judged)] + ([f"handler({n})"] if refusing is None else []) == LINES
    assert (outcome.encoded_result["guard"] if refusing is not None else None) == (
        None if refusing is None else f"g{refusing}"
    )


@given(st.text(max_size=20), st.lists(st.text(max_size=5), max_size=4), MODES, BACKENDS)
def test_nothing_of_a_held_turn_leaves(reason: str, texts: list[str], streaming: Any, backend: Any) -> None:
    """The refusal states exactly the number of characters that the reader received, which is 0 for a held turn."""
    scripted = ScriptedModel.make([tuple(map(text, texts)) or text("")])
    guard = Guard.make("g", after_model=lambda _, turn: Refuse(reason), streaming=streaming)
    read: list[Any] = []
    stream = Agent.make("clerk").stream("Go.").provide(guard.wrap(scripted.layer))
    ended: Any = fx.run_result(stream.for_each(_reader(read)), backend=backend)
    failure = ended.failure()
    left = Response.from_stream(read).text

    assert failure.reason.sent == len(left)
    assert left == ("" if streaming == "hold" else "".join(texts))
    assert failure.reason.description == reason


@given(st.lists(st.text(max_size=5), max_size=4))
def test_rewrite_text_applies_to_each_text(texts: list[str]) -> None:
    """Rewriting by two functions equals rewriting by their composition."""
    response = Response(tuple(map(Text, texts)))

    def quote(one: str) -> str:
        return f"<{one}>"

    twice = rewrite_text(rewrite_text(response, str.upper), quote)
    assert twice == rewrite_text(response, lambda one: quote(one.upper()))
    assert rewrite_text(response, lambda one: one) is response
