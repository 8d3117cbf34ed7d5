"""How a program is run: the options, their defaults and bounds, and what it is told in plain text."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from fxai.providers.host.host import Program, program_of
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
        ((), {}, (), "command must be the name or path of a program, got an empty command"),
        (("",), {}, (), "command must be the name or path of a program, got an empty command"),
        (("it",), {"format": "xml"}, (), "format must be 'text' or 'json', got 'xml'"),
        (("it",), {"lifetime": "day"}, (), "lifetime must be 'scope' or 'request', got 'day'"),
        (("it",), {}, ("files", "tools"), "takes contains unknown files. Use: tools, schema, options"),
        (("it",), {"format": "text"}, ("tools",), "takes must be empty for a host that reads plain text"),
        *(
            (("it",), {name: value}, (), f"{name} must be greater than 0, got {value!r}")
            for name in ("silence", "timeout", "max_line", "max_answer")
            for value in (0, -1)
        ),
        (("it",), {"silence": float("nan")}, (), "silence must be greater than 0, got nan"),
        (("it",), {"grace": -0.1}, (), "grace must be at least 0, got -0.1"),
        (("it",), {"grace": float("nan")}, (), "grace must be at least 0, got nan"),
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
