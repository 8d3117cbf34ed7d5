"""An extension of griffe that completes the reference pages. The build of the pages uses it.

- Examples in docstrings appear as Python sessions.
- A `msgspec.Struct` has a signature with every field, its type, and its default.
- The `Attributes:` section of a class moves to its fields. A field without a text appears with its type.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

from griffe import (
    Attribute,
    Class,
    Docstring,
    DocstringSectionAttributes,
    Expr,
    ExprCall,
    ExprKeyword,
    Extension,
    Function,
    GriffeLoader,
    Module,
    Object,
    Parameter,
    ParameterKind,
    Parameters,
)

SESSION = re.compile(r"^>>> .*(?:\n(?!\n).*)*(?:\n\n>>> .*(?:\n(?!\n).*)*)*", re.MULTILINE)
ATTRIBUTES = re.compile(r"\n*^Attributes:\n(?:(?: .*)?(?:\n|\Z))+", re.MULTILINE)
STRUCTS = {"msgspec.Struct", "Struct"}
BLANK = "<!-- -->"  # mkdocstrings omits an attribute whose docstring is empty


class Pages(Extension):
    """An extension that adds code fences, signatures, and fields."""

    def on_object(self, *, obj: Object, **_: Any) -> None:
        """Replace the sessions in the docstring of a module, class, function, or attribute."""
        if obj.docstring is not None:
            obj.docstring.value = SESSION.sub(lambda found: f"```pycon\n{found.group()}\n```", obj.docstring.value)

    def on_class(self, *, cls: Class, **_: Any) -> None:
        """Give each public field a docstring, with the text from the section of the class."""
        texts = _texts(cls)
        for field in _own_fields(cls):
            if field.docstring is None:
                field.docstring = Docstring(texts.pop(field.name, BLANK), parent=field)
        if cls.docstring is not None and not texts:
            cls.docstring.value = ATTRIBUTES.sub("", cls.docstring.value)

    def on_package(self, *, pkg: Module, loader: GriffeLoader, **_: Any) -> None:
        """Add the constructor of each struct."""
        for cls in _classes(pkg):
            if "__init__" not in cls.members and _is_struct(cls, loader):
                cls.set_member("__init__", _constructor(cls, loader))


def _classes(parent: Module | Class) -> Iterator[Class]:
    for member in list(parent.members.values()):
        if isinstance(member, Class):
            yield member
        if isinstance(member, Module | Class):
            yield from _classes(member)


def _texts(cls: Class) -> dict[str, str]:
    sections = [] if cls.docstring is None else cls.docstring.parse("google", warnings=False)
    attributes = [section for section in sections if isinstance(section, DocstringSectionAttributes)]
    return {each.name: each.description for section in attributes for each in section.value}


def _own_fields(cls: Class) -> list[Attribute]:
    attributes = [each for each in cls.members.values() if isinstance(each, Attribute) and each.name[0] != "_"]
    return [each for each in attributes if each.annotation is not None and not each.has_labels("property")]


def _bases(cls: Class, loader: GriffeLoader) -> Iterator[Class]:
    for base in cls.bases:
        path = base.canonical_path if isinstance(base, Expr) else base
        with suppress(KeyError):  # a class of another package
            found = loader.modules_collection[path.partition("[")[0]]
            if isinstance(found, Class):
                yield found


def _is_struct(cls: Class, loader: GriffeLoader) -> bool:
    names = {base.canonical_path if isinstance(base, Expr) else base for base in cls.bases}
    return not STRUCTS.isdisjoint(names) or any(_is_struct(base, loader) for base in _bases(cls, loader))


def _constructor(cls: Class, loader: GriffeLoader) -> Function:
    parameters = {parameter.name: parameter for parameter in _parameters(cls, loader)}
    ordered = sorted(parameters.values(), key=lambda parameter: parameter.kind is ParameterKind.keyword_only)
    return Function("__init__", parameters=Parameters(*ordered), parent=cls)


def _parameters(cls: Class, loader: GriffeLoader) -> Iterator[Parameter]:
    for base in _bases(cls, loader):
        yield from _parameters(base, loader)
    words = getattr(cls, "keywords", None) or {}
    is_named = str(words.get("kw_only")) == "True"
    kind = ParameterKind.keyword_only if is_named else ParameterKind.positional_or_keyword
    for field in _own_fields(cls):
        if field.has_labels("instance-attribute"):  # not a `ClassVar`
            yield Parameter(field.name, annotation=field.annotation, kind=kind, default=_default(field.value))


def _default(value: str | Expr | None) -> str | Expr | None:
    if not isinstance(value, ExprCall) or value.canonical_path not in {"msgspec.field", "dataclasses.field"}:
        return value
    options = {each.name: each.value for each in value.arguments if isinstance(each, ExprKeyword)}
    return f"{options['default_factory']}()" if "default_factory" in options else options.get("default")
