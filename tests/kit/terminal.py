"""A terminal for the command: what is typed into it, and what it shows."""

from __future__ import annotations

import os
import re
import select
import signal
import struct
import subprocess
import sys
import time
from pathlib import Path
from types import TracebackType
from typing import Any, Self, final

from tests.integration.cli.test_process import command, environment

__all__ = ["Terminal"]

_PATIENCE = 60.0
_TAKE = "import fcntl, os, sys, termios; fcntl.ioctl(0, termios.TIOCSCTTY, 0); os.execv(sys.argv[1], sys.argv[1:])"
_CODES = re.compile(r"\x1b(?:\[[0-9;?]*[A-Za-z]|[()][A-Z0-9]|[=>])")


@final
class Terminal:
    """`fxai` in a pseudo terminal of its own, as its session's foreground process."""

    def __init__(self, *arguments: str, cwd: Path, columns: int = 80, **variables: str) -> None:
        import fcntl
        import pty
        import termios

        self._main, inner = pty.openpty()
        fcntl.ioctl(inner, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
        plain = {"TERM": "xterm", "NO_COLOR": "1", "LANG": "C.UTF-8", "PYTHONFAULTHANDLER": "1"}
        given = environment(**{**plain, "XDG_DATA_HOME": str(cwd / "data"), **variables})

        taking = [sys.executable, "-c", _TAKE, *command(*arguments)]
        streams: dict[str, Any] = {"stdin": inner, "stdout": inner, "stderr": inner}
        self.process = subprocess.Popen(taking, cwd=cwd, env=given, start_new_session=True, **streams)
        os.close(inner)
        self.shown = ""
        self._seen = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        os.close(self._main)

    def until(self, *marks: str) -> str:
        """What is shown until each of the marks was, in order, since the last one that was waited for."""
        start = self._seen
        end = time.monotonic() + _PATIENCE
        for mark in marks:
            while (at := self.shown.find(mark, self._seen)) < 0:
                assert self._read(end), f"{mark!r} was not shown: {self.shown[start:]!r}"
            self._seen = at + len(mark)
        return self.shown[start : self._seen]

    def type(self, text: str) -> None:
        """Types something."""
        os.write(self._main, text.encode())

    def resize(self, columns: int) -> None:
        """Makes it wider or narrower."""
        import fcntl
        import termios

        fcntl.ioctl(self._main, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))

    def ended(self) -> int:
        """The exit code, when it has ended; where it does not end, the error says what its threads do."""
        end = time.monotonic() + _PATIENCE
        while self._read(end):
            pass
        try:
            return self.process.wait(_PATIENCE)
        except subprocess.TimeoutExpired:
            self.process.send_signal(signal.SIGABRT)
            while self._read(time.monotonic() + 5):
                pass
            raise AssertionError(f"it does not end: {self.shown}") from None

    def _read(self, end: float) -> bool:
        if not select.select([self._main], [], [], max(0.0, end - time.monotonic()))[0]:
            return False
        try:
            read = os.read(self._main, 65536)
        except OSError:  # it has ended
            return False
        self.shown += _CODES.sub("", read.decode(errors="replace")).replace("\r", "")
        return bool(read)
