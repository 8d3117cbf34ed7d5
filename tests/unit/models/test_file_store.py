"""File stores: a file sent once, one that expires, and what cannot be sent."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from fxai.effects import fx
from fxai.messages import AiError, FilePart
from fxai.models import FileIndex, FileStore
from fxai.testing import TestClock

TEXT = FilePart("text/plain", b"All is well.", "a.txt")


def test_a_file_is_the_same_by_its_bytes_its_type_and_its_name() -> None:
    """Any other one is sent; without `once` every one is."""
    others = (
        FilePart("text/plain", b"All is well!", "a.txt"),
        FilePart("text/html", b"All is well.", "a.txt"),
        FilePart("text/plain", b"All is well.", "b.txt"),
    )

    @fx.gen
    def send() -> Any:
        every = (TEXT, *others, TEXT)
        once = yield from fx.for_each(every, lambda file: FileStore.upload(file, once=True))
        twice = (yield from FileStore.upload(TEXT)).id
        return [sent.id for sent in once], twice, len((yield from FileStore.files().collect()))

    ids, twice, count = fx.run(send().provide(FileStore.in_process()))

    assert ids == ["file_1", "file_2", "file_3", "file_4", "file_1"]
    assert (twice, count) == ("file_5", 5)


def test_a_file_that_expires_soon_or_was_deleted_is_sent_anew() -> None:
    """So that a prompt does not name what the provider forgets while it is answered."""

    @fx.gen
    def send(clock: TestClock) -> Any:
        upload = FileStore.upload(TEXT, once=True, expires_in=3600)
        first = yield from upload
        yield from clock.advance(1800)
        second = yield from upload
        yield from clock.advance(1300)
        third = yield from upload
        yield from FileStore.delete(third.id)
        fourth = yield from upload
        gone = yield from FileStore.get(first.id)
        yield from clock.advance(600)
        return [one.id for one in (first, second, third, fourth)], gone is None, (yield from FileStore.get(first.id))

    clock = TestClock()
    program = send(clock).provide(FileStore.in_process())
    ids, gone, later = clock.run(program)

    assert ids == ["file_1", "file_1", "file_2", "file_3"]
    assert (gone, later) == (False, None)


def test_a_file_without_a_name_gets_one() -> None:
    """As its media type ends; the bytes come back."""
    bare = FilePart("application/pdf", b"%PDF")

    @fx.gen
    def send() -> Any:
        sent = yield from FileStore.upload(bare)
        return sent, (yield from FileStore.content(sent.id))

    sent, content = fx.run(send().provide(FileStore.in_process()))

    assert (sent.name, sent.part.media_type, content) == ("file.pdf", "application/pdf", b"%PDF")


@pytest.mark.parametrize(
    ("file", "problem"),
    [
        (FilePart.of_url("image/png", "https://example.org/a.png"), "file is an address"),
        (FilePart("text/plain", b""), "file is empty"),
    ],
)
def test_what_has_no_bytes_is_not_sent(file: FilePart, problem: str) -> None:
    """The failure says what to give."""
    error = fx.run_result(FileStore.upload(file, once=True).provide(FileStore.in_process())).failure()

    assert isinstance(error, AiError)
    assert problem in error.message


def test_an_index_that_is_none_is_a_failure(tmp_path: Path) -> None:
    """It names the file, and nothing is sent; the store of the test would have sent it."""
    path = tmp_path / "index.json"
    path.write_text("[1]", "utf-8")
    index = FileIndex(path)

    for program in (index.load("a"), index.save("a", fx.run(FileStore.upload(TEXT).provide(FileStore.in_process())))):
        failure = fx.run_result(program).failure()
        assert isinstance(failure, OSError)
        assert str(path) in str(failure)
        assert "Move it away to start a new index" in str(failure)
    assert path.read_text("utf-8") == "[1]"
