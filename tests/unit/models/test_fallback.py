"""Fallbacks and selections: who is asked, who stands in, when a layer is built, and what is told of it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Never

import pytest

from fxai.effects import Backend, EffectOf, Exit, Failed, Gen, Layer, LayerOf, Scope, Tag, fx
from fxai.messages import (
    AiError,
    AuthenticationError,
    Finish,
    InvalidRequestError,
    ModelUnavailableError,
    QuotaExhaustedError,
    RateLimitError,
    Reason,
    ResponseMetadata,
    StreamPart,
    TextDelta,
    TextEnd,
    TextStart,
    WarningPart,
)
from fxai.models import LanguageModel, ModelRequest, fallback, per_step, retryable, unavailable
from fxai.testing import ScriptedModel, Turn, fails
from tests.kit.every import every
from tests.kit.journal import Journal

BUSY = RateLimitError(retry_after=7)
WRONG = InvalidRequestError("temperature", "must be < 2")
NO_KEY = AuthenticationError("MissingKey")


class Models:
    """Scripted models whose layers write into a journal when they are built and released."""

    def __init__(self) -> None:
        self.journal = Journal()
        self.scripts: dict[str, ScriptedModel] = {}

    def layer(self, name: str, *turns: Turn) -> LayerOf[LanguageModel, AiError]:
        """The layer of a model that says these turns."""
        model = self.scripts[name] = ScriptedModel.make(turns)

        @fx.gen
        def opened() -> Gen[LanguageModel, Never, Scope]:
            self.journal.add(f"build {name}")
            yield from fx.add_finalizer(lambda _: self.journal.note(f"release {name}"))
            return (yield from fx.service(LanguageModel).provide(model.layer))

        return LayerOf.scoped(LanguageModel, opened())

    def broken(self, reason: Reason) -> LayerOf[LanguageModel, AiError]:
        """A layer that fails to build."""
        return Layer.effect(
            LanguageModel, self.journal.note("fail").flat_map(lambda _: fx.fail(AiError("a", "layer", reason)))
        )

    def asked(self) -> list[int]:
        """How often each model was asked."""
        return [len(model.requests) for model in self.scripts.values()]


def _text(layer: LayerOf[LanguageModel, AiError], backend: Backend, times: int = 1) -> Any:
    asked = fx.for_each(range(times), lambda _: LanguageModel.generate_text("Hi"))
    return fx.run_result(asked.provide(layer), backend=backend)


def _parts(layer: LayerOf[LanguageModel, AiError], backend: Backend) -> tuple[list[StreamPart], Exit[Any, Any]]:
    got: list[StreamPart] = []
    read = LanguageModel.stream_text("Hi").for_each(lambda part: fx.sync(lambda: got.append(part)))
    return got, fx.run_exit(read.provide(layer), backend=backend)


def _reasons(end: Exit[Any, Any]) -> list[Reason]:
    assert isinstance(end, Failed)
    return [failure.reason for failure in end.cause.failures]


# -- a whole turn


def test_the_first_is_asked_alone_while_it_answers(backend: Backend) -> None:
    """Nobody else is asked, and no other layer is built."""
    models = Models()
    chain = fallback(models.layer("a", "1", "2"), models.layer("b", "3"))

    assert [response.text for response in _text(chain, backend, 2).unwrap()] == ["1", "2"]
    assert models.journal.lines == ["build a", "release a"]


def test_the_next_answers_and_a_warning_says_so(backend: Backend) -> None:
    """Each model that was passed over is told, in order; layers are built once, and released in reverse."""
    models = Models()
    chain = fallback(
        models.layer("a", fails(BUSY), fails(BUSY)), models.layer("b", fails(BUSY), "2"), models.layer("c", "1")
    )
    first, second = _text(chain, backend, 2).unwrap()

    assert (first.text, second.text) == ("1", "2")
    assert [warning.message for warning in first.warnings] == [
        "another model answers: ScriptedModel.ask: Rate limit exceeded"
    ] * 2
    assert len(second.warnings) == 1
    assert models.journal.lines == ["build a", "build b", "build c", "release c", "release b", "release a"]


def test_a_failure_that_is_not_for_others_stands(backend: Backend) -> None:
    """A wrong request is wrong for each model: nobody else is asked."""
    models = Models()
    failed = _text(fallback(models.layer("a", fails(WRONG)), models.layer("b", "1")), backend).failure()

    assert failed.reason == WRONG
    assert models.asked() == [1, 0]


def test_a_rule_of_ones_own_decides(backend: Backend) -> None:
    """`when` is asked of each failure."""
    models = Models()
    chain = fallback(models.layer("a", fails(WRONG)), models.layer("b", "1"), when=lambda error: error.reason == WRONG)

    assert _text(chain, backend).unwrap()[0].text == "1"


def test_where_all_fail_the_last_is_told_first(backend: Backend) -> None:
    """What the others failed with stands beside it, so that nothing is lost."""
    models = Models()
    chain = fallback(models.layer("a", fails(BUSY)), models.layer("b", fails(WRONG)))
    end = fx.run_exit(LanguageModel.generate_text("Hi").provide(chain), backend=backend)

    assert _reasons(end) == [WRONG, BUSY]


def test_a_layer_that_cannot_be_built_is_passed_over(backend: Backend) -> None:
    """A provider without a key is no end, where `when` takes that; each time it is tried anew."""
    models = Models()
    chain = fallback(models.broken(NO_KEY), models.layer("b", "1", "2"), when=unavailable)
    first, second = _text(chain, backend, 2).unwrap()

    assert (first.text, second.text) == ("1", "2")
    assert first.warnings[0].message.startswith("another model answers: a.layer: MissingKey")
    assert models.journal.lines == ["fail", "build b", "fail", "fail", "release b"]


def test_without_a_rule_for_it_a_missing_key_is_told_at_once(backend: Backend) -> None:
    """The layer fails before anything is asked."""
    models = Models()
    failed = _text(fallback(models.broken(NO_KEY), models.layer("b", "1")), backend).failure()

    assert failed.reason == NO_KEY
    assert models.journal.lines == ["fail"]


def test_several_that_ask_at_once_share_a_layer(backend: Backend) -> None:
    """A stand-in that many need at the same moment is built once."""
    models = Models()
    chain = fallback(models.layer("a", *[fails(BUSY)] * 5), models.layer("b", *"12345"))
    asked = fx.for_each(range(5), lambda _: LanguageModel.generate_text("Hi"), concurrency=None)
    answers = fx.run(asked.provide(chain), backend=backend)

    assert sorted(answer.text for answer in answers) == list("12345")
    assert models.journal.lines == ["build a", "build b", "release b", "release a"]


class Prefix(Tag[str]):
    """A service that a model's layer needs."""


