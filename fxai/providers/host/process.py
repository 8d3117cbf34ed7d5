"""Processes: a program that runs, its lines, and its end.

>>> import anyio
>>> from fxai.providers.host.program import Program
>>> async def first_line() -> bytes | None:
...     process = await Process.start(Program(("echo", "hello")))
...     try:
...         return await process.line()
...     finally:
...         await process.end()
>>> anyio.run(first_line)
b'hello'
"""

from __future__ import annotations

import os
from contextlib import suppress
from typing import Final, final

import anyio
from anyio.abc import ByteReceiveStream

from fxai.effects.process import GONE, ChildProcess
from fxai.providers.host.program import Program

__all__ = ["Process", "TooMuch"]

_CHUNK: Final = 65536
_TAIL: Final = 4000


class TooMuch(Exception):
    """A line, or all lines of an answer, are longer than is read."""


@final
class Process:
    """A program that runs, and that is spoken to by lines."""

    __slots__ = (
        "_buffer",
        "_drained",
        "_heard",
        "_program",
        "_raw",
        "_searched",
        "_sent",
        "_tail",
        "at_end",
        "busy",
        "takes",
    )

    at_end: bool
    """Whether its output has ended."""
    busy: bool
    """Whether it is in the middle of an answer: then it can be asked nothing more."""
    takes: frozenset[str]
    """What it says that it takes beside messages."""

    def __init__(self, raw: ChildProcess, program: Program) -> None:
        self._raw = raw
        self._program = program
        self._buffer = bytearray()
        self._searched = 0
        self._heard = 0
        self._sent = True
        self._tail = b""
        self._drained = anyio.Event()
        self.at_end = False
        self.busy = False
        self.takes = frozenset()

    @staticmethod
    async def start(program: Program) -> Process:
        """The process of a program, started.

        Raises:
            OSError: It is not there, may not be run, or the directory is not there.
        """
        env = {**os.environ, **dict(program.env)}
        raw = await ChildProcess.start(program.command, cwd=program.cwd, env=env, grace=program.grace)
        return Process(raw, program)

    @property
    def exit_code(self) -> int | None:
        """What it ended with; None while it runs."""
        return self._raw.exit_code

    @property
    def usable(self) -> bool:
        """Whether it can be asked."""
        return not (self.busy or self.at_end or self.exit_code is not None)

    @property
    def left_over(self) -> bytes:
        """What it wrote behind its last answer."""
        return bytes(self._buffer[:80])

    @property
    def stderr(self) -> str:
        """The last that it wrote to stderr."""
        return self._tail.decode("utf-8", "replace")

    # -- speaking

    def begin(self) -> None:
        """A request begins."""
        self.busy, self._sent, self._heard = True, False, 0

    def finish(self) -> None:
        """The answer is complete; one that came before all of the request was read leaves it unusable."""
        self.busy = not self._sent

    async def send(self, line: bytes, *, last: bool) -> None:
        """Writes a line, and ends its input if it is the `last`. One that reads nothing is no failure here."""
        with suppress(*GONE):  # what it has written before can still be read
            await self._raw.stdin.send(line)
        if last:
            with suppress(*GONE):
                await self._raw.stdin.aclose()
        self._sent = True

    # -- hearing

    async def line(self) -> bytes | None:
        """Its next line without the line's end, also one that its end cut short; None when its output has ended.

        Raises:
            TooMuch: The line, or the answer, is longer than is read.
        """
        while (at := self._buffer.find(b"\n", self._searched)) < 0:
            self._searched = len(self._buffer)
            self._within(self._searched, self._program.max_line, "line")
            chunk = await _received(self._raw.stdout)
            if not chunk:
                self.at_end = True
                return self._taken(len(self._buffer)) if self._buffer else None
            self._buffer += chunk
        return self._taken(at)

    def _taken(self, at: int) -> bytes:
        self._within(at, self._program.max_line, "line")
        line = bytes(self._buffer[:at]).removesuffix(b"\r")
        del self._buffer[: at + 1]
        self._searched = 0
        self._heard += at + 1
        self._within(self._heard, self._program.max_answer, "answer")
        return line

    def _within(self, size: int, most: int, what: str) -> None:
        if size > most:
            raise TooMuch(f"its {what} is longer than {most} bytes (`max_{what}`)")

    async def listen(self) -> None:
        """Reads stderr to its end and keeps the last of it, so that a program that writes much is not held up."""
        try:
            while chunk := await _received(self._raw.stderr):
                self._tail = (self._tail + chunk)[-_TAIL:]
        finally:
            self._drained.set()

    async def settle(self) -> None:
        """Waits until it has ended and all of its stderr is read; not longer than its grace."""
        with anyio.move_on_after(self._program.grace):
            await self._raw.gone_within(self._program.grace)
            await self._drained.wait()

    # -- the end

    async def end(self) -> None:
        """Ends it and all that it started; one in the middle of an answer gets no time to end by itself."""
        await self._raw.end(patient=not self.busy)


async def _received(stream: ByteReceiveStream) -> bytes:
    """What comes next; empty at the end."""
    try:
        return await stream.receive(_CHUNK)
    except GONE:
        return b""
