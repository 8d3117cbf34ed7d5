"""A process that is spoken to by lines: how its bytes become lines, what is read at most, when it can be asked."""

from __future__ import annotations

from typing import Any

import anyio

from fxai.effects import fx
from fxai.providers.host.host import Process, Program, TooMuchError
from tests.kit.every import every
from tests.kit.hosts import Backend


class Pipe:
    """One of a program's streams: the chunks that come, and what was sent."""

    def __init__(self, *chunks: bytes) -> None:
        self.chunks = list(chunks)
        self.sent: list[bytes] = []
        self.closed = False

    async def receive(self, most: int) -> bytes:
        """The next chunk, of at most 64 KiB."""
        assert most == 65536
        if not self.chunks:
            raise anyio.EndOfStream
        return self.chunks.pop(0)

    async def send(self, data: bytes) -> None:
        """Keeps what is sent; a stream that is closed takes nothing."""
        if self.closed:
            raise anyio.ClosedResourceError
        self.sent.append(data)

    async def aclose(self) -> None:
        """Closes it."""
        self.closed = True


class Child:
    """A program that says what it is given."""

    def __init__(self, *out: bytes, err: tuple[bytes, ...] = ()) -> None:
        self.stdin, self.stdout, self.stderr = Pipe(), Pipe(*out), Pipe(*err)
        self.exit_code: int | None = None
        self.waited: list[float] = []
        self.patient: list[bool] = []

    async def gone_within(self, seconds: float) -> None:
        """Notes how long it is waited for."""
        self.waited.append(seconds)

    async def end(self, *, patient: bool) -> None:
        """Notes whether it got time."""
        self.patient.append(patient)


def process(child: Child, **options: Any) -> Process:
    """The process of a program that says what it is given."""
    raw: Any = child
    return Process(raw, Program(("it",), **options))


def lines(*out: bytes, **options: Any) -> list[bytes]:
    """All lines of a program, or those before `TooMuchError`, and its words."""
    found: list[bytes] = []

    async def read() -> None:
        one = process(Child(*out), **options)
        while (line := await one.line()) is not None:
            found.append(line)
        assert one.at_end

    try:
        fx.run(fx.wait(read))
    except TooMuchError as error:
        found.append(str(error).encode())
    return found


@every(
    ("out", "expected"),
    [
        ((), []),
        ((b"",), []),
        ((b"a\nbc\n",), [b"a", b"bc"]),
        ((b"\n\na\n",), [b"", b"", b"a"]),
        ((b"a", b"b\nc", b"\n"), [b"ab", b"c"]),
        ((b"ab", b"\n", b"\ncd\n"), [b"ab", b"", b"cd"]),
        ((b"abc", b"d\ne\nf\n"), [b"abcd", b"e", b"f"]),
        ((b"a\r\nb\r\r\n\rc\n",), [b"a", b"b\r", b"\rc"]),
        ((b"a\nb",), [b"a", b"b"]),
        ((b"a",), [b"a"]),
    ],
)
def test_bytes_in_any_pieces_become_lines(out: tuple[bytes, ...], expected: list[bytes]) -> None:
    """A line ends with LF or CRLF, wherever the bytes are cut; the last one needs no end."""
    assert lines(*out) == expected
    assert lines(*(bytes([one]) for one in b"".join(out))) == expected


@every(
    ("out", "options", "expected"),
    [
        ((b"123\n", b"12", b"3\n"), {"max_line": 3}, [b"123", b"123"]),
        ((b"1234\n",), {"max_line": 3}, [b"line is longer than 3 bytes (`max_line`)"]),
        ((b"1\n1234", b"5"), {"max_line": 3}, [b"1", b"line is longer than 3 bytes (`max_line`)"]),
        ((b"1234",), {"max_line": 3}, [b"line is longer than 3 bytes (`max_line`)"]),
        ((b"12\n12\n",), {"max_answer": 6}, [b"12", b"12"]),
        ((b"12\n123\n",), {"max_answer": 6}, [b"12", b"answer is longer than 6 bytes (`max_answer`)"]),
        ((b"12\n", b"123\n"), {"max_answer": 6}, [b"12", b"answer is longer than 6 bytes (`max_answer`)"]),
    ],
)
def test_a_line_and_an_answer_have_a_largest_size(out: tuple[bytes, ...], options: Any, expected: list[bytes]) -> None:
    """A line may have `max_line` bytes without its end, an answer `max_answer` with the ends of its lines."""
    assert lines(*out, **options) == expected


