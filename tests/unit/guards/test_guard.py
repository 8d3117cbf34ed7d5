"""Guards refuse or change what a model and its tools receive and return, and never allow by mistake."""

from __future__ import annotations

from typing import Any, Literal, cast

import pytest
from returns.result import Failure, Result, Success

from fxai import Agent, LanguageModel, Tool, Toolkit, fx
from fxai.agents import RunFailed, usage_of
from fxai.durable import Runs, durable
from fxai.effects import Stream
from fxai.guards import Guard, Refuse, rewrite_text
from fxai.messages import AiError, GuardRefusalError, Prompt, Response, Text, ToolCall, Usage
from fxai.models import ModelRequest
from fxai.testing import ScriptedModel, call, finish, text
from fxai.tools import Outcome, Refused
from fxai.tools.aspects import Invocation, Return
from fxai.ui import StreamOptions, encode_stream
from tests.kit.traces import Traces

Backend = Literal["asyncio", "trio"]

fetch = Tool.make("fetch", parameters=str, success=str, failure=str, failure_mode="return")
strict = Tool.make("strict", parameters=str, success=str, failure=str)
KIT = Toolkit.make(fetch, strict)


class Journal:
    """The arguments of each handler that ran."""

    def __init__(self) -> None:
        self.ran: list[str] = []

    def handler(self, page: str) -> Result[str, str]:
        """Return the page, or a failure."""
        self.ran.append(page)
        return Failure("evil error") if page == "fail" else Success(f"page {page}")

    @property
    def layer(self) -> Any:
        """Both handlers."""
        return fetch.handler(self.handler) | strict.handler(self.handler)


def _no_evil(name: str, **hooks: str) -> Guard:
    """A guard whose hooks refuse everything that contains a word."""

    def judge(word: str) -> Any:
        def refuse(*about: object) -> Refuse | None:
            return Refuse(f"contains {word}") if word in str(about) else None

        return refuse

    return Guard.make(name, **cast(Any, {hook: judge(word) for hook, word in hooks.items()}))


def _ask(model: Any, prompt: str = "Hello") -> Any:
    return LanguageModel.generate_text(prompt).provide(model)


def _reason(effect: Any, backend: str = "asyncio") -> GuardRefusalError:
    ended: Any = fx.run_result(effect, backend=cast(Backend, backend))
    reason = ended.failure().reason
    assert isinstance(reason, GuardRefusalError)
    return reason


# -- models


def test_before_model_refuses_before_the_request(backend: str) -> None:
    """A refused request reaches no model, whole, streamed, or counted."""
    model = ScriptedModel.make([text("Yes.")])
    guarded = _no_evil("words", before_model="evil").wrap(model.layer)
    streamed = LanguageModel.stream_text("evil").provide(guarded).drain()
    counted = LanguageModel.count_tokens("evil").provide(guarded)

    for effect in (_ask(guarded, "evil"), streamed, counted):
        reason = _reason(effect, backend)
        assert (reason.guard, reason.at, reason.description) == ("words", "request", "contains evil")
    assert model.requests == []
    assert fx.run(_ask(guarded)).text == "Yes."


def test_before_model_changes_the_request_and_not_the_history() -> None:
    """The model receives the changed request, and the history of the run contains the original."""
    model = ScriptedModel.make([text("Hello [name].")])
    mask = Guard.make(
        "names", before_model=lambda request: Return(rewrite_text(request, lambda one: one.replace("Ann", "[name]")))
    )
    answer = fx.run(Agent.make("clerk").execute("I am Ann.").provide(mask.wrap(model.layer)))

    assert "Ann" not in str(model.requests)
    assert "[name]" in str(model.requests)
    assert "I am Ann." in str(answer.history.to_data())


