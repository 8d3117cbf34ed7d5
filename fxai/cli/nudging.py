"""Nudging: a line editor that waits is woken by a signal that came just before it began to wait.

>>> with nudged():
...     pass
"""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Generator
from contextlib import contextmanager
from typing import Final

__all__ = ["nudged"]

_PAUSE: Final = 0.1
_MOST: Final = 50


@contextmanager
def nudged() -> Generator[None]:
    """While the block lasts, a signal that Python heard and has not acted on yet interrupts this thread again.

    GNU readline shows its prompt before it waits. A signal between the two only sets a flag, and Python would look at
    it after the next key. What interrupts is `SIGWINCH`, at which an editor looks at the size of the terminal.
    """
    if threading.current_thread() is not threading.main_thread() or not hasattr(signal, "pthread_kill"):
        yield
        return
    main, over = threading.get_ident(), threading.Event()
    reading, writing = os.pipe()
    os.set_blocking(writing, False)

    watching = threading.Thread(target=_watch, args=(reading, main, over), daemon=True)
    before = signal.set_wakeup_fd(writing, warn_on_full_buffer=False)
    watching.start()
    try:
        yield
    finally:
        over.set()
        signal.set_wakeup_fd(before)
        os.write(writing, b"\0")
        watching.join()
        os.close(reading)
        os.close(writing)


def _watch(reading: int, main: int, over: threading.Event) -> None:
    os.read(reading, 1)
    for _ in range(_MOST):
        if over.wait(_PAUSE):
            return
        signal.pthread_kill(main, signal.SIGWINCH)