def test_each_answer_is_measured_alone() -> None:
    """What an answer before it had does not count, and lines without end are not searched from their beginning."""
    child = Child(b"12\n", b"12\n")

    async def read() -> list[bytes | None]:
        one = process(child, max_answer=3)
        first = await one.line()
        one.start_request()
        return [first, await one.line()]

    assert fx.run(fx.wait(read)) == [b"12", b"12"]


def test_what_stands_behind_an_answer_is_left_over() -> None:
    """The first 80 bytes of what was not read as a line are told."""

    async def read() -> list[bytes]:
        one = process(Child(b"a\n" + b"x" * 100))
        before = one.left_over
        await one.line()
        return [before, one.left_over]

    assert fx.run(fx.wait(read)) == [b"", b"x" * 80]


def test_a_process_can_be_asked_where_it_is_idle_and_lives() -> None:
    """Not in the middle of an answer, not when its output or itself has ended, nor before it took the whole request."""

    async def look() -> list[bool]:
        child = Child()
        one = process(child)
        seen = [one.usable]
        one.start_request()
        seen.append(one.usable)
        one.finish()  # answered before the request was sent
        seen.append(one.usable)
        await one.send(b"a\n", last=False)
        one.finish()
        seen.append(one.usable)
        child.exit_code = 0
        seen.append(one.usable)
        child.exit_code = None
        await one.line()
        seen.append(one.usable)
        return seen

    assert fx.run(fx.wait(look)) == [True, False, False, True, False, False]


def test_its_input_ends_behind_the_last_line() -> None:
    """A line that is not the last leaves its input open; one that takes nothing more is no failure."""

    async def send() -> list[Any]:
        child = Child()
        one = process(child)
        await one.send(b"a\n", last=False)
        open_ = not child.stdin.closed
        await one.send(b"b\n", last=True)
        await one.send(b"c\n", last=True)
        return [child.stdin.sent, open_, child.stdin.closed]

    assert fx.run(fx.wait(send)) == [[b"a\n", b"b\n"], True, True]


def test_the_last_of_stderr_is_kept() -> None:
    """The last 4,000 bytes of stderr are text, also where they are cut within a letter or are none."""

    async def listen() -> list[str]:
        quiet, one = process(Child()), process(Child(err=(b"a" * 10, b"\xff", b"b" * 3999)))
        cut = process(Child(err=(b"a" * 10, b"b" * 4000)))
        for each in (quiet, one, cut):
            await each.listen()
        return [quiet.stderr, one.stderr, cut.stderr]

    assert fx.run(fx.wait(listen)) == ["", "�" + "b" * 3999, "b" * 4000]


def test_a_process_settles_when_it_has_ended_and_its_stderr_is_read(backend: Backend) -> None:
    """It is waited for as long as its grace at most, its stderr too, which another task reads."""

    async def wait_ended() -> list[Any]:
        child = Child(err=(b"late",))
        one = process(child, grace=30.0)
        async with anyio.create_task_group() as group:
            group.start_soon(one.wait_ended)
            await anyio.wait_all_tasks_blocked()
            group.start_soon(one.listen)
        silent = process(Child(), grace=0.0)
        await silent.wait_ended()  # nobody reads its stderr
        return [child.waited, one.stderr]

    assert fx.run(fx.wait(wait_ended), backend=backend) == [[30.0], "late"]


def test_only_an_idle_process_gets_time_to_end() -> None:
    """One that is in the middle of an answer is told to end at once."""

    async def end() -> list[bool]:
        child = Child()
        one = process(child)
        await one.end()
        one.start_request()
        await one.end()
        return child.patient

    assert fx.run(fx.wait(end)) == [True, False]