def test_after_model_refuses_the_turn_with_its_usage() -> None:
    """No call of a refused turn runs, and the failure of the run contains the usage of the turn."""
    journal = Journal()
    model = ScriptedModel.make([(call("fetch", "evil"), finish("tool-calls", Usage(20, 5)))])
    guarded = _no_evil("words", after_model="evil").wrap(model.layer)
    ended: Any = fx.run_exit(Agent.make("clerk", toolkit=KIT).execute("Go.").provide(journal.layer).provide(guarded))

    failure = ended.cause.failures[0]
    assert isinstance(failure, RunFailed)
    assert isinstance(failure.reason, GuardRefusalError)
    assert (failure.reason.at, failure.reason.usage) == ("response", {"input_tokens": 20, "output_tokens": 5})
    assert usage_of(ended) == Usage(20, 5)
    assert journal.ran == []


def test_after_model_changes_the_turn_and_its_calls() -> None:
    """The handler receives the arguments of the changed turn."""
    journal = Journal()
    model = ScriptedModel.make([call("fetch", "[name]"), text("Done.")])
    guard = Guard.make(
        "names",
        after_model=lambda _, turn: Return(rewrite_text(turn, lambda one: one.replace("[name]", "Ann"))),
    )
    agent = Agent.make("clerk", toolkit=KIT)
    whole = fx.run(agent.execute("Go.").provide(journal.layer).provide(guard.wrap(model.layer)))
    again = ScriptedModel.make([call("fetch", "[name]"), text("Done, [name].")])
    parts = fx.run(agent.stream("Go.").provide(journal.layer).provide(guard.wrap(again.layer)).collect())

    assert whole.text == "Done."
    assert journal.ran == ["Ann", "Ann"]
    assert Response.from_stream(parts).text == "Done, Ann."


@pytest.mark.parametrize(("streaming", "sent"), [("hold", 0), ("pass", 15)])
def test_a_stream_states_how_much_has_left(backend: str, streaming: Literal["hold", "pass"], sent: int) -> None:
    """A holding guard lets no character of a refused turn leave. A passing guard states the number."""
    model = ScriptedModel.make([text("Some evil words")])
    guard = Guard.make("words", after_model=lambda _, turn: Refuse("evil"), streaming=streaming)
    read: list[Any] = []
    stream = LanguageModel.stream_text("Hello").provide(guard.wrap(model.layer))
    reason = _reason(stream.for_each(lambda part: fx.sync(lambda: read.append(part))), backend)

    assert reason.sent == sent == sum(len(part.delta) for part in read if part.type == "text-delta")
    assert all(part.type != "finish" for part in read)
    assert ("after 15 characters" in reason.message) is (streaming == "pass")


def test_a_passing_guard_cannot_change_a_turn() -> None:
    """A replacement by a passing guard is a defect that names the remedy."""
    model = ScriptedModel.make([text("Yes.")])
    guard = Guard.make("late", after_model=lambda _, turn: Return(turn), streaming="pass")
    with pytest.raises(TypeError, match='cannot change a turn with streaming="pass"'):
        fx.run(_ask(guard.wrap(model.layer)))


def test_a_hook_asks_another_model() -> None:
    """A hook that needs a model receives the model around the guarded layer, not the guarded model."""

    def judge(request: ModelRequest) -> Any:
        asked = LanguageModel.generate_text(f"Is this evil? {request.prompt[-1]}")
        return asked.map(lambda answer: Refuse("the judge refuses") if answer.text == "yes" else None)

    main, judging = ScriptedModel.make([text("Hi.")]), ScriptedModel.make([text("no"), text("yes")])
    guarded = Guard.make("judge", before_model=judge).wrap(main.layer).provide(judging.layer)

    assert fx.run(_ask(guarded)).text == "Hi."
    judging = ScriptedModel.make([text("yes")])
    guarded = Guard.make("judge", before_model=judge).wrap(main.layer).provide(judging.layer)
    assert _reason(_ask(guarded)).description == "the judge refuses"


# -- tools


