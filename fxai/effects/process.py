r"""Child processes: a program that is started, and ended together with all that it started in its turn.

A program runs in a session of its own, so that one signal reaches all of it. What leaves that session (a child that
called `setsid`, a daemon) is found where the system has `/proc`: by its parents, and by a mark in the environment that
it inherits. What cannot be ended, or may not be its child, is named in a warning.

>>> import anyio
>>> async def first_words() -> bytes:
...     process = await ChildProcess.start(("echo", "hello"))
...     try:
...         return await process.stdout.receive()
...     finally:
...         await process.end()
>>> anyio.run(first_words)
b'hello\n'
"""

from __future__ import annotations

import logging
import os
import signal
import stat
import sys
import uuid
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final, NamedTuple, cast, final

import anyio
import anyio.to_thread
from anyio.abc import ByteReceiveStream, ByteSendStream, Process

from fxai.effects.cancellation import shield

GONE: Final = (OSError, anyio.BrokenResourceError, anyio.ClosedResourceError, anyio.EndOfStream)
"""What reading from, or writing to, a program raises that has ended."""

_MARK: Final = "FXAI_CHILD_OF"
_PROC: Final = Path("/proc")
_KILL: Final[signal.Signals] = getattr(signal, "SIGKILL", signal.SIGTERM)
_POLL: Final = 0.01  # seconds between two looks at whether something has ended
_LAST: Final = 2.0  # seconds for what was killed to be gone
_CHILDREN: Final = 0.5  # seconds for the children of a program that has ended to end by themselves
_FLUSH: Final = 0.5  # seconds to close the input
_START: Final = 0.5  # seconds to be started, once asyncio cancels that: tasks of its own may be cancelled with it

_NOT_STARTED: Final = "it was cancelled while it was started, and could not be started then"
_UNREACHED: Final = (ProcessLookupError, PermissionError)  # what a signal raises where there is no such process

_log = logging.getLogger("fxai.effects")


class _Entry(NamedTuple):
    """A process of the system, as `/proc/PID/stat` tells of it."""

    pid: int
    start: int
    """When it started, in ticks since the system did: a process id alone may be given again."""
    parent: int
    group: int
    session: int
    name: str


