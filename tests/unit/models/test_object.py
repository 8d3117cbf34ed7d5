"""Objects: a schema in, a typed value out."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from fxai.effects import Backend, fx
from fxai.messages import AiError, StructuredOutputError
from fxai.models import LanguageModel
from fxai.schema import Schema
from fxai.testing import ScriptedModel, call
from fxai.tools import HandlerFailed, Toolkit
from tests.kit.every import every
from tests.kit.samples import add, double, failure_of, on_add, on_double


class Person(msgspec.Struct, frozen=True):
    """Somebody."""

    name: str
    born: int = 0


class Loose(msgspec.Struct, frozen=True):
    """Everything has a default."""

    name: str = "nobody"


kit = Toolkit.make(add)


def _asked(said: Any, type_: Any = Person, **options: Any) -> Any:
    model = ScriptedModel.make([said])
    program: Any = LanguageModel.generate_object("Who?", type_, **options)
    return program.provide(add.handler(on_add)).provide(double.handler(on_double)).provide(model.layer), model


@pytest.mark.parametrize("type_", [Person, Schema.of(Person)])
def test_the_reply_is_decoded(type_: Any, backend: Backend) -> None:
    """The value is typed; the response stays beside it; the model was told the schema."""
    program, model = _asked('{"name": "Ann", "born": 1990}', type_)
    answer = fx.run(program, backend=backend)

    assert answer.value == Person("Ann", 1990)
    assert answer.response.text == '{"name": "Ann", "born": 1990}'
    assert model.requests[0].response_schema == Schema.of(Person).document


@every(
    ("said", "type_", "pointer"),
    [
        ('{"name": 3}', Person, "/name"),
        ("Ann, I think.", Person, ""),
        ('{"name": "Ann", "born": NaN}', Person, "/born"),
        ("", Loose, ""),
        ('{"name": "An', Loose, ""),
    ],
)
def test_a_reply_that_does_not_decode_is_a_failure_with_text_and_pointer(
    said: str, type_: Any, pointer: str, backend: Backend
) -> None:
    """No text is no object either, whatever has defaults."""
    program, _ = _asked([said], type_)
    failure = failure_of(program, backend)

    assert isinstance(failure, AiError)
    assert isinstance(failure.reason, StructuredOutputError)
    assert (failure.reason.text, failure.reason.pointer) == (said, pointer)
    assert failure.is_retryable


def test_calls_in_the_same_reply_are_answered(backend: Backend) -> None:
    """Their results are in the response, or in the failure."""
    good, _ = _asked([call("add", {"a": 1, "b": 2}, id="c"), '{"name": "Ann"}'], toolkit=kit)
    bad, _ = _asked([call("add", {"a": 1, "b": 2}, id="c"), "no"], toolkit=kit)

    assert [r.result for r in fx.run(good, backend=backend).response.tool_results] == [3]
    assert failure_of(bad, backend).reason.tool_results == (
        {"id": "c", "name": "add", "result": 3, "is_failure": False},
    )


def test_a_failing_handler_fails_before_the_text_is_read(backend: Backend) -> None:
    """As in any other round."""
    program, _ = _asked([call("double", {"a": 9, "b": 9}), "no"], toolkit=Toolkit.make(double))

    assert isinstance(failure_of(program, backend), HandlerFailed)
