r"""Child processes, which fxai ends together with all of their own child processes. Use them to run other programs.

Each program runs in its own session, so that one signal reaches all of its processes. If a process leaves the session
(a child that called `setsid`, a daemon), fxai finds it on systems with `/proc`: by its parents, and by a mark in the
inherited environment. If fxai cannot end a process, or cannot be sure that it is a child, it names it in a warning.

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
"""The exceptions of reading from, or writing to, an ended program."""

_MARK: Final = "FXAI_CHILD_OF"
_PROC: Final = Path("/proc")
_KILL: Final[signal.Signals] = getattr(signal, "SIGKILL", signal.SIGTERM)
_POLL: Final = 0.01  # seconds between two checks
_LAST: Final = 2.0  # seconds until killed processes have ended
_CHILDREN: Final = 0.5  # seconds for the children of an ended program to end by themselves
_FLUSH: Final = 0.5  # seconds to close the input
_START: Final = 0.5  # seconds for the start after asyncio cancels it, because asyncio can also cancel helper tasks

_NOT_STARTED: Final = "the start of the program was cancelled before the program ran"
_UNREACHED: Final = (ProcessLookupError, PermissionError)  # the exceptions of a signal to an unreachable process

_log = logging.getLogger("fxai.effects")


class _ProcessEntry(NamedTuple):
    """A process of the system, as described by `/proc/PID/stat`."""

    pid: int
    start: int
    """The start, in ticks since the start of the system. With it, fxai detects a reused process id."""
    parent: int
    group: int
    session: int
    name: str


@final
class ChildProcess:
    """A running program with pipes to its standard streams."""

    __slots__ = ("_grace", "_mark", "_outputs", "_own", "_raw")

    def __init__(self, raw: Process, mark: str, grace: float) -> None:
        """Store the process. Call `ChildProcess.start` instead."""
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
        """Start a program. The caller must end it with `end`.

        Args:
            command: Program, found in `PATH`, and its arguments.
            cwd: Working directory. Default: the working directory of this process.
            env: Whole environment, to which fxai adds a mark. Default: the environment of this process.
            grace: Seconds for the program to end by itself, and again after the request to terminate, before fxai kills
                it.

        Raises:
            OSError: If the program cannot start.
        """
        given = dict(os.environ if env is None else env)
        mark = uuid.uuid4().hex
        # Keep the marks of the programs that started this program, because its children also belong to them.
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
        """The process id."""
        return self._raw.pid

    @property
    def exit_code(self) -> int | None:
        """The exit code, negative for a signal. None while the program runs."""
        return self._raw.returncode

    @property
    def stdin(self) -> ByteSendStream:
        """The standard input."""
        return cast(ByteSendStream, self._raw.stdin)

    @property
    def stdout(self) -> ByteReceiveStream:
        """The standard output."""
        return cast(ByteReceiveStream, self._raw.stdout)

    @property
    def stderr(self) -> ByteReceiveStream:
        """The standard error."""
        return cast(ByteReceiveStream, self._raw.stderr)

    async def gone_within(self, seconds: float) -> bool:
        """Wait until the program has ended, for at most `seconds`. Return true if it has ended."""
        # Not `wait()`, because on asyncio it also waits for the pipes, which a child can hold open.
        return await _soon(lambda: self.exit_code is not None, seconds)

    # -- the end

    async def end(self, *, patient: bool = True) -> None:
        """End the program and all processes that it started, and close its pipes. A cancellation cannot interrupt this.

        fxai closes the input of the program, then requests termination, then kills the program. It also ends all
        processes that the program started, in any session. A warning in the log `fxai.effects` names the remaining
        processes with their ids.

        Args:
            patient: True to give the program its time to end after the close of its input. Default: True.
        """
        await shield(self._end(patient))

    async def _end(self, patient: bool) -> None:
        known = await self._family(())  # now, because the parents of a child cannot identify it after they ended
        with anyio.move_on_after(_FLUSH):
            await _quietly(self.stdin.aclose)
        if patient:
            await self.gone_within(self._grace)
        known = await self._family(known)
        if self.exit_code is None or known or self._group_is_there():
            known = await self._terminate(known)
        _tell((*known, *await _in_thread(self._holding)))
        await self._close_pipes()

    async def _terminate(self, known: tuple[_ProcessEntry, ...]) -> tuple[_ProcessEntry, ...]:
        """Request all processes to terminate, then kill them. Return the remaining processes."""
        self._signal(signal.SIGTERM, known)
        await self.gone_within(self._grace)
        await _soon(lambda: not self._group_is_there() and not _running(known), _CHILDREN)
        deadline = anyio.current_time() + _LAST
        left = known
        while (left := await self._family(left)) or self.exit_code is None or self._group_is_there():
            if anyio.current_time() > deadline:
                return left
            self._signal(_KILL, left)  # repeatedly, because a process can start more processes
            await anyio.sleep(_POLL)
        return ()

    def _signal(self, number: signal.Signals, known: Iterable[_ProcessEntry]) -> None:
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
        """Return true if the process group still has a process. Used only on systems without `/proc`."""
        if sys.platform == "win32" or self._own is not None:
            return False
        try:
            os.killpg(self.pid, 0)
        except _UNREACHED:
            return False
        return True

    async def _family(self, known: Iterable[_ProcessEntry]) -> tuple[_ProcessEntry, ...]:
        """Return the running processes that the program started, without the program."""
        return await _in_thread(lambda: self._find(tuple(known)))

    def _find(self, known: tuple[_ProcessEntry, ...]) -> tuple[_ProcessEntry, ...]:
        table = _table()
        own, there = self._own, table.get(self.pid)
        # If the process id now belongs to another process, its group and its children do not belong to the program.
        is_ours = own is not None and (there is None or there.start == own.start)
        found = {one.pid: one for one in _running(known)}
        for one in self._younger(table):
            if (is_ours and self.pid in (one.group, one.session)) or _bears(one, self._mark):
                found[one.pid] = one
        size = 0
        while size != len(found):  # add the children, then their children
            size = len(found)
            found |= {one.pid: one for one in table.values() if one.parent in found}
        found.pop(self.pid if is_ours else 0, None)
        return tuple(found.values())

    def _younger(self, table: Mapping[int, _ProcessEntry]) -> list[_ProcessEntry]:
        """Return the processes that started at the same time as the program or later."""
        start = 0 if self._own is None else self._own.start
        return [one for one in table.values() if one.start >= start]

    def _holding(self) -> tuple[_ProcessEntry, ...]:
        """Return the processes that hold the output open after the program and its known processes ended.

        They can be children with another environment and without parents, or other processes that received the pipe.
        """
        outputs = self._outputs
        return tuple(one for one in self._younger(_table()) if outputs and outputs & _pipes(one.pid, None))

    async def _close_pipes(self) -> None:
        for pipe in (self.stdout, self.stderr):
            await _quietly(pipe.aclose)
        # The transport of asyncio warns if Python collects it open, and no public function closes it.
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
    """Start a program and pass it to `keep`, even if a cancellation arrives during the start."""
    waiting = anyio.CancelScope()

    async def start() -> None:
        with waiting:
            is_apart = sys.platform != "win32"
            keep(await anyio.open_process(list(command), cwd=cwd, env=env, start_new_session=is_apart))
            return
        raise TimeoutError(_NOT_STARTED)

    def hurry() -> None:
        import asyncio  # already imported

        waiting.deadline = asyncio.get_running_loop().time() + _START

    await shield(start(), hurry)  # an interrupted start would leave a process without a waiting parent


def _tell(left: Iterable[_ProcessEntry]) -> None:
    names = {one.pid: f"{one.pid} ({one.name!r})" for one in left}
    if names:
        _log.warning(_LEFT, ", ".join(names.values()))


_LEFT: Final = "processes of an ended program may still run. Check the processes with these ids, and end them: %s"


async def _in_thread(look: Callable[[], tuple[_ProcessEntry, ...]]) -> tuple[_ProcessEntry, ...]:
    """Call `look` in a worker thread, because a system can have many processes. Other thread work does not delay it."""
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


# -- processes of the system


def _table() -> dict[int, _ProcessEntry]:
    """Return the running processes by their ids. Return {} on systems without `/proc`."""
    try:
        ids = [int(path.name) for path in _PROC.iterdir() if path.name.isdecimal()]
    except OSError:
        return {}
    return {one.pid: one for one in map(_entry, ids) if one is not None}


def _entry(pid: int) -> _ProcessEntry | None:
    """Return the process if it runs. A process that ended and waits for its parent does not run."""
    try:
        text = (_PROC / f"{pid}/stat").read_bytes().decode(errors="replace")
    except OSError:
        return None
    head, _, rest = text.rpartition(")")  # the name can contain any characters, including a parenthesis
    fields = rest.split()
    if len(fields) < 20 or fields[0] in "ZX":
        return None
    return _ProcessEntry(pid, int(fields[19]), int(fields[1]), int(fields[2]), int(fields[3]), head.partition("(")[2])


def _running(known: Iterable[_ProcessEntry]) -> tuple[_ProcessEntry, ...]:
    """Return the processes that still run under the same id."""
    now = ((one, _entry(one.pid)) for one in known)
    return tuple(one for one, there in now if there is not None and there.start == one.start)


def _bears(one: _ProcessEntry, mark: str) -> bool:
    """Return true if the process started with the mark in its environment."""
    variables: list[bytes] = []
    with suppress(OSError):  # the process ended, or belongs to another user
        variables = (_PROC / f"{one.pid}/environ").read_bytes().split(b"\0")
    known = f"{_MARK}=".encode()
    return any(variable.startswith(known) and mark.encode() in variable for variable in variables)


def _pipes(pid: int, names: Iterable[str] | None) -> frozenset[str]:
    """Return the pipes that a process can write to, through descriptors with these names, or through any descriptor."""
    folder = _PROC / f"{pid}/fd"
    found: set[str] = set()
    with suppress(OSError):  # the process ended, or belongs to another user
        for path in folder.iterdir() if names is None else map(folder.joinpath, names):
            with suppress(OSError):
                if path.lstat().st_mode & stat.S_IWUSR:  # a process that only reads, such as ours, is not a child
                    found.add(str(path.readlink()))
    return frozenset(link for link in found if link.startswith("pipe:"))


@final
class Lines:
    r"""The lines of a stream of bytes. A line of more than `limit` bytes becomes None, and fxai discards its contents.

    >>> lines = Lines(3)
    >>> lines.feed(b"ab\ncd"), lines.feed(b"ef"), lines.is_long, lines.feed(b"\ngh\n")
    ([b'ab'], [], True, [None, b'gh'])
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._rest = bytearray()
        self.is_long: bool = False
        """True if the unfinished line is too long."""

    def feed(self, chunk: bytes) -> list[bytes | None]:
        """Return the lines that end in this chunk."""
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
