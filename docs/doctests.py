"""For the pages: examples in docstrings are shown as the Python sessions that they are."""

from __future__ import annotations

import re
from typing import Any

from griffe import Extension, Object

SESSION = re.compile(r"^>>> .*(?:\n(?!\n).*)*(?:\n\n>>> .*(?:\n(?!\n).*)*)*", re.MULTILINE)


class Doctests(Extension):
    """Puts a fence around each session of a docstring."""

    def on_object(self, *, obj: Object, **_: Any) -> None:
        """Called once for each module, class, function and attribute."""
        if obj.docstring is not None:
            obj.docstring.value = SESSION.sub(lambda found: f"```pycon\n{found.group()}\n```", obj.docstring.value)
