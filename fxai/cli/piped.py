"""What is piped in: the text on stdin, told apart from a terminal and from a pipe that never ends.

>>> import io
>>> piped(io.StringIO("Hello"), wait=True)
'Hello'
"""

from __future__ import annotations

import select
import sys
from typing import Final, TextIO

__all__ = ["piped"]

_PATIENCE: Final = 0.5


def piped(stdin: TextIO | None, *, wait: bool) -> str | None:
    """The text on `stdin` where it is no terminal. Without `wait`, only if it comes soon: it may be open and never end.

    Bytes that are no UTF-8 become the sign for that.
    """
    if stdin is None or (stdin.isatty() and not wait) or (not wait and not _comes_soon(stdin)):
        return None
    buffer = getattr(stdin, "buffer", None)
    return stdin.read() if buffer is None else buffer.read().decode("utf-8", "replace")


def _comes_soon(stdin: TextIO) -> bool:
    try:
        return bool(select.select([stdin], [], [], _PATIENCE)[0])
    except (OSError, ValueError):  # no file at all; on Windows, no socket
        return not hasattr(stdin, "fileno") or sys.platform != "win32"
