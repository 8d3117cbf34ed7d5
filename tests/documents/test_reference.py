"""The reference of effects: each public name stands on its page, with an example that runs."""

from __future__ import annotations

import ast
import importlib
import re
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest

from fxai.effects import Cause, Clock, Context, Effect, FiberHandle, Layer, Ref, Runtime, Schedule, Scope, Stream, fx
from fxai.testing import TestClock
from tests.kit.source import definitions, is_public, modules

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


# The fields of these packages have the names and the meaning of the provider's interface.
OF_PROVIDERS = ("fxai.providers.anthropic", "fxai.providers.openai", "fxai.providers.http", "fxai.providers.host")


def _public_classes() -> Iterator[tuple[str, ast.ClassDef]]:
    faces = [importlib.import_module(module.name) for module in modules() if module.path.endswith("__init__.py")]
    values = [getattr(face, name) for face in faces for name in face.__all__]
    offered = {f"{value.__module__}.{value.__qualname__}" for value in values if isinstance(value, type)}
    for module in modules():
        if not module.name.startswith(OF_PROVIDERS):
            for name, node in definitions(module):
                if isinstance(node, ast.ClassDef) and f"{module.name}.{name}" in offered:
                    yield f"{module.name}.{name}", node


def _silent_fields(cls: ast.ClassDef) -> Iterator[str]:
    sections = "\n".join(SECTION.findall(ast.get_docstring(cls) or ""))
    for node, after in pairwise([*cls.body, ast.Pass()]):
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and is_public(node.target.id):
            has_text = isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant)
            is_constant = "ClassVar" in ast.unparse(node.annotation)
            if not (has_text or is_constant or re.search(rf"^    {node.target.id}: ", sections, re.MULTILINE)):
                yield node.target.id


def test_each_field_of_a_public_class_has_a_text() -> None:
    """A docstring below the field, or the section of its class, describes each field of a public class."""
    classes = list(_public_classes())

    assert len(classes) > 300
    assert [f"{name}.{field}" for name, cls in classes for field in _silent_fields(cls)] == []
