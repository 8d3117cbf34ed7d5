"""Bad input, from a model or from a programmer: each gives the failure that is meant for it, and says what to do."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from returns.result import Result, Success

from fxai.effects import Backend, fx
from fxai.messages import Prompt, ToolCall
from fxai.models import LanguageModel
from fxai.schema import JsonSchema, Limits, SchemaError
from fxai.testing import ScriptedModel
from fxai.tools import InvalidParameters, Outcome, Tool, Toolkit, UnknownTool
from tests.kit.every import every
from tests.kit.samples import defect_of, giving, outcome_of


class Point(msgspec.Struct, frozen=True):
    """Where."""

    x: int
    y: float = 0.0
    name: str = ""


DOCUMENT: dict[str, Any] = {
    "type": "object",
    "properties": {"x": {"type": "integer"}, "y": {"type": "number"}, "name": {"type": "string"}},
    "required": ["x"],
}
typed = Tool.make("point", parameters=Point, success=str)
raw = Tool.dynamic("point", parameters=DOCUMENT, success=str)
free = Tool.dynamic("point", parameters=DOCUMENT, success=str, validation="none")
TOOLS: dict[str, Tool[Any, Any, Any]] = {"typed": typed, "raw": raw, "free": free}
RAN: list[object] = []


def _handler(p: object) -> Result[str, Any]:
    RAN.append(p)
    return Success("ran")


def _call(tool: Tool[Any, Any, Any], text: bytes | str, backend: Backend = "asyncio", **options: Any) -> Outcome:
    RAN.clear()
    handlers: Any = tool.handler(_handler)
    called: Any = Toolkit.make(tool).call_json("point", text, **options)
    return outcome_of(called.provide(handlers), backend)


def _refused(outcome: Outcome) -> str:
    """The message of a refused call; checks that it is one, and that the model can read it."""
    assert isinstance(outcome.result, InvalidParameters)
    assert outcome.is_failure
    assert RAN == []
    assert outcome.result.name == "point"
    assert json.loads(outcome.encoded_json)["type"] == "invalid-parameters"
    message = str(outcome.encoded_result["message"])
    assert "'point'" in message
    assert "Correct them and call the tool again" in message
    assert len(message) < 1000
    return message


NOT_JSON: dict[str, tuple[bytes | str, str]] = {
    "words": ("x = 1", "not JSON"),
    "half an object": ('{"x": 1', "not JSON"),
    "a comma too many": ('{"x": 1,}', "not JSON"),
    "two values": ('{"x": 1} {"x": 2}', "not JSON"),
    "NaN": ('{"x": 1, "y": NaN}', "/y: expected a finite number, found NaN"),
    "Infinity": ('{"x": 1, "y": -Infinity}', "/y: expected a finite number, found -Infinity"),
    "1e999": ('{"x": 1, "y": 1e999}', "/y"),
    "a half surrogate": ('{"x": 1, "name": "\\ud800"}', "/name"),
    "a half surrogate as such": ('{"x": 1, "name": "\ud800"}', "/name"),
    "no UTF-8": (b'{"x": 1, "name": "\xff"}', "not UTF-8"),
    "10,000 levels": ('{"x": ' + "[" * 10_000 + "]" * 10_000 + "}", "levels of nesting"),
    "10,000 levels, unclosed": ("[" * 10_000, "levels of nesting"),
    "50 MB": ('{"x": 1, "name": "' + "a" * 50_000_000 + '"}', "at most 16777216 bytes"),
}


@every("text", list(NOT_JSON))
@every("kind", list(TOOLS))
def test_text_that_is_no_json_is_refused(kind: str, text: str, backend: Backend) -> None:
    """By every kind of tool, one without validation too: the handler never sees it."""
    given, said = NOT_JSON[text]

    assert said in _refused(_call(TOOLS[kind], given, backend))


WRONG: dict[str, tuple[str, str]] = {
    "a wrong type": ('{"x": "1"}', "/x: expected integer, found string '1'"),
    "a fraction": ('{"x": 1.5}', "/x: expected integer, found number 1.5"),
    "nothing": ("", "/x: expected integer, found nothing"),
    "null in place of an object": ("null", "expected object, found null"),
    "an array in place of an object": ("[1]", "expected object, found array of 1 item"),
    "null in place of a number": ('{"x": null}', "/x: expected integer, found null"),
    "an array in place of a number": ('{"x": [1]}', "/x: expected integer, found array of 1 item"),
    "an object in place of a text": ('{"x": 1, "name": {}}', "/name: expected string, found object"),
}


@every("text", list(WRONG))
@every("kind", ["typed", "raw"])
def test_json_of_a_wrong_type_is_refused_with_the_place(kind: str, text: str) -> None:
    """Where, what was expected, what was found: the same words for a type and for a raw document."""
    given, said = WRONG[text]

    assert said in _refused(_call(TOOLS[kind], given))


@pytest.mark.parametrize("kind", list(TOOLS))
def test_what_json_schema_calls_an_integer_is_one(kind: str) -> None:
    """`3.0` decodes as three; a raw document's handler gets the number as it was written."""
    outcome = _call(TOOLS[kind], '{"x": 3.0}')

    assert outcome.result == "ran"
    assert [Point(3)] == RAN if kind == "typed" else RAN == [{"x": 3.0}]


