"""Options on tools of every kind: they are kept by every combinator, change nothing in place, and take effect."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import msgspec
import pytest
from returns.result import Success

from fxai.annotations import Readonly
from fxai.effects import Tag, fx
from fxai.messages import Prompt
from fxai.models import LanguageModel
from fxai.schema import SchemaError
from fxai.testing import ScriptedModel, call
from fxai.tools import NeedsApproval, Tool, ToolError, Toolkit
from tests.kit.every import every
from tests.kit.samples import Sum, giving


class Database(Tag[str]):
    """What a handler would need."""


class Size(msgspec.Struct, frozen=True):
    """How a provider's tool is set up."""

    pixels: int = 1


def shown(value: Any) -> dict[str, Any]:
    """What the model is shown."""
    return {"shown": str(value)}


def guarded(params: Any, context: Any) -> bool:
    """No call needs approval."""
    return False


OPTIONS: dict[str, Any] = {
    "needs_approval": guarded,
    "to_model_output": shown,
    "provider_options": {"acme": {"level": 3}},
    "dependencies": (Database,),
}
ARGS: dict[str, Any] = {"a": 1, "b": 2}
RAW = {"type": "object", "properties": {"a": {"type": "integer"}}}

asking = Tool.provider_defined(
    id="acme.draw", name="t", provider_name="draw", args=Size, requires_handler=True, parameters=Sum, success=int
)
running = Tool.provider_defined(id="acme.search", name="t", provider_name="search", args=Size)


def _make(**options: Any) -> Any:
    return Tool.make("t", parameters=Sum, success=int, **options)


def _typed(**options: Any) -> Any:
    return Tool.dynamic("t", parameters=Sum, success=int, **options)


def _raw(**options: Any) -> Any:
    return Tool.dynamic("t", parameters=RAW, **options)


def _external(**options: Any) -> Any:
    return _make(**options).external()


def t(a: int, b: int) -> int:
    """Adds."""
    return a + b


def _function(**options: Any) -> Any:
    made: Any = Tool.from_function
    return made(t, **options).tool


def _composite(**options: Any) -> Any:
    return Toolkit.make(Tool.make("inner")).as_tool("t", **options).tool


KINDS: dict[str, Callable[..., Any]] = {
    "make": _make,
    "dynamic, typed": _typed,
    "dynamic, raw": _raw,
    "provider-defined, ours to run": partial(asking, pixels=2),
    "provider-defined": partial(running, pixels=2),
    "external": _external,
    "from a function": _function,
    "composite": _composite,
}
RUNNABLE = [name for name in KINDS if name not in ("provider-defined", "external", "composite")]

COMBINATORS: dict[str, Callable[[Any], Any]] = {
    "annotate": lambda tool: tool.annotate(Readonly, True),
    "annotate_all": lambda tool: tool.annotate_all({Readonly: True}),
    "rename": lambda tool: tool.rename("u"),
    "prefix": lambda tool: tool.prefix("p."),
    "with_description": lambda tool: tool.with_description("D"),
    "external": lambda tool: tool.external(),
    "another option": lambda tool: tool.with_options(input_examples=[ARGS]),
    "another failure mode": lambda tool: tool.with_options(failure_mode="return"),
    "a toolkit": lambda tool: Toolkit.make(tool).prefix("k.").annotate_all({Readonly: True}).as_tuple[0],
}


def _said(tool: Any) -> dict[str, Any]:
    return {name: getattr(tool, name) for name in OPTIONS}


@every("kind", list(KINDS))
def test_every_kind_takes_every_option(kind: str) -> None:
    """In its constructor; without them there are the defaults."""
    tool, plain = KINDS[kind](**OPTIONS), KINDS[kind]()

    assert _said(tool) == OPTIONS
    assert _said(plain) == {
        "needs_approval": False,
        "to_model_output": None,
        "provider_options": {},
        "dependencies": (),
    }


@every("kind", list(KINDS))
@every("option", list(OPTIONS))
def test_with_options_says_one_and_keeps_the_others(kind: str, option: str) -> None:
    """The tool stays what it is: kind, identity, class, schema; and the first one is not changed."""
    tool = KINDS[kind]()
    changed = tool.with_options(**{option: OPTIONS[option]})

    assert getattr(changed, option) == OPTIONS[option]
    assert {k: v for k, v in _said(changed).items() if k != option} == {
        k: v for k, v in _said(tool).items() if k != option
    }
    assert tool == KINDS[kind]()
    assert (type(changed), changed.kind, changed.identity) == (type(tool), tool.kind, tool.identity)
    assert changed.json_schema() == tool.json_schema()