def test_the_services_around_feed_every_layer(backend: Backend) -> None:
    """A layer that is built later has what it needs from where the fallback was built."""
    models = Models()

    def named(prefix: str) -> LanguageModel:
        models.journal.add(prefix)
        return fx.run_sync(fx.service(LanguageModel).provide(ScriptedModel.make(["1"]).layer))

    needing = LayerOf.effect(LanguageModel, fx.service(Prefix).map(named))
    given = LayerOf.succeed(Prefix, "here")
    chain: Any = fallback(models.layer("a", fails(BUSY)), needing)

    assert _text(chain.provide(given), backend).unwrap()[0].text == "1"
    assert "here" in models.journal.lines


@every(
    ("reason", "is_retryable", "is_unavailable"),
    [
        (BUSY, True, True),
        (WRONG, False, False),
        (NO_KEY, False, True),
        (QuotaExhaustedError(), False, True),
        (ModelUnavailableError("m", "not-installed"), False, True),
    ],
)
def test_two_rules_are_ready_made(reason: Reason, is_retryable: bool, is_unavailable: bool) -> None:
    """What may pass by itself; and what is for this model alone."""
    error = AiError("a", "ask", reason)

    assert (retryable(error), unavailable(error)) == (is_retryable, is_unavailable)


# -- a stream

_SAID: Sequence[StreamPart] = (TextStart("1"), TextDelta("1", "Hi."), TextEnd("1"))
_META = ResponseMetadata("resp_1")


