"""Standard input: the text that is piped in, where it is neither a terminal nor a pipe that never ends.

>>> import io
>>> read_stdin(io.StringIO("Hello"), wait=True)
'Hello'
"""

from __future__ import annotations

import select
import sys
from typing import Any, Final, TextIO

from fxai.cli.cli_error import WRONG_USE, CliError

__all__ = ["read_at_most", "read_stdin"]

_PATIENCE: Final = 0.5
_LARGEST: Final = 16 * 1024 * 1024


def read_stdin(stdin: TextIO | None, *, wait: bool) -> str | None:
    """The text on `stdin` where it is no terminal. Without `wait`, only if it comes soon: it may be open and never end.

    Bytes that are not UTF-8 become U+FFFD.

    Raises:
        CliError: it is larger than 16 MiB.
    """
    if stdin is None or (stdin.isatty() and not wait) or (not wait and not _comes_soon(stdin)):
        return None
    read = read_at_most(getattr(stdin, "buffer", stdin), "stdin")
    return read if isinstance(read, str) else read.decode("utf-8", "replace")


def read_at_most(file: Any, name: str, remedy: str = "give less") -> Any:
    """The bytes or the text of an open file, which may never end; `name` is what a message calls it.

    Raises:
        CliError: it is larger than 16 MiB.
    """
    read = file.read(_LARGEST + 1)
    if len(read) > _LARGEST:
        raise CliError(f"{name} is larger than {_LARGEST // 2**20} MiB", remedy, code=WRONG_USE)
    return read


def _comes_soon(stdin: TextIO) -> bool:
    try:
        return bool(select.select([stdin], [], [], _PATIENCE)[0])
    except (OSError, ValueError):  # no file at all; on Windows, no socket
        return not hasattr(stdin, "fileno") or sys.platform != "win32"
