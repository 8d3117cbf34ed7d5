"""Signatures: the parameters of a function as one type."""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from decimal import Decimal
from functools import partial, wraps
from typing import Annotated, Any, Literal, NamedTuple, Optional, TypedDict, Union, cast

import msgspec
import pytest
from typing_extensions import Doc

from fxai import FunctionTool, Schema, SchemaError, Tool, tool
from fxai.tools import CallContext
from fxai.tools.function import Arguments, Signature
from fxai.tools.type_hints import hints_of
from tests.kit.every import every


class Color(enum.Enum):
    """A color."""

    RED = "red"
    BLUE = "blue"


class Point(msgspec.Struct, frozen=True):
    """A point."""

    x: int
    y: int = 0


@dataclasses.dataclass
class Box:
    """A box."""

    side: float


class Named(TypedDict):
    """Something with a name."""

    name: str


class Pair(NamedTuple):
    """Two numbers."""

    a: int
    b: int


class Unset:
    """Marks that nothing was given."""


UNSET: Any = Unset()


def _schema(f: Callable[..., Any], **options: Any) -> dict[str, Any]:
    made: FunctionTool[..., Any, Any, Any, Any] = Tool.from_function(f, **options)
    return made.tool.json_schema()


def _property(hint: Any) -> Any:
    def f(x: Any) -> None: ...

    f.__annotations__["x"] = hint
    return _schema(f)["properties"]["x"]


INTEGER = {"type": "integer"}
STRING = {"type": "string"}


@every(
    ("hint", "expected"),
    [
        (int, INTEGER),
        (float, {"type": "number"}),
        (str, STRING),
        (bool, {"type": "boolean"}),
        (list[str], {"type": "array", "items": STRING}),
        (Sequence[int], {"type": "array", "items": INTEGER}),
        (dict[str, int], {"type": "object", "additionalProperties": INTEGER}),
        (Mapping[str, list[int]], {"type": "object", "additionalProperties": {"type": "array", "items": INTEGER}}),
        (dict[str, Any], {"type": "object"}),
        (Literal["C", "F"], {"enum": ["C", "F"]}),
        (Literal[1, 2], {"enum": [1, 2]}),
        (Annotated[int, msgspec.Meta(ge=0, le=9)], {"type": "integer", "minimum": 0, "maximum": 9}),
        (Schema.IntString, Schema.of(Schema.IntString).json_schema()),
        (Union[int, str], {"anyOf": [INTEGER, STRING]}),  # noqa: UP007  # both spellings are hints
        (Any, {}),
        (object, {}),
    ],
)
def test_a_type_has_its_json_type(hint: Any, expected: dict[str, Any]) -> None:
    """Every row of the type map, and more."""
    assert _property(hint) == expected


@pytest.mark.parametrize(("hint", "name"), [(Point, "Point"), (Box, "Box"), (Named, "Named"), (Color, "Color")])
def test_a_class_is_described_under_its_name(hint: Any, name: str) -> None:
    """Structs, dataclasses and typed dictionaries are objects; an Enum is its values."""

    def f(x: Any) -> None: ...

    f.__annotations__["x"] = hint
    schema = _schema(f)

    assert schema["properties"]["x"] == {"$ref": f"#/$defs/{name}"}
    if hint is Color:
        assert schema["$defs"][name]["enum"] == ["blue", "red"]
    else:
        assert schema["$defs"][name]["type"] == "object"


def test_what_must_be_given_is_required() -> None:
    """All but what has a default and what may be None."""

    def search(
        query: str,
        tags: list[str],
        limit: Annotated[int | None, "How many."],
        page: int = 1,
        after: Optional[str] = None,  # noqa: UP045  # both spellings are hints
    ) -> None: ...

    schema = _schema(search)

    assert schema["type"] == "object"
    assert schema["required"] == ["query", "tags"]
    assert list(schema["properties"]) == ["query", "tags", "limit", "page", "after"]


def test_what_may_be_none_takes_null_or_nothing() -> None:
    """Absent is None, and null is too: the schema says what the decoder accepts."""

    def search(limit: int | None) -> None: ...

    made = tool(search)
    schema = made.tool.json_schema()
    given: list[dict[str, Any]] = [{}, {"limit": None}, {"limit": 2}]
    decoded = [cast(Any, Schema.of(made.parameters).decode(each).unwrap()) for each in given]

    assert schema["properties"]["limit"] == {"anyOf": [INTEGER, {"type": "null"}], "default": None}
    assert [params.limit for params in decoded] == [None, None, 2]