def test_before_tool_stops_the_handler(backend: str) -> None:
    """The handler of a refused call does not run, and the model reads the refusal in failure mode "return"."""
    journal = Journal()
    layer = _no_evil("words", before_tool="evil").wrap(journal.layer)
    outcome: Outcome = fx.run(KIT.call("fetch", "evil").provide(layer), backend=cast(Backend, backend))
    ended: Any = fx.run_result(KIT.call("strict", "evil").provide(layer), backend=cast(Backend, backend))

    assert journal.ran == []
    assert outcome.encoded_result == {
        "type": "refused",
        "name": "fetch",
        "reason": "contains evil",
        "guard": "words",
        "at": "arguments",
    }
    assert ended.failure() == Refused("strict", guard="words", at="arguments", reason="contains evil")
    assert str(ended.failure()) == "guard 'words' refused the arguments of 'strict': contains evil"


@pytest.mark.parametrize("page", ["evil", "fail"])
def test_after_tool_judges_successes_and_failures(page: str) -> None:
    """A refused result reaches no model, also if the handler failed with it."""
    journal = Journal()
    model = ScriptedModel.make([call("fetch", page), text("I read nothing.")])
    layer = _no_evil("words", after_tool="evil").wrap(journal.layer)
    agent = Agent.make("clerk", toolkit=KIT)
    answer = fx.run(agent.execute("Go.").provide(layer).provide(model.layer))
    result = answer.steps[0].response.tool_results[0]

    assert isinstance(result.result, Refused)
    assert (result.is_failure, result.result.at, journal.ran) == (True, "result", [page])
    assert not {"page evil", "evil error"} & set(str(model.requests[1].prompt).split("'"))
    assert "contains evil" in str(model.requests[1].prompt.to_data())


def test_a_refused_call_fails_the_run_in_failure_mode_error() -> None:
    """The typed failure of the run contains the history with the refusal as the result of the call."""
    model = ScriptedModel.make([call("strict", "evil")])
    layer = _no_evil("words", before_tool="evil").wrap(Journal().layer)
    ended: Any = fx.run_result(Agent.make("clerk", toolkit=KIT).execute("Go.").provide(layer).provide(model.layer))

    assert isinstance(ended.failure(), Refused)
    assert ended.failure().history[-1].content[0].result["type"] == "refused"


def test_hooks_change_arguments_and_results() -> None:
    """Inner guards and the handler receive the changed arguments, and the call has the changed result."""
    journal = Journal()

    def shorten(call: Invocation[str], result: Result[str, str]) -> Return[Result[str, str]]:
        return Return(Success(f"{result.unwrap()} ({call.params})" if isinstance(result, Success) else "no page"))

    outer = Guard.make("lower", tool=fetch, before_tool=lambda call: Return(call.params.lower()))
    inner = Guard.make("short", tool=fetch, before_tool=lambda call: Return(call.params[:4]), after_tool=shorten)
    layer = outer.and_then(inner).wrap(journal.layer)

    assert fx.run(fetch.call("PAGES").provide(layer)) == "page page (page)"
    assert fx.run(fetch.call("FAILS").provide(layer)) == "no page"
    assert journal.ran == ["page", "fail"]


def test_changed_arguments_are_validated() -> None:
    """Arguments of another type are a defect, and the handler does not run."""
    journal = Journal()
    wrong: Any = Guard.make("wrong", before_tool=lambda _: Return(7))
    with pytest.raises(TypeError, match="guard 'wrong' returned invalid arguments for 'fetch'"):
        fx.run(fetch.call("x").provide(wrong.wrap(journal.layer)))
    assert journal.ran == []


def test_no_preliminary_value_passes_a_guard_of_results() -> None:
    """A stream of a guarded call contains only its judged result."""
    tail = Tool.make("tail", success=str)
    handler: Any = tail.handler(lambda _: Stream.make("evil", "fine"))
    model = ScriptedModel.make([call("tail", {}), text("Done.")])
    layer = _no_evil("words", after_tool="evil").wrap(handler)
    asked = LanguageModel.stream_text("Go.", toolkit=Toolkit.make(tail)).provide(layer).provide(model.layer)
    parts: Any = fx.run(cast(Any, asked).collect())
    results = [part.result for part in parts if part.type == "tool-result"]

    assert results == ["fine"]


