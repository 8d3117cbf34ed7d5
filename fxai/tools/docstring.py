"""Docstrings: what a function says of itself and of its parameters.

Google, NumPy and Sphinx styles are read, by the library `docstring-parser`.

>>> def add(a: int, b: int) -> int:
...     '''Adds two numbers.
...
...     Args:
...         a: the first
...         b: the second
...     '''
>>> said = Docstring.of(add)
>>> said.description, said.parameters["b"]
('Adds two numbers.', 'the second')
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from functools import partial
from types import MappingProxyType
from typing import Any, cast, final

import msgspec
from typing_extensions import override

__all__ = ["Docstring"]


@final
class Docstring(msgspec.Struct, frozen=True):
    """What a docstring says, its sections taken apart."""

    description: str | None = None
    """The text before and between the sections; None without one."""
    parameters: Mapping[str, str] = {}
    """By parameter, what is said of it, in one line."""

    @staticmethod
    def of(f: Callable[..., Any]) -> Docstring:
        """What the docstring of `f` says; of a `partial` what its function says, of an object what its class says."""
        text = _text(f)
        if not text:
            return Docstring()
        if "\n" not in text and not text.startswith((":", "@")):
            return Docstring(text)
        return _parsed(text)

    @override
    def __hash__(self) -> int:
        return hash((self.description, frozenset(self.parameters)))


def _text(f: Any) -> str:
    said: Any = cast(Any, f).func if isinstance(f, partial) else f  # a partial of a partial is one partial
    if not inspect.isroutine(said):
        cls = cast(Any, type(said))
        said = cls.__call__ if cls.__call__.__doc__ else cls
    return (inspect.getdoc(said) or "").strip()


def _parsed(text: str) -> Docstring:
    from docstring_parser import ParseError, parse  # 20 ms, and only for docstrings of several lines

    try:
        read = parse(text)
    except ParseError:  # not one of the styles: all of it is the description
        return Docstring(text)
    said = {
        name.strip().lstrip("*"): " ".join(parameter.description.split())
        for parameter in read.params
        if parameter.description
        for name in parameter.arg_name.split(",")
    }
    return Docstring((read.description or "").strip() or None, MappingProxyType(said))
