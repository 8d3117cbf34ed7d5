"""Uses: what is claimed is claimed once, in process, in a file and in SQLite alike."""

from __future__ import annotations

import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fxai.storage.once import FileUses, ProcessUses, TableUses, Uses
from tests.kit.trials import examples

ROOT = Path(__file__).parents[3]
KINDS = ("process", "file", "sqlite")
DAY = 86_400.0


def _uses(kind: str, folder: Path) -> Uses:
    if kind == "process":
        return ProcessUses()
    return FileUses(folder / "uses.json") if kind == "file" else TableUses(folder / "uses.db")


IDS = st.dictionaries(st.sampled_from("abcd"), st.none() | st.sampled_from([0.0, DAY, 5 * DAY]), max_size=4)
STEPS = st.lists(
    st.tuples(st.sampled_from(["claim", "deny", "finish", "look_up"]), IDS, st.floats(0, DAY)), max_size=12
)


@settings(max_examples=examples(15))
@given(STEPS)
def test_uses_of_every_kind_are_one(
    tmp_path_factory: pytest.TempPathFactory, steps: list[tuple[str, dict[str, float | None], float]]
) -> None:
    """The same answers to the same questions, as time goes on."""

    def run(kind: str) -> list[Any]:
        uses, now, seen = _uses(kind, tmp_path_factory.mktemp("uses")), 0.0, list[Any]()
        for step, ids, later in steps:
            now += later
            seen.append(getattr(uses, step)(ids, *[now] * (step in ("claim", "deny"))))
            seen.append(uses.look_up("abcd"))
        return seen

    process, file, sqlite = (run(kind) for kind in KINDS)

    assert process == file == sqlite


@pytest.mark.parametrize("kind", KINDS)
def test_of_several_answers_the_first_one_stands(kind: str, tmp_path: Path) -> None:
    """All are claimed or none; what is denied is not claimed, what was claimed is not denied, and only that ends."""
    uses = _uses(kind, tmp_path)

    assert uses.claim({"a": None, "b": None}, 0.0) == ()
    assert uses.claim({"c": None, "b": None}, 0.0) == ("b",)
    assert uses.deny({"a": None, "c": None}, 0.0) == ("a",)
    assert uses.claim({"c": None}, 0.0) == ("c",)
    uses.finish("bcd")
    assert uses.look_up("abcd") == {"a": "begun", "b": "ended", "c": "denied"}


@pytest.mark.parametrize("kind", KINDS)
def test_a_use_is_forgotten_a_day_after_its_end(kind: str, tmp_path: Path) -> None:
    """Clocks differ; what has no end is never forgotten."""
    uses = _uses(kind, tmp_path)
    uses.claim({"a": 10.0, "b": None}, 0.0)

    assert uses.claim({"a": 10.0}, 10.0 + DAY) == ("a",)
    assert uses.claim({"a": 10.0}, 11.0 + DAY) == ()
    assert uses.claim({"b": None}, 9e9) == ("b",)


@pytest.mark.parametrize("kind", KINDS)
def test_of_many_threads_one_claims(kind: str, tmp_path: Path) -> None:
    """Each of many ids is claimed by one of them."""
    uses, won = _uses(kind, tmp_path), list[str]()

    def claim() -> None:
        won.extend(one for one in map(str, range(12)) if not uses.claim({one: None}, 0.0))

    threads = [threading.Thread(target=claim) for _ in range(5)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()

    assert sorted(won, key=int) == list(map(str, range(12)))


CLAIMER = """
import sys
from pathlib import Path
from fxai.storage.once import FileUses, TableUses
kind, folder = sys.argv[1:]
uses = FileUses(Path(folder) / "uses.json") if kind == "file" else TableUses(Path(folder) / "uses.db")
print(*[n for n in range(12) if not uses.claim({str(n): None}, 0.0)])
"""


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS[1:])
def test_of_many_processes_one_claims(kind: str, tmp_path: Path) -> None:
    """Each of many ids is claimed by one of them."""
    command = [sys.executable, "-c", CLAIMER, kind, str(tmp_path)]
    started = [subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) for _ in range(3)]
    won = [int(one) for process in started for one in process.communicate()[0].split()]

    assert sorted(won) == list(range(12))


@pytest.mark.parametrize("text", ["", "{", '{"version":1,"used":{"a":3}}', '{"version":1,"used":{}}'])
def test_a_file_that_is_damaged_lets_nothing_be_claimed(text: str, tmp_path: Path) -> None:
    """It is named, with what to do, and left as it is."""
    path = tmp_path / "uses.json"
    path.write_text(text)

    with pytest.raises(OSError, match=r"uses\.json (contains no uses: .*|is damaged)\. Restore it from a backup\."):
        FileUses(path).claim({"a": None}, 0.0)
    assert path.read_text() == text


def test_a_file_that_was_changed_lets_nothing_be_claimed(tmp_path: Path) -> None:
    """By its digest: an approval that was used cannot be taken out by hand."""
    path = tmp_path / "uses.json"
    FileUses(path).claim({"a": None}, 0.0)
    path.write_bytes(path.read_bytes().replace(b'"a"', b'"b"'))

    with pytest.raises(OSError, match=r"uses\.json is damaged\. Restore"):
        FileUses(path).claim({"a": None}, 0.0)
