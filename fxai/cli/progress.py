r"""Progress on stderr. Use `LoadProgress` while a model loads, and `Spinner` for other waits.

`LoadProgress` shows a bar in a terminal, and one line per stage in other outputs:

>>> import io
>>> from fxai.providers.local import Progress
>>> stderr = io.StringIO()
>>> with LoadProgress(stderr) as loading:
...     loading(Progress("assembling", 0, 250_000_000))
...     loading(Progress("assembling", 9_000, 250_000_000))
>>> stderr.getvalue()
'fxai: assembling the model, 250 MB\n'

`Spinner` shows the name of a wait in a terminal after 0.7 seconds. In other outputs it shows nothing:

>>> with Spinner(stderr, "calling add"):
...     pass
"""

from __future__ import annotations

from threading import Lock, Timer
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Self, TextIO, final

from fxai.cli.screen import console
from fxai.schema.display import one_line

if TYPE_CHECKING:
    from fxai.providers.local import Progress

_PATIENCE: Final = 0.7


@final
class Spinner:
    """A spinner that runs during its block. Other output stays readable."""

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

        with self._lock:
            if not self._over:
                self._status = console(self._stderr).status(Text(f"{one_line(self._what)} …"))
                self._status.start()

    def end(self) -> None:
        """Remove the spinner."""
        self._timer.cancel()
        with self._lock:
            self._over = True
            if self._status is not None:
                self._status.stop()
                self._status = None


@final
class LoadProgress:
    """A view of progress during its block. Any thread can report progress."""

    def __init__(self, stderr: TextIO, *, color: bool | None = None, quiet: bool = False) -> None:
        self._stderr = stderr
        self._quiet = quiet
        self._color = color
        self._stage: str | None = None
        self._bar: Any = None
        self._task: Any = None

    def __enter__(self) -> Self:
        if self._stderr.isatty() and not self._quiet:
            from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn

            columns = (TextColumn("[dim]{task.description}"), BarColumn(bar_width=30), DownloadColumn())
            self._bar = Progress(*columns, console=console(self._stderr, self._color), transient=True)
            self._bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.end()

    def __call__(self, progress: Progress) -> None:
        """Show `progress`."""
        began = progress.stage != self._stage
        self._stage = progress.stage
        if self._bar is None:
            if began and not self._quiet:
                self._stderr.write(f"fxai: {progress.stage} the model, {progress.total / 1_000_000:.0f} MB\n")
                self._stderr.flush()
            return
        if began:
            if self._task is not None:
                self._bar.remove_task(self._task)
            self._task = self._bar.add_task(f"{progress.stage} the model", total=progress.total)
        self._bar.update(self._task, completed=progress.done)

    def end(self) -> None:
        """Remove the bar."""
        if self._bar is not None:
            self._bar.stop()
            self._bar = None