def test_defaults_are_said() -> None:
    """Scalars, enums, containers and objects, in their JSON form."""

    def f(
        a: int = 1,
        b: str = "x",
        c: bool = True,
        d: list[int] = [1, 2],  # noqa: B006  # it must not be shared
        e: Color = Color.RED,
        g: Point = Point(1, 2),  # noqa: B008  # a frozen value
        h: dict[str, int] = {"one": 1},  # noqa: B006  # it must not be shared
        i: Schema.EpochMillis = datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC),
        j: tuple[int, ...] = (1,),
        k: float = 0.5,
    ) -> None: ...

    schema = _schema(f)
    defaults = {name: field["default"] for name, field in schema["properties"].items()}

    assert "required" not in schema
    assert defaults == {
        "a": 1,
        "b": "x",
        "c": True,
        "d": [1, 2],
        "e": "red",
        "g": {"x": 1, "y": 2},
        "h": {"one": 1},
        "i": 1000,
        "j": [1],
        "k": 0.5,
    }


def test_a_default_that_json_cannot_say_is_not_said() -> None:
    """A mark of absence, or NaN; the function still gets it."""

    def f(a: int = UNSET, b: float = float("nan")) -> None: ...

    made = tool(f)
    schema = made.tool.json_schema()
    params: Any = Schema.of(made.parameters).decode({}).unwrap()

    assert schema["properties"] == {"a": INTEGER, "b": {"type": "number"}}
    assert params.a is UNSET
    assert params.b != params.b


def test_a_changeable_default_is_not_shared() -> None:
    """Each call has its own, and the function's stays as it is written."""
    written: list[list[int]] = [[]]

    def f(a: list[list[int]] = written) -> None: ...

    made = tool(f)
    first: Any = Schema.of(made.parameters).decode({}).unwrap()
    first.a[0].append(1)
    second: Any = Schema.of(made.parameters).decode({}).unwrap()

    assert second.a == [[]]
    assert written == [[]]


def test_descriptions_come_from_annotations_then_from_the_docstring() -> None:
    """A `Meta`, a text, a `Doc`; the docstring where none of them speaks."""

    def f(  # noqa: D417  # not all of them are described
        a: Annotated[int, msgspec.Meta(description="by Meta")],
        b: Annotated[int, "by a text"],
        c: Annotated[int, Doc("by a Doc")],
        d: int,
        e: Annotated[int, msgspec.Meta(ge=1)],
        g: Annotated[Point, "by a text"],
        h: int,
    ) -> None:
        """What it does.

        Args:
            a: not this
            b: not this
            c: not this
            d: by the
                docstring
            e: by the docstring
        """

    described = {name: field.get("description") for name, field in _schema(f)["properties"].items()}

    assert described == {
        "a": "by Meta",
        "b": "by a text",
        "c": "by a Doc",
        "d": "by the docstring",
        "e": "by the docstring",
        "g": "by a text",
        "h": None,
    }
    assert _schema(f)["properties"]["e"]["minimum"] == 1


def test_without_parameters_it_is_the_closed_empty_object() -> None:
    """As for `Tool.make` without parameters."""

    def f() -> None: ...

    assert _schema(f) == Tool.make("f").json_schema()


def test_positions_and_names_are_kept() -> None:
    """Positional-only, either, and keyword-only parameters arrive as what they are; the context among them."""

    def f(a: int, /, b: int, context: CallContext, c: int = 3, *, d: int, e: int = 5) -> tuple[int, ...]:
        return (a, b, c, d, e, len(context.call_id))

    def g(a: int, *, b: int, context: CallContext) -> tuple[int, ...]:
        return (a, b, len(context.call_id))

    def h(*, a: int) -> tuple[int, ...]:
        return (a,)

    around = CallContext(Tool.make("f"), "id")
    signatures = [Signature.of(each, "f", {"CallContext": CallContext}) for each in (f, g, h)]
    params = [
        s.parameters(**given)
        for s, given in zip(signatures, ({"a": 1, "b": 2, "d": 4}, {"a": 1, "b": 2}, {"a": 1}), strict=True)
    ]

    assert "context" not in signatures[0].parameters.__struct_fields__
    assert signatures[0].caller(f)(params[0], around) == (1, 2, 3, 4, 5, 2)
    assert signatures[1].caller(g)(params[1], around) == (1, 2, 2)
    assert signatures[2].caller(h)(params[2]) == (1,)