@pytest.mark.parametrize("before", [[], [_META], [_META, WarningPart("w")]])
def test_a_stream_goes_over_while_nothing_was_said(backend: Backend, before: list[Any]) -> None:
    """What a model says of itself before it fails is not given, as it would be of a turn that never was."""
    models = Models()
    chain = fallback(models.layer("a", [*before, fails(BUSY)]), models.layer("b", [*_SAID, Finish("stop")]))
    parts, end = _parts(chain, backend)

    assert not isinstance(end, Failed)
    assert [part.type for part in parts] == ["warning", "text-start", "text-delta", "text-end", "finish"]
    assert models.journal.lines == ["build a", "build b", "release b", "release a"]


def test_a_stream_that_said_something_is_not_begun_anew(backend: Backend) -> None:
    """What came stands, and the failure behind it."""
    models = Models()
    chain = fallback(models.layer("a", [_META, *_SAID[:2], fails(BUSY)]), models.layer("b", "1"))
    parts, end = _parts(chain, backend)

    assert [part.type for part in parts][:3] == ["response-metadata", "text-start", "text-delta"]
    assert _reasons(end) == [BUSY]
    assert models.asked() == [1, 0]


def test_a_stream_that_no_one_can_give_keeps_what_the_last_one_said(backend: Backend) -> None:
    """Metadata of the last model is given before its failure; the failures of the others stand beside it."""
    models = Models()
    chain = fallback(models.layer("a", fails(BUSY)), models.layer("b", [_META, fails(WRONG)]))
    parts, end = _parts(chain, backend)

    assert [part.type for part in parts] == ["warning", "response-metadata"]
    assert _reasons(end) == [WRONG, BUSY]


def test_a_stream_comes_as_it_is(backend: Backend) -> None:
    """Where the first answers, each part is given once and in order."""
    models = Models()
    parts, _ = _parts(fallback(models.layer("a", [_META, *_SAID, Finish("stop")]), models.layer("b", "1")), backend)

    assert [*parts] == [_META, *_SAID, Finish("stop")]


# -- a model for each step


def _by_turns(request: ModelRequest) -> str:
    return "plan" if len(request.prompt) == 1 else "work"


def _rounds(layer: LayerOf[LanguageModel, Any], prompts: Sequence[Any]) -> EffectOf[Any, Any, Any]:
    return fx.for_each(prompts, LanguageModel.generate_text).provide(layer)


def test_each_step_has_its_model(backend: Backend) -> None:
    """The chooser sees the request; a layer that is not chosen is not built, one that is stays."""
    models = Models()
    chosen = per_step(
        {"plan": models.layer("plan", "1"), "work": models.layer("work", "2", "3"), "never": models.layer("never")},
        _by_turns,
    )
    later = [{"role": "user", "content": "a"}, {"role": "user", "content": "b"}]
    answers = fx.run(_rounds(chosen, ["Hi", later, later]), backend=backend)

    assert [answer.text for answer in answers] == ["1", "2", "3"]
    assert models.journal.lines == ["build plan", "build work", "release work", "release plan"]


def test_a_step_may_be_streamed(backend: Backend) -> None:
    """The chosen model streams."""
    models = Models()
    parts, _ = _parts(per_step({"plan": models.layer("plan", [*_SAID, Finish("stop")])}, _by_turns), backend)

    assert [*parts] == [*_SAID, Finish("stop")]


def test_a_name_that_is_none_is_a_failure(backend: Backend) -> None:
    """It says which there are."""
    failed = _text(per_step({"a": Models().layer("a", "1")}, lambda _: "b"), backend).failure()

    assert failed.reason == ModelUnavailableError("b", "unknown-model", "the models are: a")


def test_selections_and_fallbacks_nest(backend: Backend) -> None:
    """Both give a model's layer, so one may stand in the other."""
    models = Models()
    inner = fallback(models.layer("a", fails(BUSY)), models.layer("b", "1"))

    assert _text(per_step({"plan": inner}, _by_turns), backend).unwrap()[0].text == "1"
