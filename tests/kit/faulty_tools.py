"""What `fxai check` is pointed at in these tests: toolkits with faults that were planted, and ones without."""

from __future__ import annotations

from typing import Annotated, Any, Never

import msgspec
from returns.result import Result, Success

from fxai import Destructive, Effect, Layer, Readonly, Service, Strict, Tool, Toolkit, ToolSource, fx, tool
from fxai.annotations import Annotation
from fxai.schema import Schema
from fxai.tools import BoundToolkit


def described(**properties: Any) -> dict[str, Any]:
    """An object schema whose properties are described, where they do not say it themselves."""
    named = {name: {"description": "Said.", **schema} for name, schema in properties.items()}
    return {"type": "object", "properties": named}


class Query(msgspec.Struct, frozen=True):
    """What to look for."""

    text: Annotated[str, msgspec.Meta(description="Words that must occur.")]
    limit: Annotated[int, msgspec.Meta(ge=1, le=50, description="How many at most.")] = 10


class Bare(msgspec.Struct, frozen=True):
    """A parameter that nobody describes."""

    city: str


search = Tool.make("search", description="Looks for documents.", parameters=Query, success=list[str])


@tool
def add(a: int, b: int) -> int:
    """Adds two whole numbers.

    Args:
        a: One.
        b: The other.
    """
    return a + b


class Choice(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One of several."""

    units: Annotated[str, msgspec.Meta(description="Which units.", examples=["C", "F"])] = "C"
    tags: Annotated[dict[str, str], msgspec.Meta(description="Anything else.")] = {}


choose = Tool.make("choose", description="Chooses.", parameters=Choice, input_examples=[{"units": "F"}])
OPEN = {**described(kind={"type": "string"}), "additionalProperties": True, "required": ["kind"]}
report = Tool.dynamic("report", description="Reports anything.", parameters=OPEN)
calm = report.annotate(Strict, False)  # no provider can be strict about it, and that is meant
sensible = Toolkit.make(search, choose).annotate_all({Readonly: True}).merge(Toolkit.make(add.tool, calm))

REQURIED = {**described(path={"type": "string"}), "requried": ["path"]}

TEN: list[Any] = [
    Tool.make("silent"),
    Tool.make("bare", description="Says nothing of its parameter.", parameters=Bare),
    Tool.dynamic("typo", description="Its schema is misspelt.", parameters=REQURIED),
    Tool.dynamic(
        "absent",
        description="It wants what it does not name.",
        parameters={**described(city={"type": "string"}), "required": ["city", "cty"]},
    ),
    Tool.dynamic(
        "crossed",
        description="Its bounds cross.",
        parameters=described(n={"type": "integer", "minimum": 9, "maximum": 1}),
    ),
    Tool.dynamic(
        "default", description="Its default is none.", parameters=described(n={"type": "integer", "default": "ten"})
    ),
    Tool.dynamic(
        "open",
        description="It must be strict, and cannot.",
        parameters=OPEN,
    ).annotate(Strict, True),
    Tool.make("torn", description="It changes nothing, and destroys.")
    .annotate(Readonly, True)
    .annotate(Destructive, True),
    Tool.dynamic(
        "shown",
        description="Its example is none, which only its own validation can say.",
        parameters=Schema.of(Query).document,
        validation=Schema.of(Query).decode,
        input_examples=[{"txt": "x"}],
    ),
    Tool.make("a.b", description="It is sent under another name."),
    Tool.make("a__b", description="And so is this one."),
]
ten: Toolkit[Any] = Toolkit.of(TEN)

PLANTED = {
    ("tool-undescribed", "silent", "/description"),
    ("parameter-undescribed", "bare", "/parameters/properties/city"),
    ("misspelt-keyword", "typo", "/parameters/requried"),
    ("required-unknown", "absent", "/parameters/required/1"),
    ("unsatisfiable", "crossed", "/parameters/properties/n/minimum"),
    ("default-misfit", "default", "/parameters/properties/n/default"),
    ("strict-impossible", "open", "/parameters"),
    ("annotation-contradiction", "torn", "/annotations/destructive"),
    ("input-example-misfit", "shown", "/input_examples/0/text"),
    ("name-collision", "a__b", "/name"),
}
"""The ten faults of `ten`: rule, tool and place."""

LOUD: Annotation[bool] = Annotation("loud", default=False)
own_key = search.annotate(LOUD, True)

# ---- handlers

ping = Tool.make("ping", description="Answers.")
pong = Tool.make("pong", description="Answers too.")
kit = Toolkit.make(ping, pong)
agent_tools = [ping, pong]


def on_ping(_: object) -> Result[None, Never]:
    """Answers."""
    return Success(None)


def on_ping_again(_: object) -> Result[None, Never]:
    """Answers otherwise."""
    return Success(None)


whole = kit.to_layer(ping.handler(on_ping) | pong.handler(on_ping))
half: Any = ping.handler(on_ping)
twice: Any = ping.handler(on_ping) | ping.handler(on_ping_again) | pong.handler(on_ping)
more: Any = whole | search.handler(lambda _: Success([]))
checked_half = kit.to_layer(half)
checked_twice = kit.to_layer(twice)
checked_more = kit.to_layer(more)


class Db(Service):
    """A service that nobody supplies here."""


wanted = fx.service(Db)
needy: Any = Layer.effect(Db, wanted).merge(whole)
failing: Layer[Db, str] = Layer.effect(Db, fx.fail("the database is away"))

opened: list[str] = []


def _open() -> Effect[None]:
    return fx.sync(lambda: opened.append("opened"))


def _close(_: object) -> Effect[None]:
    return fx.sync(lambda: opened.append("closed"))


held = fx.acquire_release(_open(), _close)
source: ToolSource[Any, Any, Any] = ToolSource(held.and_then(fx.succeed(BoundToolkit.make(add))))
bound = BoundToolkit.make(add)
functions = [add]