def test_parameters_are_arguments() -> None:
    """Frozen structs, with the function's name and module."""

    def f(a: int) -> None: ...

    cls = tool(f).parameters
    params = cast(Any, cls)(a=1)

    assert issubclass(cls, Arguments)
    assert (cls.__name__, cls.__module__) == ("f", __name__)
    assert repr(params) == "f(a=1)"
    with pytest.raises(AttributeError):
        params.a = 2


def _without(name: str, f: Callable[..., Any]) -> Callable[..., Any]:
    """The function without one of its annotations."""
    del f.__annotations__[name]
    return f


def _bare(a: int, b: int) -> None: ...


def _many(*a: int) -> None: ...


def _rest(**a: int) -> None: ...


def _two_contexts(a: CallContext, b: CallContext) -> None: ...


def _silent(a: int) -> None: ...


def _private(__a: int) -> None: ...


@every(
    ("f", "said"),
    [
        (_without("a", _bare), r"'a' of the function '_bare' has no annotation. Write its type, such as `a: str`"),
        (_many, r"'_many'.* the parameter \*a. Use a list"),
        (_rest, r"'_rest'.* the parameter \*\*a. .* a dict"),
        (_two_contexts, r"'_two_contexts' must have at most one parameter for the CallContext, got two"),
        (_without("return", _silent), r"'_silent' has no return annotation. Write the return type, such as `-> str`"),
        (_private, r"'__a' of the function '_private' must not start with __. Rename it"),
        (dict.fromkeys, r"no annotation|no readable signature"),
        (lambda: None, r"<lambda>"),
    ],
)
def test_what_cannot_be_a_tool_says_why_and_what_to_do(f: Callable[..., Any], said: str) -> None:
    """Where, what, and the remedy."""
    with pytest.raises(SchemaError, match=said):
        tool(f)


def test_names_are_resolved_where_the_function_stands() -> None:
    """Local classes, postponed annotations and those in quotes, nested in others."""

    class Local(msgspec.Struct):
        a: int

    @tool
    def f(x: Local, y: list[Local], z: dict[str, "Local"]) -> None: ...  # noqa: UP037  # quotes in quotes

    schema = f.tool.json_schema()

    assert schema["properties"]["y"] == {"type": "array", "items": {"$ref": "#/$defs/Local"}}
    assert schema["properties"]["z"]["additionalProperties"] == {"$ref": "#/$defs/Local"}


@tool
def _early(x: Late) -> Late:
    return x


class Late(msgspec.Struct):
    """A class that is defined after the function that names it."""

    a: int


def test_a_name_may_be_defined_later() -> None:
    """Before the tool is first used."""
    assert _early.tool.json_schema()["properties"]["x"] == {"$ref": "#/$defs/Late"}


def test_a_name_that_is_never_defined_is_told() -> None:
    """With the function and the name, when the tool is first used."""

    def f(x: int) -> None: ...

    f.__annotations__["x"] = "Nowhere"
    made = tool(f)

    with pytest.raises(
        SchemaError, match="function 'f': an annotation contains an undefined name: name 'Nowhere' is not defined"
    ):
        _ = made.tool


def test_wrappers_and_partials_are_seen_through() -> None:
    """What a partial holds already has a default; what a wrapper wraps has the annotations."""

    def add(a: int, b: int) -> int:
        """Adds."""
        return a + b

    @wraps(add)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        return add(*args, **kwargs)

    bound = partial(add, b=2)
    schema = _schema(bound)

    assert (schema["required"], schema["properties"]["b"]["default"]) == (["a"], 2)
    assert Tool.from_function(bound).description == "Adds."
    assert Tool.from_function(bound).name == "add"
    assert _schema(wrapped)["required"] == ["a", "b"]
    assert set(hints_of(wrapped, {})) == {"a", "b", "return"}


def test_an_object_that_can_be_called_is_a_function() -> None:
    """Named by its class."""

    class Adder:
        """Adds a number."""

        def __call__(self, a: int) -> int:
            return a + 1

    made = Tool.from_function(Adder())

    assert (made.name, made.description, made(2)) == ("Adder", "Adds a number.", 3)
    assert made.tool.json_schema()["required"] == ["a"]


def test_a_decimal_travels_as_msgspec_has_it() -> None:
    """The decoder accepts a decimal as a string or a number, and the JSON Schema of a parameter states both."""

    def f(amount: Decimal) -> None: ...

    assert _schema(f)["properties"]["amount"]["type"] == ["string", "number"]
