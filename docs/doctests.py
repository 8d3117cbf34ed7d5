"""An extension of griffe that shows examples in docstrings as Python sessions. The build of the pages uses it."""

from __future__ import annotations

import re
from typing import Any

from griffe import Extension, Object

SESSION = re.compile(r"^>>> .*(?:\n(?!\n).*)*(?:\n\n>>> .*(?:\n(?!\n).*)*)*", re.MULTILINE)


class Doctests(Extension):
    """An extension that adds a code fence to each session of a docstring."""

    def on_object(self, *, obj: Object, **_: Any) -> None:
        """Replace the sessions in the docstring of a module, class, function, or attribute."""
        if obj.docstring is not None:
            obj.docstring.value = SESSION.sub(lambda found: f"```pycon\n{found.group()}\n```", obj.docstring.value)