@every("kind", list(KINDS))
@every("combinator", list(COMBINATORS))
def test_combinators_keep_the_options(kind: str, combinator: str) -> None:
    """Whatever else is said of the tool."""
    tool = KINDS[kind](**OPTIONS)
    changed = COMBINATORS[combinator](tool)

    assert _said(changed) == OPTIONS
    assert (changed.kind, changed.json_schema()) == (tool.kind, tool.json_schema())


@every("kind", list(KINDS))
def test_options_cannot_be_changed_in_place(kind: str) -> None:
    """Neither by the tool, nor by what was given to it."""
    given = {"acme": {"level": 3}}
    tool = KINDS[kind](provider_options=given)
    given["acme"]["level"] = 4
    given["other"] = {}

    assert tool.provider_options == {"acme": {"level": 3}}
    for name, value in OPTIONS.items():
        with pytest.raises(AttributeError):
            setattr(tool, name, value)
    with pytest.raises(TypeError):
        tool.provider_options["acme"] = {}


@every("kind", [name for name in KINDS if name != "from a function"])
def test_options_go_through_a_pickle(kind: str) -> None:
    """Functions by name, the rest by value."""
    tool = KINDS[kind](**OPTIONS)

    assert pickle.loads(pickle.dumps(tool)) == tool


WRONG: dict[str, tuple[Mapping[str, Any], str]] = {
    "approval": (
        {"needs_approval": "yes"},
        "needs_approval must be True, False, or a function of parameters and context, got 'yes'",
    ),
    "no approval": ({"needs_approval": None}, "needs_approval must be .*, got None"),
    "output": ({"to_model_output": "text"}, "to_model_output must be a function of the success or None, got 'text'"),
}


@every("kind", list(KINDS))
@every("wrong", list(WRONG))
def test_an_option_that_means_nothing_is_refused(kind: str, wrong: str) -> None:
    """When the tool is made, and when the option is set; the message says what it may be."""
    options, said = WRONG[wrong]
    with pytest.raises(SchemaError, match=said):
        KINDS[kind](**options)
    with pytest.raises(SchemaError, match=said):
        KINDS[kind]().with_options(**options)


# -- what they do


def _round(tool: Any, handler: Any, params: Any = None) -> Any:
    model = ScriptedModel.make([call("t", ARGS if params is None else params, id="c")])
    asked: Any = LanguageModel.generate_text("go", toolkit=Toolkit.make(tool)).provide(tool.handler(handler))
    return fx.run_exit(asked.provide(model.layer))


def _result(tool: Any, handler: Any, params: Any = None) -> Any:
    return _round(tool, handler, params).value.content[1]  # behind the call: its result, or the request for it


@every("kind", RUNNABLE)
def test_to_model_output_changes_what_the_model_is_shown_alone(kind: str) -> None:
    """The result itself stays, and so does what a call from here is given; a failure is not changed."""
    tool = KINDS[kind](to_model_output=shown)
    result = _result(tool, giving(Success(7)))
    called: Any = Toolkit.make(tool).call("t", ARGS).provide(tool.handler(giving(Success(7))))
    failing = KINDS["make"](to_model_output=shown).with_options(failure_mode="return")

    assert (result.result, result.encoded_result, result.is_failure) == (7, {"shown": "7"}, False)
    assert (fx.run(called).result, fx.run(called).encoded_result) == (7, 7)
    assert _result(failing, giving(Success(7)), {"a": "x"}).encoded_result["type"] == "invalid-parameters"


@every("kind", RUNNABLE)
def test_the_history_holds_what_the_model_was_shown(kind: str) -> None:
    """It is what the model reads in the next turn."""
    tool = KINDS[kind](to_model_output=shown)
    response = _round(tool, giving(Success(7))).value
    history = Prompt.from_parts(response.content).to_json()

    assert '{"shown":"7"}' in history


OUTPUTS: dict[str, tuple[Any, Any]] = {
    "text": ("x", "x"),
    "nothing": (None, None),
    "nested": ({"a": [1, 2.5, {"b": True}]}, {"a": [1, 2.5, {"b": True}]}),
    "what is written as JSON": ((1, Sum(1, 2)), [1, {"a": 1, "b": 2}]),
}


@pytest.mark.parametrize("name", list(OUTPUTS))
def test_the_output_for_the_model_is_plain_data(name: str) -> None:
    """What has a JSON form is given in it."""
    output, plain = OUTPUTS[name]

    assert _result(KINDS["make"](to_model_output=giving(output)), giving(Success(7))).encoded_result == plain