@final
class ChildProcess:
    """A program that runs, with pipes to its standard streams."""

    __slots__ = ("_grace", "_mark", "_outputs", "_own", "_raw")

    def __init__(self, raw: Process, mark: str, grace: float) -> None:
        """Use `ChildProcess.start`."""
        self._raw = raw
        self._mark = mark
        self._grace = grace
        self._own = _entry(raw.pid)
        self._outputs = _pipes(raw.pid, ("1", "2"))

    @staticmethod
    async def start(
        command: Sequence[str],
        *,
        cwd: str | os.PathLike[str] | None = None,
        env: Mapping[str, str] | None = None,
        grace: float = 2.0,
    ) -> ChildProcess:
        """Starts a program; the caller ends it by `end`.

        Args:
            command: the program, found along `PATH`, and its arguments.
            cwd: its working folder; by default ours.
            env: its whole environment, to which a mark is added; by default ours.
            grace: seconds that it has to end by itself, and again when it is asked to terminate, before it is killed.

        Raises:
            OSError: it cannot be started.
        """
        given = dict(os.environ if env is None else env)
        mark = uuid.uuid4().hex
        # The marks of the programs that started this one stay: what its programs start is theirs as well.
        above = given.get(_MARK) or os.environ.get(_MARK)
        given[_MARK] = f"{above}:{mark}" if above else mark
        started: list[ChildProcess] = []
        try:
            await _open(command, cwd, given, lambda raw: started.append(ChildProcess(raw, mark, grace)))
        except BaseException:
            for one in started:
                await one.end(patient=False)
            raise
        return started[0]

    @property
    def pid(self) -> int:
        """Its process id."""
        return self._raw.pid

    @property
    def exit_code(self) -> int | None:
        """What it ended with, negative for a signal; None while it runs."""
        return self._raw.returncode

    @property
    def stdin(self) -> ByteSendStream:
        """Its standard input."""
        return cast(ByteSendStream, self._raw.stdin)

    @property
    def stdout(self) -> ByteReceiveStream:
        """Its standard output."""
        return cast(ByteReceiveStream, self._raw.stdout)

    @property
    def stderr(self) -> ByteReceiveStream:
        """Its standard error."""
        return cast(ByteReceiveStream, self._raw.stderr)

    async def gone_within(self, seconds: float) -> bool:
        """Waits until it has ended, not longer than so many seconds; whether it has."""
        # Not `wait()`: with asyncio it also waits for the pipes, which a child may hold open.
        return await _soon(lambda: self.exit_code is not None, seconds)

    # -- the end

    async def end(self, *, patient: bool = True) -> None:
        """Ends it and all that it started, and closes its pipes; nothing cancels this.

        Its input is closed, then it is asked to terminate, then killed; what it started is ended with it, wherever it
        went. A warning in the log `fxai.effects` names what still runs then, with its process id.

        Args:
            patient: whether it gets its time to end when its input is closed.
        """
        await shield(self._end(patient))

    async def _end(self, patient: bool) -> None:
        known = await self._family(())  # now: a child whose parent has ended is not found by its parents
        with anyio.move_on_after(_FLUSH):
            await _quietly(self.stdin.aclose)
        if patient:
            await self.gone_within(self._grace)
        known = await self._family(known)
        if self.exit_code is None or known or self._group_is_there():
            known = await self._terminate(known)
        _tell((*known, *await _in_thread(self._holding)))
        await self._close_pipes()

    async def _terminate(self, known: tuple[_Entry, ...]) -> tuple[_Entry, ...]:
        """Asks all to terminate, then kills them; those that are left."""
        self._signal(signal.SIGTERM, known)
        await self.gone_within(self._grace)
        await _soon(lambda: not self._group_is_there() and not _running(known), _CHILDREN)
        deadline = anyio.current_time() + _LAST
        left = known
        while (left := await self._family(left)) or self.exit_code is None or self._group_is_there():
            if anyio.current_time() > deadline:
                return left
            self._signal(_KILL, left)  # again and again: it may have started more
            await anyio.sleep(_POLL)
        return ()

    def _signal(self, number: signal.Signals, known: Iterable[_Entry]) -> None:
        if sys.platform == "win32":
            if self.exit_code is None:
                self._raw.kill()
            return
        with suppress(*_UNREACHED):
            os.killpg(self.pid, number)
        for one in _running(known):
            with suppress(*_UNREACHED):
                os.kill(one.pid, number)

    def _group_is_there(self) -> bool:
        """Whether a process is left in its group; only asked where the system has no `/proc`."""
        if sys.platform == "win32" or self._own is not None:
            return False
        try:
            os.killpg(self.pid, 0)
        except _UNREACHED:
            return False
        return True

    async def _family(self, known: Iterable[_Entry]) -> tuple[_Entry, ...]:
        """Those that run of what it started, beside itself."""
        return await _in_thread(lambda: self._find(tuple(known)))

    def _find(self, known: tuple[_Entry, ...]) -> tuple[_Entry, ...]:
        table = _table()
        own, there = self._own, table.get(self.pid)
        # Where its process id belongs to another process by now, neither its group nor its children are its own.
        is_ours = own is not None and (there is None or there.start == own.start)
        found = {one.pid: one for one in _running(known)}
        for one in self._younger(table):
            if (is_ours and self.pid in (one.group, one.session)) or _bears(one, self._mark):
                found[one.pid] = one
        size = 0
        while size != len(found):  # the children of those, then theirs
            size = len(found)
            found |= {one.pid: one for one in table.values() if one.parent in found}
        found.pop(self.pid if is_ours else 0, None)
        return tuple(found.values())

    def _younger(self, table: Mapping[int, _Entry]) -> list[_Entry]:
        """Those that started no earlier than it did."""
        start = 0 if self._own is None else self._own.start
        return [one for one in table.values() if one.start >= start]

    def _holding(self) -> tuple[_Entry, ...]:
        """Those that hold its output open, when it and all that is known to be its own have ended.

        They may be its children, with another environment and no parents left, or have been handed the pipe.
        """
        outputs = self._outputs
        return tuple(one for one in self._younger(_table()) if outputs and outputs & _pipes(one.pid, None))

    async def _close_pipes(self) -> None:
        for pipe in (self.stdout, self.stderr):
            await _quietly(pipe.aclose)
        # asyncio's transport warns when it is collected open, and nothing public closes it.
        transport = getattr(getattr(self._raw, "_process", None), "_transport", None)
        if transport is not None:
            with suppress(PermissionError):
                transport.close()


