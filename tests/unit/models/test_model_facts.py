"""Facts about models as values, and as services expose them."""

import copy
import pickle
from datetime import date
from typing import Any

import msgspec
import pytest

from fxai.effects import Gen, LayerOf, fx
from fxai.messages import AiError, Prompt
from fxai.models import (
    FactSource,
    LanguageModel,
    Limit,
    ModelFacts,
    ModelRequest,
    ReasoningEffort,
    common_facts,
    fallback,
    limit,
    nearest_effort,
    per_step,
)
from fxai.models.model_facts import EFFORTS
from fxai.testing import ScriptedModel

SMALL = ModelFacts(
    provider="acme",
    model="small-1",
    family="small",
    released=date(2026, 1, 2),
    efforts={"messages": ("low", "high")},
    tools_max={"messages": 20},
    max_output_tokens=4096,
    binds_thinking=False,
    sources={"max_output_tokens": FactSource(("a survey",), date(2026, 11, 26))},
)


def test_facts_are_hashable_comparable_and_picklable() -> None:
    """Copies of facts are equal and have one hash."""
    again = pickle.loads(pickle.dumps(SMALL))

    assert again == SMALL == copy.deepcopy(SMALL)
    assert hash(again) == hash(SMALL)
    assert msgspec.structs.replace(SMALL, forced_calls=True) != SMALL


@pytest.mark.parametrize("facts", [SMALL, pickle.loads(pickle.dumps(SMALL)), copy.copy(SMALL)])
@pytest.mark.parametrize("name", ["efforts", "tools_max", "sources"])
def test_mappings_of_facts_cannot_change(facts: ModelFacts, name: str) -> None:
    """No mapping of a fact accepts a change, neither at construction nor after a copy."""
    with pytest.raises(TypeError):
        getattr(facts, name)["x"] = 1


def test_facts_do_not_share_a_mapping_with_their_maker() -> None:
    """A later change of the given mapping does not reach the facts."""
    given: dict[Any, Any] = {"messages": ("low",)}
    facts = ModelFacts(provider="acme", model="m", efforts=given)
    given["chat"] = ("high",)

    assert facts.efforts == {"messages": ("low",)}


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("forced_calls", "no"),
        ("forced_calls", 1),
        ("max_output_tokens", True),
        ("max_output_tokens", 1.5),
        ("thinking", ("sometimes",)),
        ("efforts", {"messages": ("huge",)}),
        ("efforts", {"telephone": ("low",)}),
        ("sampling", True),
        ("provider", None),
        ("sources", {"sampling": "a survey"}),
    ],
)
def test_a_fact_of_a_wrong_type_is_an_error(field: str, value: object) -> None:
    """A value of another type raises a TypeError that names the field."""
    with pytest.raises(TypeError, match=field):
        msgspec.structs.replace(SMALL, **{field: value})


def test_a_policy_supplies_unknown_facts_only() -> None:
    """A policy replaces no known fact, and its values are marked as assumed."""
    filled = SMALL.with_policy({"max_output_tokens": 1, "sampling": "never"})

    assert (filled.max_output_tokens, filled.sampling) == (4096, "never")
    assert filled.sources["sampling"].assumed
    assert not filled.sources["max_output_tokens"].assumed
    assert "sampling" not in filled.unknown()
    assert "sampling" in SMALL.unknown()


@pytest.mark.parametrize("wanted", EFFORTS)
def test_the_nearest_effort_is_as_near_as_any(wanted: ReasoningEffort) -> None:
    """No accepted effort is nearer, and an equally near effort is not less."""
    groups: list[tuple[ReasoningEffort, ...]] = [
        ("low", "medium", "high"),
        ("none", "high", "max"),
        ("medium",),
        EFFORTS,
    ]
    for accepted in groups:
        nearest = nearest_effort(wanted, accepted)
        assert nearest is not None
        distance = {one: abs(EFFORTS.index(one) - EFFORTS.index(wanted)) for one in accepted}
        assert distance[nearest] == min(distance.values())
        ties = [one for one in accepted if distance[one] == distance[nearest]]
        assert nearest == min(ties, key=EFFORTS.index)

    assert nearest_effort(wanted, ()) is None


# -- services


def facts_of(layer: LayerOf[LanguageModel, Any, Any]) -> tuple[ModelFacts | None, ModelFacts | None]:
    """Return the facts of a layer's model, and its facts for a request."""
    request = ModelRequest(Prompt.make("Hello"))

    @fx.gen
    def read() -> Gen[tuple[ModelFacts | None, ModelFacts | None], AiError, LanguageModel]:
        model = yield from fx.service(LanguageModel)
        exact = yield from model.facts_of(request)
        return model.facts, exact

    return fx.run(read().provide(layer))


def test_a_scripted_model_has_the_facts_that_it_is_given() -> None:
    """The facts of a scripted model are unknown by default."""
    assert facts_of(ScriptedModel.make([], facts=SMALL).layer) == (SMALL, SMALL)
    assert facts_of(ScriptedModel.make([]).layer) == (None, None)


def test_a_limit_keeps_the_facts_of_its_model() -> None:
    """A limited model exposes the facts of the model inside."""
    layer = limit(ScriptedModel.make([], facts=SMALL).layer, Limit.budget("team", tokens=100))

    assert facts_of(layer) == (SMALL, SMALL)


def test_a_fallback_binds_thinking_if_any_model_does() -> None:
    """A fallback exposes the facts of its built models."""
    layer = fallback(ScriptedModel.make([], facts=SMALL).layer, ScriptedModel.make([]).layer)

    assert facts_of(layer) == (SMALL, SMALL)


def test_a_selection_has_the_facts_of_the_chosen_model() -> None:
    """`facts_of` builds the layer of the model that answers the request."""
    large = msgspec.structs.replace(SMALL, model="large-1", binds_thinking=True)
    layers = {"small": ScriptedModel.make([], facts=SMALL).layer, "large": ScriptedModel.make([], facts=large).layer}

    assert facts_of(per_step(layers, lambda _: "large")) == (large, large)
    assert facts_of(per_step(layers, lambda _: "small")) == (SMALL, SMALL)


def test_common_facts_are_true_of_each_model() -> None:
    """A fact on which models differ is unknown; one model that binds thinking binds the group."""
    large = msgspec.structs.replace(SMALL, model="large-1", max_output_tokens=8192, binds_thinking=True)
    both = common_facts([SMALL, None, large])

    assert both is not None
    assert (both.max_output_tokens, both.binds_thinking, both.efforts) == (None, True, SMALL.efforts)
    assert (common_facts([]), common_facts([None, SMALL])) == (None, SMALL)