@pytest.mark.parametrize("output", [float("nan"), object(), {1j: 2}, {"a": [object()]}])
def test_an_output_that_is_not_json_is_a_defect(output: Any) -> None:
    """A bug of the tool, which no model is told of; it names the place."""
    ended = _round(KINDS["make"](to_model_output=giving(output)), giving(Success(7)))
    (defect,) = ended.cause.defects

    assert isinstance(defect, TypeError)
    assert "to_model_output of 't' must return a JSON value" in str(defect)


@every("kind", RUNNABLE)
def test_a_call_that_needs_approval_is_held_back(kind: str) -> None:
    """Always, or where its predicate says so of the decoded parameters and the call."""
    seen: list[Any] = []

    def asked(params: Any, context: Any) -> bool:
        seen.append((params, context.call_id, context.tool.name))
        return True

    ran: list[object] = []
    for needs in (True, asked):
        result = _result(KINDS[kind](needs_approval=needs), ran.append)
        assert result.type == "tool-approval-request"

    assert ran == []
    ((params, *rest),) = seen
    assert rest == ["c", "t"]
    assert msgspec.to_builtins(params) == ARGS if kind != "from a function" else True


@every("kind", RUNNABLE)
def test_a_call_whose_predicate_says_no_runs(kind: str) -> None:
    """By a plain answer, or by an effect."""
    by_effect: NeedsApproval = lambda params, context: fx.succeed(False)  # noqa: E731
    for needs in (guarded, by_effect):
        assert _result(KINDS[kind](needs_approval=needs), giving(Success(7))).result == 7


def giving_two(value: object) -> Any:
    """A predicate that always gives `value`."""

    def predicate(_: object, __: object) -> Any:
        return value

    return predicate


UNSAID: dict[str, NeedsApproval] = {
    "fails": lambda params, context: fx.fail("no"),
    "dies": lambda params, context: fx.die(RuntimeError()),
    "raises": lambda params, context: bool(params.nothing_of_that_name),
    "none": giving_two(None),
    "none by an effect": giving_two(fx.succeed(None)),
    "zero": giving_two(0),
    "of one parameter": giving(False),
}


@every("name", list(UNSAID))
def test_a_predicate_that_does_not_say_no_asks(name: str) -> None:
    """It fails closed."""
    ran: list[object] = []

    assert _result(KINDS["make"](needs_approval=UNSAID[name]), ran.append).type == "tool-approval-request"
    assert ran == []


def test_a_predicate_that_breaks_is_told_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    """Otherwise nobody would know why everything has to be approved."""
    _result(KINDS["make"](needs_approval=UNSAID["raises"]), giving(None))
    (record,) = [record for record in caplog.records if record.name == "fxai.tools"]

    assert record.levelname == "WARNING"
    assert "call of 't' requires an approval" in record.getMessage()


def test_an_invalid_call_of_a_guarded_tool_is_told_what_is_wrong() -> None:
    """It would never run, so nobody is asked, and the predicate sees no parameters that do not fit."""
    seen: list[object] = []

    def noting(params: object, context: object) -> bool:
        seen.append(params)
        return False

    result = _result(KINDS["make"](needs_approval=noting), giving(None), {"a": "x"})

    assert result.encoded_result["type"] == "invalid-parameters"
    assert seen == []


def test_a_repaired_call_is_not_run_unasked() -> None:
    """Mending a guarded call is no way round the approval: the model is told of its mistake and makes it itself."""
    ran: list[object] = []
    tool = KINDS["make"](needs_approval=giving_two(True))
    model = ScriptedModel.make([call("t", {"a": "x"}, id="c")])

    def repair(broken: Any, failure: ToolError) -> Any:
        return fx.succeed(msgspec.structs.replace(broken, params=ARGS))

    asked: Any = LanguageModel.generate_text("go", toolkit=Toolkit.make(tool), repair=repair)
    response = fx.run(asked.provide(tool.handler(ran.append)).provide(model.layer))

    assert response.tool_results[0].encoded_result["type"] == "invalid-parameters"
    assert ran == []


def test_a_call_from_here_needs_no_approval() -> None:
    """Approval is between a model and its user; who calls a tool in a program has decided."""
    tool = KINDS["make"](needs_approval=True)
    called: Any = Toolkit.make(tool).call("t", ARGS).provide(tool.handler(giving(Success(7))))

    assert fx.run(called).result == 7
