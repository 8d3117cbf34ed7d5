"""Tools that a provider defines: their args are checked when the tool is made."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from fxai.schema import SchemaError
from fxai.tools import Tool
from tests.kit.every import every


class Location(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A place."""

    city: str


class Args(msgspec.Struct, frozen=True):
    """What the search is set up with."""

    near: Location | None = None
    most: int = 3


MAKE: Any = Location
WRONG = MAKE(5)  # a Struct does not check itself
SEARCH: Any = Tool.provider_defined(id="acme.search", name="look", provider_name="search", args=Args)


@every(
    "given",
    [
        {"near": WRONG},
        {"near": {"town": "Oslo"}},
        {"near": "Oslo"},
        {"most": "3"},
        {"most": object()},
        {"least": 1},
    ],
)
def test_wrong_args_make_no_tool(given: Any) -> None:
    """Of a wrong type, at any depth, also inside a Struct that was made wrong; or none that there is."""
    with pytest.raises(SchemaError, match=r"acme\.search"):
        SEARCH(**given)


@pytest.mark.parametrize("near", [Location("Oslo"), {"city": "Oslo"}])
def test_args_are_kept_as_their_struct(near: Any) -> None:
    """A part may be given as its Struct or as plain data; options of every tool stand beside."""
    tool = SEARCH(near=near, needs_approval=True)

    assert tool.provider.args == Args(Location("Oslo"))
    assert tool.needs_approval is True


def test_args_are_given_by_the_names_of_their_fields() -> None:
    """What the wire calls them is the Struct's own business."""

    class Renamed(msgspec.Struct, frozen=True, rename="camel"):
        most_pages: int

    make: Any = Tool.provider_defined(id="acme.read", name="read", provider_name="read", args=Renamed)
    tool = make(most_pages=3)

    assert msgspec.to_builtins(tool.provider.args) == {"mostPages": 3}
    with pytest.raises(SchemaError, match="mostPages"):
        make(mostPages=3)