def test_inner_calls_of_a_composite_are_guarded() -> None:
    """A refused inner call is a failed result of the composite."""
    journal = Journal()
    many = KIT.as_tool("many", description="Pages.")
    layer = _no_evil("words", before_tool="evil").wrap(journal.layer)
    calls = {"calls": [{"name": "fetch", "args": "evil"}, {"name": "fetch", "args": "good"}]}
    program: Any = Toolkit.make(many.tool).call("many", calls).provide(many.layer.provide(layer))
    outcome: Any = fx.run(program)

    assert journal.ran == ["good"]
    assert "refused" in str(outcome.encoded_result)


def test_a_guard_is_an_aspect_of_a_stateful_prompt_too() -> None:
    """The aspect of a guard has its hooks for tools."""
    layer = _no_evil("words", before_tool="evil").aspect.wrap(Journal().layer)

    assert fx.run(KIT.call("fetch", "evil").provide(layer)).is_failure


# -- closed


def _raise(*_: object) -> None:
    raise KeyError("bug")


@pytest.mark.parametrize("hook", ["before_model", "after_model", "before_tool", "after_tool"])
@pytest.mark.parametrize("kind", ["raises", "odd", "fails", "async"])
def test_a_broken_hook_closes(hook: str, kind: str, backend: str) -> None:
    """An exception or an odd answer is a defect, and a typed failure is a refusal. Nothing passes."""

    async def wrong(*_: object) -> Any:
        raise KeyError("bug")

    def odd(*_: object) -> bool:
        return True

    def fails(*_: object) -> Any:
        return fx.fail("down")

    hooks: dict[str, Any] = {"raises": _raise, "odd": odd, "fails": fails, "async": wrong}
    journal, model = Journal(), ScriptedModel.make([text("Yes.")])
    guard: Any = Guard.make("broken", **{hook: hooks[kind]})
    program: Any = KIT.call("strict", "x") if "tool" in hook else LanguageModel.generate_text("Hello")
    guarded = guard.wrap(journal.layer if "tool" in hook else model.layer)
    ended: Any = fx.run_exit(program.provide(guarded), backend=cast(Backend, backend))

    cause: Any = ended.cause

    if kind == "fails":
        assert "the guard could not decide: down" in str(cause.failures[0])
    else:
        assert type(cause.defects[0]) is (TypeError if kind == "odd" else KeyError)
    assert journal.ran == (["x"] if hook == "after_tool" else [])
    assert len(model.requests) == (1 if hook == "after_model" else 0)


def test_a_guard_without_its_target_is_an_error() -> None:
    """A layer that contains nothing to guard does not build."""
    with pytest.raises(ValueError, match="guard 'g' has a hook for models, but the layer has no model"):
        fx.run(fetch.call("x").provide(Guard.make("g", before_model=lambda _: None).wrap(Journal().layer)))
    with pytest.raises(ValueError, match="guard 'g' has a hook for tools, but the layer has no handler"):
        fx.run(_ask(Guard.make("g", before_tool=lambda _: None).wrap(ScriptedModel.make([text("Yes.")]).layer)))


@pytest.mark.parametrize(
    ("name", "options", "problem"),
    [
        ("", {"before_tool": _raise}, "guard name must not be empty"),
        ("g", {}, "guard 'g' has no hook"),
        ("g", {"before_tool": _raise, "streaming": "x"}, "must be 'hold' or 'pass', got 'x'"),
    ],
)
def test_wrong_guards_are_refused(name: str, options: dict[str, Any], problem: str) -> None:
    """A guard needs a name, a hook, and a known mode."""
    with pytest.raises(ValueError, match=problem):
        Guard.make(name, **options)


# -- journals


def test_a_durable_run_records_refusals(tmp_path: Any) -> None:
    """A resumed run reads the refusal from its journal and asks no guard again."""
    journal, judged = Journal(), list[str]()

    def judge(call: Invocation) -> Refuse:
        judged.append(call.tool.name)
        return Refuse("no")

    def program(script: list[Any]) -> Any:
        model = ScriptedModel.make(script)
        live = Guard.make("g", before_tool=judge).wrap(journal.layer) | model.layer
        runs = Runs.sqlite(tmp_path / "runs.db")
        return Agent.make("clerk", toolkit=KIT).execute("Go.").provide(durable(live, run="r", store=runs))

    first = fx.run(program([call("fetch", "x"), text("Done.")]))
    again = fx.run(program([]))

    assert first.history == again.history
    assert isinstance(again.steps[0].response.tool_results[0].result, Refused)
    assert judged == ["fetch"]


