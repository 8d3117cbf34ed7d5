"""A spinner: names in a terminal what is being waited for, after 0.7 seconds; elsewhere it shows nothing.

>>> import io
>>> stderr = io.StringIO()
>>> with Spinner(stderr, "calling add"):
...     pass
>>> stderr.getvalue()
''
"""

from __future__ import annotations

from threading import Lock, Timer
from types import TracebackType
from typing import Any, Final, Self, TextIO, final

from fxai.schema.display import one_line

__all__ = ["Spinner"]

_PATIENCE: Final = 0.7


@final
class Spinner:
    """Shows a spinner while its block lasts; other output stays readable."""

    def __init__(self, stderr: TextIO, what: str, *, patience: float = _PATIENCE) -> None:
        self._stderr = stderr
        self._what = what
        self._lock = Lock()
        self._timer = Timer(patience, self._show)
        self._timer.daemon = True
        self._status: Any = None
        self._over = False

    def __enter__(self) -> Self:
        if self._stderr.isatty():
            self._timer.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.end()

    def _show(self) -> None:
        from rich.text import Text

        from fxai.cli.screen import console

        with self._lock:
            if not self._over:
                self._status = console(self._stderr).status(Text(f"{one_line(self._what)} …"))
                self._status.start()

    def end(self) -> None:
        """Removes the spinner."""
        self._timer.cancel()
        with self._lock:
            self._over = True
            if self._status is not None:
                self._status.stop()
                self._status = None
