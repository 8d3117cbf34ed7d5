"""The tests that three design documents ask for: dynamic tools (section 11), strict mode (7), tool binding."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated, Any

import msgspec
import pytest
from returns.result import Result, Success

from fxai import Outcome, Schema, Strict, Tool, Toolkit, fx
from fxai.effects import Backend, Gen
from tests.kit.every import every


class Query(msgspec.Struct, frozen=True):
    """A query."""

    query: str


class LimitedQuery(msgspec.Struct, frozen=True):
    """A query, and how many results are wanted."""

    query: str
    limit: int


class LooseQuery(msgspec.Struct, frozen=True):
    """A query, and how many results are wanted, if it matters."""

    query: str
    limit: float | msgspec.UnsetType = msgspec.UNSET


class Stamp(msgspec.Struct, frozen=True):
    """A moment, as milliseconds in JSON."""

    timestamp: Schema.EpochMillis


EMPTY: dict[str, Any] = {"type": "object", "properties": {}}
SEARCH: dict[str, Any] = {
    "type": "object",
    "properties": {"query": {"type": "string"}, "limit": {"type": "number"}},
}


# -- 11.1 type guards


def test_is_dynamic_is_true_for_dynamic_tools_with_a_typed_schema() -> None:
    """A type of ours."""
    assert Tool.is_dynamic(Tool.dynamic("TestTool", parameters=Query))


def test_is_dynamic_is_true_for_dynamic_tools_with_a_json_schema() -> None:
    """A raw document."""
    assert Tool.is_dynamic(Tool.dynamic("TestTool", parameters=EMPTY))


def test_is_dynamic_is_false_for_user_defined_tools() -> None:
    """What `make` made."""
    assert not Tool.is_dynamic(Tool.make("TestTool", parameters=Query))


def test_is_dynamic_is_false_for_provider_defined_tools() -> None:
    """What a constructor of `provider_defined` made."""
    tool = Tool.provider_defined(id="test.provider_tool", name="ProviderTool", provider_name="provider_tool")()

    assert not Tool.is_dynamic(tool)


@pytest.mark.parametrize("value", [None, {}, {"name": "fake"}])
def test_is_dynamic_is_false_for_non_tool_values(value: object) -> None:
    """Anything else."""
    assert not Tool.is_dynamic(value)


# -- 11.2 JSON Schema


def test_the_json_schema_is_derived_from_a_typed_schema() -> None:
    """Required is what has to be there."""
    schema = Tool.dynamic("TestTool", parameters=LooseQuery).json_schema()

    assert schema["type"] == "object"
    assert schema["required"] == ["query"]
    assert set(schema["properties"]) == {"query", "limit"}


def test_the_json_schema_is_given_back_when_it_was_given() -> None:
    """Equal in every keyword."""
    document: dict[str, Any] = {
        "type": "object",
        "properties": {
            "query": {"type": "string", "description": "Search query"},
            "limit": {"type": "number", "minimum": 1, "maximum": 100},
        },
        "required": ["query"],
        "additionalProperties": False,
    }

    assert Tool.dynamic("TestTool", parameters=document).json_schema() == document


def test_refs_and_alternatives_are_preserved() -> None:
    """`$ref`, `$defs` and `oneOf` as they were."""
    document: dict[str, Any] = {
        "type": "object",
        "properties": {
            "value": {"oneOf": [{"type": "string"}, {"type": "number"}]},
            "item": {"$ref": "#/$defs/Item"},
        },
        "$defs": {"Item": {"type": "object", "properties": {"name": {"type": "string"}}}},
    }

    assert Tool.dynamic("TestTool", parameters=document).json_schema() == document


# -- 11.3 handlers


def test_parameters_are_decoded_before_the_handler_is_called(backend: Backend) -> None:
    """By a typed schema."""
    search = Tool.dynamic("SearchTool", parameters=LimitedQuery, success=list[str])
    kit = Toolkit.make(search)

    def on_search(p: LimitedQuery) -> Result[list[str], Any]:
        return Success([f"{p.query}-{i}" for i in range(p.limit)])

    layer = kit.to_layer(search.handler(on_search))
    outcome: Outcome = fx.run(kit.call("SearchTool", {"query": "test", "limit": 3}).provide(layer), backend=backend)

    assert outcome.result == ["test-0", "test-1", "test-2"]


def test_parameters_pass_through_with_a_json_schema(backend: Backend) -> None:
    """The handler gets parsed JSON, of which nothing is known."""
    search = Tool.dynamic("SearchTool", parameters=SEARCH, success=list[str])
    kit = Toolkit.make(search)

    def on_search(params: object) -> Gen[list[str]]:
        yield from fx.sleep(0)
        given = msgspec.convert(params, dict[str, Any])
        return [f"{given['query']}-{i}" for i in range(given["limit"])]

    layer = kit.to_layer(search.handler(on_search))
    outcome = fx.run(kit.call("SearchTool", {"query": "test", "limit": 3}).provide(layer), backend=backend)

    assert outcome.result == ["test-0", "test-1", "test-2"]


def test_the_result_is_encoded_by_the_success_schema(backend: Backend) -> None:
    """A moment for Python, a number for the model."""
    tool = Tool.dynamic("TestTool", parameters=EMPTY, success=Stamp)
    kit = Toolkit.make(tool)
    layer = kit.to_layer(tool.handler(lambda _: Success(Stamp(datetime.fromtimestamp(1, UTC)))))
    outcome = fx.run(kit.call("TestTool", {}).provide(layer), backend=backend)

    assert outcome.result == Stamp(datetime.fromtimestamp(1, UTC))
    assert outcome.encoded_result["timestamp"] == 1000


# -- strict mode, 7.1


def test_strict_defaults_to_undecided() -> None:
    """None: the configuration decides, then the provider."""
    assert Tool.make("TestTool").get(Strict) is None


@pytest.mark.parametrize("value", [True, False])
def test_strict_can_be_set(value: bool) -> None:
    """To either."""
    assert Tool.make("TestTool").annotate(Strict, value).get(Strict) is value


def test_strict_works_with_dynamic_tools() -> None:
    """Which stay dynamic."""
    tool = Tool.dynamic("TestTool", parameters=EMPTY).annotate(Strict, False)

    assert tool.get(Strict) is False
    assert Tool.is_dynamic(tool)


# -- tools from methods: schema generation, and the mapping of types


class Calculator:
    """A tool with a method."""

    def add(
        self,
        a: Annotated[int, "The first number"],
        b: Annotated[int, "The second number"],
    ) -> int:
        """Add two numbers together"""  # noqa: D415  # as the document has it
        return a + b

    def _internal(self, a: int) -> int:
        """Not public, so not offered."""
        return a


def test_a_method_has_the_schema_that_its_signature_says() -> None:
    """Name, description, parameters: as the document's own example, with a dot for its colons."""
    (add,) = Toolkit.from_object(Calculator()).toolkit

    assert {"method_name": add.name, "description": add.description, "parameters": add.json_schema()} == {
        "method_name": "Calculator.add",
        "description": "Add two numbers together",
        "parameters": {
            "type": "object",
            "properties": {
                "a": {"type": "integer", "description": "The first number"},
                "b": {"type": "integer", "description": "The second number"},
            },
            "required": ["a", "b"],
        },
    }


