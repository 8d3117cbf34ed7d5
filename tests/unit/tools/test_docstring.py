"""Docstrings: what a function says of itself and of its parameters."""

from __future__ import annotations

import subprocess
import sys
from functools import partial

import pytest

from fxai.tools.function import Docstring
from tests.kit.every import every

GOOGLE = """Finds pages.

    Looks in the index
    of today.

    Args:
        query (str): What to look
            for.
        limit: How many, at most.

    Returns:
        The pages.

    Raises:
        ValueError: never
    """
NUMPY = """Finds pages.

    Looks in the index
    of today.

    Parameters
    ----------
    query : str
        What to look
        for.
    limit : int, optional
        How many, at most.

    Returns
    -------
    list
        The pages.
    """
SPHINX = """Finds pages.

    Looks in the index
    of today.

    :param query: What to look
        for.
    :type query: str
    :param int limit: How many, at most.
    :returns: The pages.
    :raises ValueError: never
    """


def _said(text: str | None) -> Docstring:
    def f() -> None: ...

    f.__doc__ = text
    return Docstring.of(f)


@pytest.mark.parametrize("text", [GOOGLE, NUMPY, SPHINX], ids=["google", "numpy", "sphinx"])
def test_each_style_is_read(text: str) -> None:
    """The description without the sections; each parameter in one line."""
    said = _said(text)

    assert said.description == "Finds pages.\n\nLooks in the index\nof today."
    assert said.parameters == {"query": "What to look for.", "limit": "How many, at most."}


def test_parameters_that_share_a_description_each_have_it() -> None:
    """As NumPy's style allows."""
    said = _said("Adds.\n\nParameters\n----------\na, b : int\n    A number.\n")

    assert said.parameters == {"a": "A number.", "b": "A number."}


@every(
    ("text", "description"),
    [
        ("Finds pages.", "Finds pages."),
        ("Note: it is slow.", "Note: it is slow."),
        ("Finds pages.\n\nNote: it is slow.", "Finds pages.\n\nNote: it is slow."),
        ("Finds pages:\n- of today\n- of others: never", "Finds pages:\n- of today\n- of others: never"),
        ("  \n  ", None),
        ("", None),
        (None, None),
    ],
)
def test_text_without_sections_is_the_description(text: str | None, description: str | None) -> None:
    """All of it, as it is written; nothing where there is none."""
    assert _said(text) == Docstring(description)


def test_text_that_no_style_can_read_is_the_description() -> None:
    """Rather than nothing, or an error."""
    text = "Finds pages.\n\n:param"

    assert _said(text).description == text


def test_partials_and_objects_say_what_lies_inside() -> None:
    """A partial its function's docstring; an object that of its `__call__`, else of its class."""

    def f(a: int) -> None:
        """Of the function."""

    class Silent:
        """Of the class."""

        def __call__(self) -> None: ...

    class Speaking:
        """Of the class."""

        def __call__(self) -> None:
            """Of the call."""

    told = [Docstring.of(each).description for each in (partial(partial(f), 1), Silent(), Speaking())]

    assert told == ["Of the function.", "Of the class.", "Of the call."]


def test_a_method_says_what_its_base_says() -> None:
    """Docstrings are inherited."""

    class Parent:
        def run(self) -> None:
            """Runs."""

    class Child(Parent):
        def run(self) -> None: ...

    assert Docstring.of(Child().run).description == "Runs."


def test_the_library_is_loaded_for_docstrings_of_several_lines_only() -> None:
    """Importing and one line cost nothing."""
    code = (
        "import sys, fxai.tools.tool as m\n"
        "def f() -> int:\n    'One line.'\n    return 1\n"
        "m.tool(f)\nprint('docstring_parser' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert done.stdout.strip() == "False"


def test_equal_docstrings_have_one_hash() -> None:
    """In whatever order they describe the parameters."""
    one = Docstring("Adds.", {"a": "The one.", "b": "The other."})
    other = Docstring("Adds.", {"b": "The other.", "a": "The one."})

    assert one == other
    assert {one, other} == {one}