@pytest.mark.parametrize("kind", list(TOOLS))
def test_duplicate_keys_are_refused_when_asked(kind: str) -> None:
    """By default the last one wins; with `unique_keys` the message says which key."""
    text = '{"x": 1, "x": 2}'

    assert _call(TOOLS[kind], text).result == "ran"
    assert "/x: expected each key once" in _refused(_call(TOOLS[kind], text, limits=Limits(unique_keys=True)))


@pytest.mark.parametrize("kind", list(TOOLS))
def test_limits_can_be_set(kind: str) -> None:
    """Smaller for a stranger, larger for a friend."""
    assert "at most 8 bytes" in _refused(_call(TOOLS[kind], '{"x": 1, "y": 2}', limits=Limits(max_bytes=8)))
    nested = '{"x": 1, "other": ' + "[" * 200 + "]" * 200 + "}"
    assert "levels" in _refused(_call(TOOLS[kind], nested, limits=Limits(max_depth=50)))
    assert _call(free, nested, limits=Limits(max_depth=300)).result == "ran"


def test_an_unknown_tool_is_answered_with_those_there_are(backend: Backend) -> None:
    """The parameters are not even looked at."""
    RAN.clear()
    called = Toolkit.make(typed).call_json("pont", "no json").provide(typed.handler(_handler))
    outcome = outcome_of(called, backend)

    assert outcome.result == UnknownTool("pont", ("point",))
    assert "Call one of these tools: point" in outcome.encoded_result["message"]
    assert RAN == []


@every(
    "reference",
    [
        "https://example.com/point.json",
        "http://169.254.169.254/latest",
        "file:///etc/passwd",
        "other.json#/x",
        "#/$defs/nowhere",
    ],
)
def test_a_schema_that_refers_outside_is_refused_when_the_tool_is_made(reference: str) -> None:
    """No network and no file is touched; the message says where, and what the reference was."""
    with pytest.raises(SchemaError) as raised:
        Tool.dynamic("point", parameters={"type": "object", "properties": {"x": {"$ref": reference}}})

    assert "/properties/x/$ref" in str(raised.value)
    assert "expected a reference" in str(raised.value)
    assert repr(reference) in str(raised.value)


@pytest.mark.parametrize("keyword", ["pattern", "patternProperties"])
def test_a_pattern_that_explodes_is_bounded(keyword: str) -> None:
    """Either validator gives an answer, and soon; it never hangs."""
    bomb = "^(a|a)*$"
    name = "a" * 5_000 + "!"
    documents: dict[str, tuple[dict[str, Any], Any]] = {
        "pattern": ({"properties": {"x": {"pattern": bomb}}}, {"x": name}),
        "patternProperties": ({"patternProperties": {bomb: False}, "additionalProperties": False}, {name: 1}),
    }
    document, value = documents[keyword]
    faults = JsonSchema.of(document).validate(value)

    assert len(faults) >= 1
    assert len(str(faults[0])) < 1000


def test_a_pattern_that_explodes_does_not_stop_a_call(backend: Backend) -> None:
    """The call is refused, and the message points at the place."""
    tool = Tool.dynamic("point", parameters={"properties": {"name": {"pattern": "^(a+)+$"}}}, success=str)
    message = _refused(_call(tool, json.dumps({"name": "a" * 5_000 + "!"}), backend))

    assert "/name" in message


@pytest.mark.parametrize("mode", ["error", "return"])
def test_a_handler_that_raises_is_a_defect_that_keeps_its_traceback(mode: Any, backend: Backend) -> None:
    """It is not shown to the model, and the exception is the one that was raised."""
    tool = typed.with_options(failure_mode=mode)

    def broken(_: Point) -> Any:
        raise ZeroDivisionError("boom")

    defect = defect_of(Toolkit.make(tool).call("point", {"x": 1}).provide(tool.handler(broken)), backend)

    assert isinstance(defect, ZeroDivisionError)
    assert defect.__traceback__ is not None


@every("value", [None, 3, "text", {"a": 1}, [1], (1, 2), True])
def test_a_handler_that_returns_a_bare_value_is_a_defect_that_says_what_to_return(
    value: object, backend: Backend
) -> None:
    """It names the tool, shows the value, and lists the forms."""
    defect = defect_of(Toolkit.make(typed).call("point", {"x": 1}).provide(typed.handler(giving(value))), backend)

    assert isinstance(defect, TypeError)
    for said in ("'point'", repr(value), "Success(value)", "Failure(error)", "Effect", "Stream"):
        assert said in str(defect)


@every("text", [name for name in NOT_JSON if name != "50 MB"])
def test_a_round_answers_text_that_is_no_json(text: str, backend: Backend) -> None:
    """A model that writes no JSON reads what was wrong with it, and the history stays writable."""
    given, said = NOT_JSON[text]
    written = given.decode(errors="replace") if isinstance(given, bytes) else given
    if isinstance(given, bytes) or "\ud800" in written:
        written, said = "{", "not JSON"
    model = ScriptedModel.make([ToolCall("c", "point", None, params_text=written)])
    asked = LanguageModel.generate_text("go", toolkit=Toolkit.make(typed)).provide(typed.handler(_handler))

    response = fx.run(asked.provide(model.layer), backend=backend)

    (result,) = response.tool_results
    assert isinstance(result.result, InvalidParameters)
    assert said in result.encoded_result["message"]
    assert Prompt.from_json(Prompt.from_parts(response.content).to_json()).unwrap().messages