def _parameter(hint: Any) -> tuple[dict[str, Any], list[str]]:
    """The schema of a parameter of this type, and what is required."""

    def f(x: Any) -> None: ...

    f.__annotations__["x"] = hint
    schema = Tool.from_function(f).tool.json_schema()
    return schema["properties"]["x"], schema.get("required", [])


@every(
    ("hint", "schema"),
    [
        (int, {"type": "integer"}),
        (float, {"type": "number"}),
        (str, {"type": "string"}),
        (bool, {"type": "boolean"}),
        (list[str], {"type": "array", "items": {"type": "string"}}),
        (list[list[int]], {"type": "array", "items": {"type": "array", "items": {"type": "integer"}}}),
        (dict[str, int], {"type": "object", "additionalProperties": {"type": "integer"}}),
    ],
)
def test_a_type_maps_to_its_json_type(hint: Any, schema: dict[str, Any]) -> None:
    """Every row of the mapping; a map keeps the type of its values."""
    assert _parameter(hint) == (schema, ["x"])


@pytest.mark.parametrize("hint", [int, str, list[str], dict[str, int]])
def test_an_optional_type_is_its_type_and_not_required(hint: Any) -> None:
    """Null says the same as leaving it out, so the schema takes it too, as the decoder does."""
    inner, _ = _parameter(hint)

    assert _parameter(hint | None) == ({"anyOf": [inner, {"type": "null"}], "default": None}, [])


def test_an_optional_parameter_is_not_required() -> None:
    """The others are, in order."""

    def search(query: str, tags: list[str], limit: int | None) -> list[str]:
        """Finds pages."""
        return [query, *tags][:limit]

    made = Tool.from_function(search)

    assert made.tool.json_schema()["required"] == ["query", "tags"]
    outcome = fx.run(Toolkit.make(made.tool).call("search", {"query": "a", "tags": ["b"]}).provide(made.layer))
    assert outcome.result == ["a", "b"]
