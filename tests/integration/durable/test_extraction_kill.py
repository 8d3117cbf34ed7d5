"""The example that extracts 500 documents, killed twice with `kill -9` and resumed."""

from __future__ import annotations

import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import msgspec
import pytest

from tests.kit.source import ROOT

PROGRAM = ROOT / "examples/85_extract_documents.py"


def _paid(directory: Path) -> list[int]:
    file = directory / "paid.txt"
    return [int(line) for line in file.read_text().split()] if file.exists() else []


def _start(directory: Path, concurrency: int) -> subprocess.Popen[str]:
    command = [sys.executable, str(PROGRAM), str(directory), str(concurrency)]
    return subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)


@pytest.mark.slow
@pytest.mark.parametrize("concurrency", [1, 8])
def test_an_extraction_that_is_killed_twice_pays_for_each_document_once(tmp_path: Path, concurrency: int) -> None:
    """The batch has 500 of 500 records, and only the documents in flight at a kill are paid for twice."""
    for enough in (100, 300):
        process = _start(tmp_path, concurrency)
        while len(_paid(tmp_path)) < enough and process.poll() is None:
            time.sleep(0.005)
        assert process.poll() is None
        process.kill()
        process.communicate()
        assert not (tmp_path / "invoices.json").exists()

    out, _ = _start(tmp_path, concurrency).communicate(timeout=300)
    paid = Counter(_paid(tmp_path))
    records = msgspec.json.decode((tmp_path / "invoices.json").read_bytes())

    assert out.splitlines()[-2:] == ["500 of 500", "499 invoices of 12473700 cents, skipped: [13]"]
    assert len(records) == 500
    assert set(paid) == set(range(500))
    assert sum(paid.values()) - 500 <= 2 * concurrency
    assert max(paid.values()) <= 3
