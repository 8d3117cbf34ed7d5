"""Aliases that contain themselves."""

from __future__ import annotations

import subprocess
import sys
from typing import Annotated, Any, TypeVar

import msgspec
import pydantic
import pytest
from typing_extensions import TypeAliasType

from fxai.schema import Schema, SchemaError
from fxai.schema.type_info import contains_itself
from tests.kit.every import every

T = TypeVar("T")
Data = TypeAliasType("Data", "dict[str, Data] | list[Data] | str")
Names = TypeAliasType("Names", list[str])
Nested = TypeAliasType("Nested", "list[Nested[T]] | T", type_params=(T,))
Noted = TypeAliasType("Noted", Annotated[int, "a note, not a name"])


@every(
    "tp, expected",
    [(Data, True), (Nested[int], True), (Names, False), (Noted, False), (list[Data], False), (int, False)],
)
def test_an_alias_contains_itself(tp: Any, expected: bool) -> None:
    """Only an alias whose own value contains its name, or an unknown name, contains itself."""
    assert contains_itself(tp) is expected


class Leaf(msgspec.Struct):
    """A struct, which pydantic does not know."""


Mixed = TypeAliasType("Mixed", "Leaf | list[Mixed]")


class Holder(msgspec.Struct):
    """A field with an alias that contains itself."""

    data: Data


@every("tp", [Data, list[Data], Nested[int], Holder, pydantic.JsonValue])
def test_an_alias_that_contains_itself_is_decoded_by_pydantic(tp: Any) -> None:
    """If pydantic is imported, data of any depth decodes and encodes."""
    data: Any = {"data": {"a": [{"b": "c"}]}} if tp is Holder else [[], [[]]]
    schema: Schema[Any] = Schema.of(tp)

    assert schema.encode(schema.decode(data).unwrap()).unwrap() == data
    assert schema.document.validate(data) == ()
    if tp is not pydantic.JsonValue:
        assert schema.document.validate(None) == schema.decode(None).failure().faults != ()


def test_an_alias_that_contains_itself_is_refused_without_pydantic() -> None:
    """Without pydantic, the message names the alias, its location, and two remedies."""
    program = """
import msgspec
from typing_extensions import TypeAliasType
from fxai.schema import Schema, SchemaError
Data = TypeAliasType("Data", "list[Data] | str")
class Holder(msgspec.Struct):
    data: Data
try:
    Schema.of(Holder).check()
except SchemaError as error:
    print(error)
"""
    told = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout

    assert "the alias Data at Holder.data contains itself" in told
    assert "import pydantic" in told


def test_a_structure_in_an_alias_that_contains_itself_is_refused() -> None:
    """Pydantic cannot decode a struct, so that the message names both."""
    with pytest.raises(SchemaError, match=r"Mixed: pydantic cannot validate Mixed.*Leaf"):
        Schema[Any].of(Mixed).check()