def test_a_judge_in_a_durable_run_leaves_no_record(tmp_path: Any) -> None:
    """The request of a judge is a part of the turn, so a resumed run needs no second judgement."""

    def judge(request: ModelRequest) -> Any:
        return LanguageModel.generate_text("evil?").map(lambda answer: Refuse("no") if answer.text == "yes" else None)

    def program(main: list[Any], judging: list[Any]) -> Any:
        guarded = Guard.make("judge", before_model=judge).wrap(ScriptedModel.make(main).layer)
        live: Any = guarded.provide(ScriptedModel.make(judging).layer)
        runs = Runs.sqlite(tmp_path / "runs.db")
        return Agent.make("clerk").execute("Go.").provide(durable(live, run="r", store=runs))

    assert fx.run(program([text("Done.")], [text("no")])).text == "Done."
    assert fx.run(program([], [])).text == "Done."


# -- values


def test_a_refusal_is_a_value_with_a_json_form() -> None:
    """The reason survives JSON, and it is not retryable."""
    guarded = _no_evil("words", before_model="Hello").wrap(ScriptedModel.make([]).layer)
    error: Any = fx.run_result(_ask(guarded)).failure()

    assert AiError.from_json(error.to_json()).unwrap() == error
    assert not error.is_retryable
    assert isinstance(hash(error), int)


def test_rewrite_text_keeps_unchanged_messages() -> None:
    """Only messages with a changed string are new objects, so that caches of requests still apply."""
    prompt = Prompt.make("one").with_response([ToolCall("c", "fetch", {"a": ["two", {"b": 3}]})])
    request = ModelRequest(prompt)
    changed = rewrite_text(request, lambda one: one.replace("two", "2"))

    assert rewrite_text(request, lambda one: one) is request
    assert changed.prompt[0] is prompt[0]
    assert cast(Any, changed.prompt[1].content[0]).params == {"a": ["2", {"b": 3}]}
    assert rewrite_text(Response((Text("two"),)), lambda one: one.replace("two", "2")).text == "2"


# -- user interfaces and traces


def test_a_page_receives_refusals_in_words() -> None:
    """A refused call is a chunk with its reason, and a refused turn is an error whose words the options choose."""
    model = ScriptedModel.make([call("fetch", "evil"), text("an evil word")])
    options = StreamOptions(error_text=lambda error: str(getattr(error, "reason", "")))
    live: Any = _no_evil("words", before_tool="evil").wrap(Journal().layer) | _no_evil(
        "turns", after_model="evil word"
    ).wrap(model.layer)
    stream: Any = encode_stream(Agent.make("clerk", toolkit=KIT).stream("Go.").provide(live), options)
    chunks: list[dict[str, Any]] = fx.run(stream.collect())
    shown = {chunk["type"]: chunk for chunk in chunks}

    assert "contains evil" in shown["tool-output-error"]["errorText"]
    assert "The guard 'turns' refused the response: contains evil word" in shown["error"]["errorText"]
    assert "text-delta" not in shown


def test_spans_name_the_refusal() -> None:
    """The spans of the run and of the call have the class of the refusal as their error type."""
    traces = Traces()
    model = ScriptedModel.make([call("strict", "evil")])
    live: Any = _no_evil("words", before_tool="evil").wrap(Journal().layer) | model.layer
    program: Any = Agent.make("clerk", toolkit=KIT).execute("Go.").provide(live).provide(traces.layer())
    fx.run_exit(program)
    types = {span.name: (span.attributes or {}).get("error.type") for span in traces.spans}

    assert types["execute_tool strict"] == "Refused"
    assert types["invoke_agent clerk"] == "Refused"
