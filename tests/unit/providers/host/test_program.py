"""How a program is run: the options, their defaults and bounds, and what it is told in plain text."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from fxai.providers.host.program import Program, program_of
from tests.kit.every import every


def test_options_are_kept_as_they_were_given() -> None:
    """Params as JSON, variables in order, the directory as text, the rest as it is; without any, the defaults."""
    full = program_of(
        ("/bin/it", "-x"),
        {"params": {"a": 1}, "env": {"B": "2", "A": "1"}, "cwd": Path("here"), "silence": None, "grace": 0},
        ["tools", "options"],
    )

    assert full == Program(
        ("/bin/it", "-x"),
        params='{"a":1}',
        env=(("A", "1"), ("B", "2")),
        cwd="here",
        silence=None,
        grace=0,
        takes=frozenset({"tools", "options"}),
    )
    assert program_of(("it",), {}) == Program(("it",))
    assert (full.name, repr(full)) == ("it", "Program('it', format='json')")


@every(
    ("command", "options", "takes", "why"),
    [
        ((), {}, (), "a host needs a command"),
        (("",), {}, (), "a host needs a command"),
        (("it",), {"format": "xml"}, (), "format is 'xml': it is 'text' or 'json'"),
        (("it",), {"lifetime": "day"}, (), "lifetime is 'day': it is 'scope' or 'request'"),
        (("it",), {}, ("files", "tools"), "takes names files: there are tools, schema, options"),
        (("it",), {"format": "text"}, ("tools",), "takes nothing but text"),
        *(
            (("it",), {name: value}, (), f"{name} is {value!r}: it must be more than 0")
            for name in ("silence", "timeout", "max_line", "max_answer")
            for value in (0, -1)
        ),
        (("it",), {"silence": float("nan")}, (), "silence is nan: it must be more than 0"),
        (("it",), {"grace": -0.1}, (), "grace is -0.1: it must be at least 0"),
        (("it",), {"grace": float("nan")}, (), "grace is nan: it must be at least 0"),
    ],
)
def test_what_has_no_meaning_is_refused(command: Any, options: Any, takes: Any, why: str) -> None:
    """Each option that can be wrong is named, with what it may be."""
    with pytest.raises(ValueError, match=re.escape(why)):
        program_of(command, options, takes)


@every(
    ("text", "lifetime", "line"),
    [
        ("a", "scope", b"a\n"),
        ("a\r\n\n", "scope", b"a\n"),
        ("\na", "scope", None),
        ("a\nb", "scope", None),
        ("a\rb", "scope", None),
        ("a\nb\n", "request", b"a\nb\n"),
        ("a\rb", "request", b"a\rb\n"),
    ],
)
def test_several_lines_are_one_request_only_where_the_input_ends_behind_it(
    text: str, lifetime: Any, line: bytes | None
) -> None:
    """Where each line is a request, text of several lines cannot be said; line ends behind the text are left out."""
    assert Program(("it",), format="text", lifetime=lifetime).input_line(text) == line


@pytest.mark.parametrize(
    ("format_", "lifetime", "whole"),
    [("text", "request", True), ("text", "scope", False), ("json", "request", False), ("json", "scope", False)],
)
def test_all_is_one_answer_in_plain_text_of_one_request_alone(format_: Any, lifetime: Any, whole: bool) -> None:
    """A program of JSON, and one that is asked again and again, says where an answer ends."""
    assert Program(("it",), format=format_, lifetime=lifetime).whole is whole
