"""Tools: named operations as values, of three kinds."""

from __future__ import annotations

import gc
import pickle
from collections.abc import Callable
from functools import partial
from typing import Any
from weakref import ref

import msgspec
import pytest
from returns.result import Failure, Result, Success

from fxai.annotations import Annotations, Destructive, Meta, Readonly, Strict, Title
from fxai.effects import fx
from fxai.schema import Empty, JsonSchema, Schema, SchemaError
from fxai.tools import Example, ExternalTool, Tool, Toolkit
from tests.kit.every import every
from tests.kit.samples import Sum, TooBig, add, on_add

RAW: dict[str, Any] = {
    "type": "object",
    "properties": {"q": {"type": "string"}, "item": {"$ref": "#/$defs/Item"}, "v": {"oneOf": [{"type": "null"}, {}]}},
    "required": ["q"],
    "additionalProperties": False,
    "$defs": {"Item": {"type": "object"}},
}


class SearchArgs(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a search is set up with."""

    size: int = 1
    sites: tuple[str, ...] = ()


class Described(msgspec.Struct, frozen=True):
    """Where to look."""

    place: str


def _search(**given: Any) -> Any:
    make: Callable[..., Any] = Tool.provider_defined(
        id="acme.search", name="Search", provider_name="search_v2", args=SearchArgs
    )
    return make(**given)


def _shell(**given: Any) -> Any:
    make: Callable[..., Any] = Tool.provider_defined(
        id="acme.shell",
        name="Shell",
        provider_name="shell",
        requires_handler=True,
        parameters=Described,
        success=str,
        failure=TooBig,
    )
    return make(**given)


KINDS: dict[str, Any] = {
    "user-defined": Tool.make("made", parameters=Sum, success=int),
    "dynamic": Tool.dynamic("raw", parameters=RAW),
    "provider-defined": _search(size=3),
}


# -- constructors


def test_make_defaults() -> None:
    """Without options a tool takes a closed empty object, gives nothing, fails with nothing, in mode "error"."""
    tool = Tool.make("ping")

    assert tool.json_schema() == {"type": "object", "properties": {}, "additionalProperties": False}
    assert tool.parameters == Schema.of(Empty)
    assert tool.success.decode(None) == Success(None)
    assert isinstance(tool.failure.decode(None), Failure)
    assert tool.failure_mode == "error"
    assert tool.description is None
    assert (tool.kind, tool.requires_handler, tool.needs_approval) == ("user-defined", True, False)
    assert (tool.input_examples, dict(tool.provider_options), tool.dependencies) == ((), {}, ())
    assert tool.to_model_output is None


def test_dynamic_defaults() -> None:
    """A dynamic tool takes what `make` takes by default, and gives anything JSON can carry."""
    tool = Tool.dynamic("ping")

    assert tool.json_schema() == {"type": "object", "properties": {}, "additionalProperties": False}
    assert tool.success.decode({"any": [1]}) == Success({"any": [1]})
    assert (tool.failure_mode, tool.validation, tool.kind) == ("error", "schema", "dynamic")


def test_every_option_is_kept() -> None:
    """Each option of a constructor is found on the tool."""

    def shown(value: Any) -> str:
        return f"<{value}>"

    tool = Tool.make(
        "t",
        parameters=dict[str, int],
        description="Says t.",
        failure_mode="return",
        annotations={Title: "T", Readonly: True},
        needs_approval=True,
        input_examples=[{"a": 1}, Example("one?", {"a": 2})],
        to_model_output=shown,
        provider_options={"acme": {"cache": True}},
        dependencies=[str],
    )

    assert (tool.description, tool.failure_mode, tool.needs_approval) == ("Says t.", "return", True)
    assert (tool.get(Title), tool.get(Readonly)) == ("T", True)
    assert tool.input_examples == (Example(None, {"a": 1}), Example("one?", {"a": 2}))
    assert tool.to_model_output is shown
    assert dict(tool.provider_options) == {"acme": {"cache": True}}
    assert tool.dependencies == (str,)


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"failure_mode": "maybe"}, "'error' or 'return'"),
        ({"sucess": int}, "'sucess'"),
    ],
)
def test_a_wrong_option_is_an_error_that_says_what_there_is(wrong: dict[str, Any], said: str) -> None:
    """An option that there is none of, or a mode that is none, is refused by name."""
    make: Any = Tool.make

    with pytest.raises(SchemaError, match=said):
        make("t", **wrong)


async def _awaited(value: object) -> object:
    return value


def _alone() -> int:
    return 1


def _together(value: object, more: object) -> object:
    return value, more


def odd(a: int, b: int) -> int:
    """Adds."""
    return a + b


def _later(**options: Any) -> Any:
    return Tool.make("odd", parameters=Sum).with_options(**options)


def _of_function(**options: Any) -> Any:
    made: Any = Tool.from_function
    return made(odd, **options).tool


MAKE: Any = Tool.make
DYNAMIC: Any = Tool.dynamic
ALL_KINDS: dict[str, Callable[..., Any]] = {
    "make": partial(MAKE, "odd", parameters=Sum),
    "dynamic, typed": partial(DYNAMIC, "odd", parameters=Sum),
    "dynamic, raw": partial(DYNAMIC, "odd", parameters=Schema.of(Sum).document),
    "provider-defined": Tool.provider_defined(
        id="acme.odd", name="odd", provider_name="odd", requires_handler=True, parameters=Sum
    ),
    "later": _later,
    "from a function": _of_function,
}
WRONG: list[tuple[dict[str, Any], str]] = [
    ({"input_examples": [{"a": 1, "b": 2}, {"a": 1, "b": "2"}]}, "example 2 is invalid: /b: expected integer"),
    ({"input_examples": [{"a": 1}]}, "example 1 is invalid: /b: expected integer, found nothing"),
    ({"input_examples": [Example("?", {"a": None, "b": 2})]}, "example 1 is invalid: /a: expected integer"),
    ({"input_examples": [Sum(1, 2)]}, "example 1 is invalid: expected plain JSON data, found a Python Sum"),
    ({"input_examples": [[1, 2]]}, "example 1 is invalid"),
    ({"input_examples": {"a": 1, "b": 2}}, "input_examples must be a list of examples"),
    ({"input_examples": Example(None, {"a": 1, "b": 2})}, "input_examples must be a list of examples"),
    ({"input_examples": '{"a": 1, "b": 2}'}, "input_examples must be a list of examples"),
    ({"input_examples": 5}, "input_examples must be a list of examples"),
    ({"to_model_output": _awaited}, "to_model_output must not be an async function"),
    ({"to_model_output": _alone}, "to_model_output must accept the success as its only argument"),
    ({"to_model_output": _together}, "to_model_output must accept the success as its only argument"),
    ({"to_model_output": "x"}, "to_model_output must be .*, got 'x'"),
]


@every("kind", list(ALL_KINDS))
@every(("wrong", "said"), WRONG)
def test_options_that_cannot_work_are_refused_when_the_tool_is_made(
    wrong: dict[str, Any], said: str, kind: str
) -> None:
    """Examples that the parameters do not allow, and functions that cannot be called; the tool is named."""
    with pytest.raises(SchemaError, match=f"tool 'odd': .*{said}"):
        ALL_KINDS[kind](**wrong)


def test_examples_are_measured_by_what_the_tool_would_check() -> None:
    """Not where it checks nothing or asks a function, nor for what a provider runs; builtins may show results."""
    hosted = Tool.provider_defined(id="acme.search", name="search", provider_name="search")
    unfit: list[Any] = [{"a": "x"}]
    document = Schema.of(Sum).document
    tools: list[Any] = [
        DYNAMIC("t", parameters=document, validation="none", input_examples=unfit),
        DYNAMIC("t", parameters=document, validation=Success, input_examples=unfit),
        hosted(input_examples=unfit),
        MAKE("t", input_examples=[{}], to_model_output=str),
        MAKE("t", parameters=Schema.EpochMillis, input_examples=iter([5]), to_model_output=dict.fromkeys),
    ]

    assert [len(tool.input_examples) for tool in tools] == [1] * 5


@pytest.mark.parametrize("name", ["", "  ", None, 3])
def test_a_name_is_a_text_that_is_not_blank(name: Any) -> None:
    """A blank name, or none, is refused by each constructor and by `rename`."""
    for make in (lambda: Tool.make(name), lambda: Tool.dynamic(name), lambda: add.rename(name)):
        with pytest.raises(SchemaError, match="not blank"):
            make()


def test_a_typed_dynamic_tool_is_always_validated() -> None:
    """`validation` is for raw documents; with a type it is refused."""
    make: Any = Tool.dynamic

    with pytest.raises(SchemaError, match="Omit validation"):
        make("t", parameters=Sum, validation="none")


@every(
    ("document", "said"),
    [
        ({"$ref": "https://example.com/schema.json"}, "ref"),
        ({"properties": {"a": {"$ref": "file:///etc/passwd"}}}, "/properties/a"),
        ({"properties": {"a": {"pattern": "("}}}, "/properties/a/pattern"),
        ({"type": "objekt"}, "type"),
        ({"x": object()}, "/x"),
    ],
)
def test_a_document_that_is_no_usable_schema_is_refused_with_the_place(document: dict[str, Any], said: str) -> None:
    """Remote references, broken patterns and what is no JSON Schema are found when the tool is made."""
    with pytest.raises(SchemaError, match=said):
        Tool.dynamic("t", parameters=document)


@every(
    ("wrong", "said"),
    [
        pytest.param(Described | SearchArgs, r"Tag each class.*tag=True", id="structs without tags"),
        pytest.param(list[Described | SearchArgs], r"Tag each class", id="structs without tags inside"),
        pytest.param(set[int] | list[int], r"more than one array-like", id="two arrays"),
        pytest.param(3, r"Type '3' is not supported", id="a value"),
        pytest.param("no type", r"got the string 'no type'", id="a text"),
        pytest.param([int], r"is not a type", id="a list"),
    ],
)
@every("place", ["parameters", "success", "failure"])
def test_a_type_that_no_value_can_be_told_by_is_refused_when_the_tool_is_made(
    place: str, wrong: Any, said: str
) -> None:
    """The message names the tool, the place and the remedy."""
    types: dict[str, Any] = {place: wrong}
    with pytest.raises(SchemaError, match=f"tool 'pay': {place}: .*{said}"):
        Tool.make("pay", **types)


class Late(msgspec.Struct, frozen=True, tag=True):
    """A failure."""

    days: int


class Lost(msgspec.Struct, frozen=True, tag=True):
    """Another one."""

    place: str


def test_a_union_of_failures_goes_out_with_the_tag_of_each(backend: Any) -> None:
    """`failure=Late | Lost` needs no more than a tag on each, and comes back as what it was."""
    ship = Tool.make("ship", parameters=int, failure=Late | Lost, failure_mode="return")

    def on_ship(days: int) -> Result[None, Late | Lost]:
        return Failure(Late(days)) if days else Failure(Lost("sea"))

    kit: Any = Toolkit.make(ship)
    handlers: Any = ship.handler(on_ship)
    late, lost = (fx.run(kit.call("ship", days).provide(handlers), backend=backend).encoded_result for days in (3, 0))

    assert (late, lost) == ({"type": "Late", "days": 3}, {"type": "Lost", "place": "sea"})
    assert ship.failure.decode(late).unwrap() == Late(3)


def test_a_type_without_a_json_form_is_refused() -> None:
    """A parameter type that JSON cannot carry is a SchemaError at the latest when its schema is asked for."""
    with pytest.raises(SchemaError, match="no JSON form"):
        Tool.make("t", parameters=type("Odd", (), {})).json_schema()


# -- kinds


@pytest.mark.parametrize("kind", list(KINDS))
def test_exactly_one_predicate_is_true(kind: str) -> None:
    """Each tool is of one kind, however it was changed since."""
    for tool in (KINDS[kind], KINDS[kind].annotate(Strict, False).rename("x").with_description("y").prefix("z.")):
        assert tool.kind == kind
        assert Tool.is_user_defined(tool) is (kind == "user-defined")
        assert Tool.is_dynamic(tool) is (kind == "dynamic")
        assert Tool.is_provider_defined(tool) is (kind == "provider-defined")


class _Odd:
    @property
    def __class__(self) -> Any:
        raise RuntimeError("do not ask")

    @__class__.setter
    def __class__(self, value: Any) -> None:
        raise RuntimeError("do not tell")


@every(
    "make", [lambda: None, dict, lambda: {"name": "fake"}, lambda: 3, lambda: "add", lambda: Tool, Toolkit.empty, _Odd]
)
def test_the_predicates_are_false_for_anything_else(make: Callable[[], object]) -> None:
    """What is no tool is of no kind, and asking never raises, not even where the thing itself does."""
    thing = make()

    assert not Tool.is_user_defined(thing)
    assert not Tool.is_dynamic(thing)
    assert not Tool.is_provider_defined(thing)


# -- JSON Schema


def test_a_raw_document_is_given_back_as_it_was_given() -> None:
    """`$ref`, `oneOf` and all, equal to what was given."""
    assert Tool.dynamic("t", parameters=RAW).json_schema() == RAW


def test_later_changes_to_a_document_do_not_show() -> None:
    """The tool has its own document; what is given back is a copy of that."""
    given: dict[str, Any] = {"type": "object", "required": ["q"], "properties": {"q": {"type": "string"}}}
    tool = Tool.dynamic("t", parameters=given)
    before = tool.json_schema()
    given["required"].append("other")
    given["properties"]["q"]["type"] = "number"
    before["required"].clear()

    assert tool.json_schema() == {"type": "object", "required": ["q"], "properties": {"q": {"type": "string"}}}


def test_a_document_may_be_a_json_schema_value() -> None:
    """A `JsonSchema` is taken as a raw document is."""
    assert Tool.dynamic("t", parameters=JsonSchema.of(RAW)) == Tool.dynamic("t", parameters=RAW)


def test_later_changes_to_examples_and_options_do_not_show() -> None:
    """Examples, provider options and annotation values are the tool's own copies."""
    example: dict[str, Any] = {"a": [1]}
    options: dict[str, Any] = {"acme": {"cache": True}}
    meta: dict[str, Any] = {"x": {"y": 1}}
    examples = [example, Example("r", example)]
    tool = Tool.make("t", parameters=dict[str, list[int]], input_examples=examples, provider_options=options)
    marked = tool.annotate(Meta, meta)
    example["a"].append(2)
    options["acme"]["cache"] = False
    meta["x"]["y"] = 2

    assert [e.parameters for e in tool.input_examples] == [{"a": [1]}, {"a": [1]}]
    assert tool.provider_options["acme"] == {"cache": True}
    assert marked.get(Meta) == {"x": {"y": 1}}


@every(
    ("tool", "expected"),
    [
        (Tool.make("t", parameters=Described, description="given"), "given"),
        (Tool.make("t", parameters=Described), "Where to look."),
        (Tool.dynamic("t", parameters={"type": "object", "description": "from the document"}), "from the document"),
        (Tool.dynamic("t", parameters={"type": "object"}), None),
        (Tool.make("t"), None),
    ],
)
def test_the_description_falls_back_to_the_schema(tool: Tool[Any, Any, Any], expected: str | None) -> None:
    """As given; else what the parameters' schema says of itself; else None."""
    assert tool.description == expected


# -- values


@pytest.mark.parametrize("kind", list(KINDS))
def test_a_tool_is_immutable(kind: str) -> None:
    """No field can be set, and no map inside can be changed."""
    tool = KINDS[kind]

    with pytest.raises(AttributeError):
        tool.name = "other"
    with pytest.raises(TypeError):
        tool.provider_options["x"] = 1


@pytest.mark.parametrize("kind", list(KINDS))
def test_a_tool_without_functions_can_be_pickled(kind: str) -> None:
    """What comes out of a pickle is equal, hashes equal and has the same identity, annotations and all."""
    tool = KINDS[kind].annotate(Meta, {"x": 1}).with_options(provider_options={"acme": {"y": 2}})
    back = pickle.loads(pickle.dumps(tool))

    assert back == tool
    assert hash(back) == hash(tool)
    assert back.identity == tool.identity
    assert type(back) is type(tool)
    with pytest.raises(TypeError):
        back.provider_options["x"] = 1


def test_equal_tools_are_one_member_of_a_set() -> None:
    """Tools compare by content and hash by identity and name."""
    one, other = Tool.make("t", parameters=Sum), Tool.make("t", parameters=Sum)

    assert one == other
    assert len({one, other, one.annotate(Title, "T")}) == 2
    assert one != one.with_description("x")
    assert one != one.external()


def test_a_tool_of_unhashable_payloads_has_a_hash() -> None:
    """Examples and documents are plain data; the hash leaves them out."""
    tool = Tool.dynamic("t", parameters=RAW, input_examples=[{"q": "x"}], annotations={Meta: {"a": [1]}})

    assert hash(tool) == hash(Tool.dynamic("t", parameters=RAW))


# -- identity


def test_identity_of_equal_values_is_one_object() -> None:
    """Two tools of equal values have the same identity object, also after pickle."""
    first, second = Tool.make("ping", success=str), Tool.make("ping", success=str)

    assert first.identity is second.identity is pickle.loads(pickle.dumps(first)).identity


def test_identity_does_not_keep_its_tool_alive() -> None:
    """A tool is collected although a function of its identity refers to the tool."""

    def make() -> ref[object]:
        seen: list[object] = []
        tool = Tool.dynamic("seen", parameters={}, validation=lambda _: Success(seen))
        seen.append(tool)
        return ref(tool.identity)

    identity = make()
    gc.collect()

    assert identity() is None


CHANGES: list[Callable[[Tool[Any, Any, Any]], Tool[Any, Any, Any]]] = [
    lambda t: t.annotate(Title, "T"),
    lambda t: t.annotate_all({Destructive: False}),
    lambda t: t.rename("other"),
    lambda t: t.prefix("p."),
    lambda t: t.with_description("Other words."),
    lambda t: t.with_options(needs_approval=True, input_examples=[{"a": 1, "b": 2}]),
]


@every("change", CHANGES)
def test_what_is_said_of_a_tool_keeps_its_identity_and_its_handler(
    change: Callable[[Tool[Any, Any, Any]], Tool[Any, Any, Any]],
) -> None:
    """Annotating, renaming and describing keep the handlers that were made for the tool."""
    changed = change(add)
    called: Any = Toolkit.make(changed).call(changed.name, {"a": 1, "b": 2}).provide(add.handler(on_add))

    assert changed.identity == add.identity
    assert fx.run(called).result == 3


@every(
    "other",
    [
        Tool.make("add", parameters=Described, success=int),
        Tool.make("add", parameters=Sum, success=str),
        Tool.make("add", parameters=Sum, success=int, failure=TooBig),
        Tool.make("add", parameters=Sum, success=int, failure_mode="return"),
        Tool.make("plus", parameters=Sum, success=int),
        Tool.dynamic("add", parameters=Sum, success=int),
        Tool.dynamic("add", parameters=Schema.of(Sum).json_schema(), success=int),
        add.with_options(failure_mode="return"),
    ],
)
def test_another_schema_mode_or_kind_is_another_tool(other: Tool[Any, Any, Any]) -> None:
    """What the constructor was given makes the tool: its handlers are no others'."""
    called: Any = Toolkit.make(other).call(other.name, {"a": 1, "b": 2}).provide(add.handler(on_add))
    ended = fx.run(called.exit())

    assert other.identity != add.identity
    assert "no layer provides a handler" in str(ended) or ended.value.is_failure


def test_the_failure_mode_can_be_changed_for_good() -> None:
    """`with_options(failure_mode=…)` is equal to the tool made so."""
    made = Tool.make("add", parameters=Sum, success=int, failure_mode="return")

    assert add.with_options(failure_mode="return") == made
    assert made.with_options(failure_mode="error").identity == add.identity


def test_with_options_changes_what_is_named_and_nothing_else() -> None:
    """Options that are not named stay."""
    tool = Tool.make("t", description="A", needs_approval=True, annotations=Annotations().set(Title, "T"))
    changed = tool.with_options(description="B")

    assert (changed.description, changed.needs_approval, changed.get(Title)) == ("B", True, "T")


# -- external tools


def test_an_external_tool_needs_no_handler() -> None:
    """It is the same operation, answered by somebody else; what is said of it keeps it external."""
    outside = add.external()

    assert isinstance(outside.annotate(Title, "T").rename("x"), ExternalTool)
    assert not outside.requires_handler
    assert outside.json_schema() == add.json_schema()
    assert Tool.is_user_defined(outside)
    assert outside.external() == outside


# -- provider-defined tools


def test_a_provider_defined_tool_takes_args_and_options_side_by_side() -> None:
    """The provider's args go into a Struct, our options beside them, neither into the other."""
    tool = _search(size=3, sites=["a"], description="Looks.", annotations={Title: "S"})

    assert tool.provider.id == "acme.search"
    assert (tool.name, tool.provider.name) == ("Search", "search_v2")
    assert tool.provider.args == SearchArgs(3, ("a",))
    assert (tool.description, tool.get(Title)) == ("Looks.", "S")
    assert not tool.requires_handler
    assert isinstance(tool, ExternalTool)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"sise": 3}, "unknown argument 'sise'. Use one of: size, sites"),
        ({"size": "three"}, "size"),
        ({"failure_mode": "return"}, "requires_handler"),
    ],
)
def test_a_wrong_arg_is_an_error_that_says_where(given: dict[str, Any], said: str) -> None:
    """An unknown arg, one of a wrong type, and a failure mode where the provider runs the tool."""
    with pytest.raises(SchemaError, match=said):
        _search(**given)


def test_a_provider_defined_tool_that_asks_back_has_a_handler(backend: Any) -> None:
    """Its parameters are typed, and its failure mode is not among the provider's args."""
    tool = _shell(failure_mode="return")

    def on_shell(p: Described) -> Result[str, TooBig]:
        return Success(p.place) if p.place != "far" else Failure(TooBig(1))

    handlers: Any = tool.handler(on_shell)
    kit: Any = Toolkit.make(tool)

    assert tool.requires_handler
    assert tool.provider.args == Empty()
    assert fx.run(kit.call("Shell", {"place": "here"}).provide(handlers), backend=backend).result == "here"
    assert fx.run(kit.call("Shell", {"place": "far"}).provide(handlers), backend=backend).encoded_result == {"limit": 1}


def test_provider_defined_tools_of_other_args_are_other_tools() -> None:
    """The args are part of the identity."""
    assert _search(size=1).identity != _search(size=2).identity
    assert _search(size=1).identity == _search(size=1, description="x").identity