async def _open(
    command: Sequence[str],
    cwd: str | os.PathLike[str] | None,
    env: Mapping[str, str],
    keep: Callable[[Process], object],
) -> None:
    """Starts a program and hands it to `keep`, also where this is cancelled meanwhile."""
    waiting = anyio.CancelScope()

    async def start() -> None:
        with waiting:
            is_apart = sys.platform != "win32"
            keep(await anyio.open_process(list(command), cwd=cwd, env=env, start_new_session=is_apart))
            return
        raise TimeoutError(_NOT_STARTED)

    def hurry() -> None:
        import asyncio  # it runs already

        waiting.deadline = asyncio.get_running_loop().time() + _START

    await shield(start(), hurry)  # cut in the middle, it would not be waited for until it is gone


def _tell(left: Iterable[_Entry]) -> None:
    names = {one.pid: f"{one.pid} ({one.name!r})" for one in left}
    if names:
        _log.warning(_LEFT, ", ".join(names.values()))


_LEFT: Final = "a program was ended, and what it started may still run: look at these processes, by their ids: %s"


async def _in_thread(look: Callable[[], tuple[_Entry, ...]]) -> tuple[_Entry, ...]:
    """What `look` gives: a system may have many processes. Other work in threads holds up no end."""
    return await anyio.to_thread.run_sync(look, limiter=anyio.CapacityLimiter(1))


async def _soon(holds: Callable[[], bool], seconds: float) -> bool:
    deadline = anyio.current_time() + seconds
    while not holds():
        if anyio.current_time() >= deadline:
            return False
        await anyio.sleep(_POLL)
    return True


async def _quietly(close: Callable[[], Awaitable[None]]) -> None:
    with suppress(*GONE):
        await close()


# -- what the system tells of processes


def _table() -> dict[int, _Entry]:
    """The processes that run, by their ids; none where the system has no `/proc`."""
    try:
        ids = [int(path.name) for path in _PROC.iterdir() if path.name.isdecimal()]
    except OSError:
        return {}
    return {one.pid: one for one in map(_entry, ids) if one is not None}


def _entry(pid: int) -> _Entry | None:
    """The process, where it runs: one that has ended and waits for its parent does not."""
    try:
        text = (_PROC / f"{pid}/stat").read_bytes().decode(errors="replace")
    except OSError:
        return None
    head, _, rest = text.rpartition(")")  # its name may hold anything, a parenthesis too
    fields = rest.split()
    if len(fields) < 20 or fields[0] in "ZX":
        return None
    return _Entry(pid, int(fields[19]), int(fields[1]), int(fields[2]), int(fields[3]), head.partition("(")[2])


def _running(known: Iterable[_Entry]) -> tuple[_Entry, ...]:
    """Those that still run, and are what they were."""
    now = ((one, _entry(one.pid)) for one in known)
    return tuple(one for one, there in now if there is not None and there.start == one.start)


def _bears(one: _Entry, mark: str) -> bool:
    """Whether it was started with the mark in its environment."""
    variables: list[bytes] = []
    with suppress(OSError):  # it has ended, or belongs to another user
        variables = (_PROC / f"{one.pid}/environ").read_bytes().split(b"\0")
    known = f"{_MARK}=".encode()
    return any(variable.startswith(known) and mark.encode() in variable for variable in variables)


def _pipes(pid: int, names: Iterable[str] | None) -> frozenset[str]:
    """The pipes that a process can write to: by descriptors of these names, or by any."""
    folder = _PROC / f"{pid}/fd"
    found: set[str] = set()
    with suppress(OSError):  # it has ended, or belongs to another user
        for path in folder.iterdir() if names is None else map(folder.joinpath, names):
            with suppress(OSError):
                if path.lstat().st_mode & stat.S_IWUSR:  # a process that only reads, such as ours, is no child of it
                    found.add(str(path.readlink()))
    return frozenset(link for link in found if link.startswith("pipe:"))


@final
class Lines:
    r"""The lines of bytes that come in pieces; one of more than `limit` bytes is None, and no more of it is kept.

    >>> lines = Lines(3)
    >>> lines.feed(b"ab\ncd"), lines.feed(b"ef"), lines.is_long, lines.feed(b"\ngh\n")
    ([b'ab'], [], True, [None, b'gh'])
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._rest = bytearray()
        self.is_long: bool = False
        """Whether the line that has not ended is too long."""

    def feed(self, chunk: bytes) -> list[bytes | None]:
        """The lines that end in this piece."""
        *ended, rest = chunk.split(b"\n")
        lines: list[bytes | None] = []
        for piece in ended:
            self._add(piece)
            lines.append(None if self.is_long else bytes(self._rest))
            self._rest.clear()
            self.is_long = False
        self._add(rest)
        return lines

    def _add(self, piece: bytes) -> None:
        self.is_long = self.is_long or len(self._rest) + len(piece) > self._limit
        if not self.is_long:
            self._rest += piece
