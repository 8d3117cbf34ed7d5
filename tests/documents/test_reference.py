"""The reference of effects: each public name stands on its page, with an example that runs."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from fxai.effects import Cause, Clock, Context, Effect, FiberHandle, Layer, Ref, Runtime, Schedule, Scope, Stream, fx
from fxai.testing import TestClock
from tests.kit.source import modules

REFERENCE = Path(__file__).parents[2] / "docs/reference"
CLASSES: dict[str, list[type]] = {
    "effects/cause.md": [Cause],
    "effects/context.md": [Context],
    "effects/effect.md": [Effect],
    "effects/fx.md": [FiberHandle],
    "effects/layer.md": [Layer],
    "effects/ref.md": [Ref],
    "effects/runtime.md": [Runtime],
    "effects/schedule.md": [Schedule],
    "effects/scope.md": [Scope],
    "effects/service.md": [Clock],
    "effects/stream.md": [Stream],
    "testing/clock.md": [TestClock],
}
INSIDE = {  # what other parts of the package call: public in Python, and of no use to a program
    "Clock.deadline",
    "Clock.default",
    "Clock.sleep",
    "FiberHandle.start",
    "TestClock.deadline",
    "TestClock.sleep",
}
BLOCK = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def _written(page: str) -> tuple[str, str]:
    """What stands on a page above the signatures that are made of docstrings: the text, and its Python blocks."""
    text = (REFERENCE / page).read_text("utf-8").partition("\n::: ")[0]
    return BLOCK.sub("", text), "\n".join(BLOCK.findall(text))


def _members(page: str) -> list[str]:
    members = [f"{one.__name__}.{name}" for one in CLASSES[page] for name in vars(one) if not name.startswith("_")]
    return [member for member in members if member not in INSIDE]


def test_every_name_of_fx_is_explained_and_shown() -> None:
    """Each name that `fx` offers stands in a table of its page, and in an example."""
    text, code = _written("effects/fx.md")

    assert [name for name in fx.__all__ if not re.search(rf"fx\.{name}\b", text)] == []
    assert [name for name in fx.__all__ if not re.search(rf"fx\.{name}\b", code)] == []


@pytest.mark.parametrize("page", CLASSES)
def test_every_public_method_is_explained_and_shown(page: str) -> None:
    """Each public member of the page's classes stands in a table of the page, and in an example."""
    text, code = _written(page)
    members = _members(page)

    assert [one for one in members if not re.search(rf"[`.]{one.partition('.')[2]}\b", text)] == []
    assert [one for one in members if not re.search(rf"\.{one.partition('.')[2]}\b", code)] == []


def test_the_list_of_what_is_inside_names_what_exists() -> None:
    """Each name that is left out is a member of a class, and so a list that is out of date is found."""
    there = {f"{one.__name__}.{name}" for classes in CLASSES.values() for one in classes for name in vars(one)}

    assert INSIDE - there == set()


SECTION = re.compile(r"^(?:Args|Attributes|Raises):\n((?:(?: .*)?(?:\n|\Z))+)", re.MULTILINE)
ITEM = re.compile(r"    (?! )(?!\*{0,2}[\w.]+(?:, [\w.]+)*: )\S.*")


def test_each_item_of_a_section_has_a_name() -> None:
    """A line of `Args:`, `Attributes:`, or `Raises:` is "name: text", or continues an item with more indentation."""
    broken = [
        f"{module.path}: {line.strip()}"
        for module in modules()
        for node in ast.walk(module.tree)
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
        for section in SECTION.findall(ast.get_docstring(node) or "")
        for line in section.splitlines()
        if ITEM.fullmatch(line)
    ]

    assert broken == []
