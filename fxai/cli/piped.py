"""What is piped in: the text on stdin, told apart from a terminal and from a pipe that never ends.

>>> import io
>>> piped(io.StringIO("Hello"), wait=True)
'Hello'
"""

from __future__ import annotations

import select
import sys
from typing import Any, Final, TextIO

from fxai.cli.trouble import WRONG_USE, Trouble

__all__ = ["piped", "read_at_most"]

_PATIENCE: Final = 0.5
_LARGEST: Final = 16 * 1024 * 1024


def piped(stdin: TextIO | None, *, wait: bool) -> str | None:
    """The text on `stdin` where it is no terminal. Without `wait`, only if it comes soon: it may be open and never end.

    Bytes that are no UTF-8 become the sign for that.

    Raises:
        Trouble: it is far more than anybody says.
    """
    if stdin is None or (stdin.isatty() and not wait) or (not wait and not _comes_soon(stdin)):
        return None
    read = read_at_most(getattr(stdin, "buffer", stdin), "stdin")
    return read if isinstance(read, str) else read.decode("utf-8", "replace")


def read_at_most(file: Any, name: str, remedy: str = "give less") -> Any:
    """The bytes or the text of an open file, which may never end; `name` is what a message calls it.

    Raises:
        Trouble: it is larger than 16 MiB.
    """
    read = file.read(_LARGEST + 1)
    if len(read) > _LARGEST:
        raise Trouble(f"{name} is larger than {_LARGEST // 2**20} MiB", remedy, code=WRONG_USE)
    return read


def _comes_soon(stdin: TextIO) -> bool:
    try:
        return bool(select.select([stdin], [], [], _PATIENCE)[0])
    except (OSError, ValueError):  # no file at all; on Windows, no socket
        return not hasattr(stdin, "fileno") or sys.platform != "win32"
