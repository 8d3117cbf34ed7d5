"""Mutants drawn from a room of the package, and which of them the tests find: `python -m tests.mutation ROOM`.

Each mutant is one small fault in one function of the room; a line is drawn by the seed, then one of its faults. The
tests of the room run over a copy of the project with the fault in it: first those that stand beside the module, then
all of the room's. A mutant that no test fails on is printed: it is a hole in the tests, or code that nothing needs, or
a fault that makes no difference. Exits with 1 below 92 percent, with 2 where the tests fail without a mutant.
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from queue import Queue
from typing import final

import msgspec

from tests.mutation.mutant import Mutant, mutants

ROOT = Path(__file__).resolve().parents[2]
FLOOR = 0.92


@final
class Room(msgspec.Struct, frozen=True):
    """A part of the package, and the tests that hold it."""

    modules: tuple[str, ...]
    tests: tuple[str, ...]


ROOMS = {
    "approvals": Room(
        ("fxai/models/approv*.py", "fxai/tools/call.py"),
        (
            "tests/unit/models",
            "tests/unit/mcp/server/test_approval.py",
            "tests/laws/test_approval_laws.py",
            "tests/conformance/test_approval_cases.py",
            "tests/unit/agents",
        ),
    ),
    "effects": Room(
        ("fxai/effects/*.py",),
        (
            "tests/unit/effects",
            "tests/laws/test_effect_laws.py",
            "tests/laws/test_finalizer_laws.py",
            "tests/laws/test_layer_laws.py",
            "tests/laws/test_stream_laws.py",
            "tests/integration/test_cancellation.py",
        ),
    ),
    "mcp": Room(
        ("fxai/mcp/**/*.py",),
        (
            "tests/unit/mcp",
            "tests/integration/mcp_server",
            "tests/integration/mcp",
            "tests/conformance/test_mcp_client_cases.py",
            "tests/conformance/test_mcp_server_cases.py",
        ),
    ),
    "providers/anthropic": Room(
        ("fxai/providers/anthropic/*.py",),
        (
            "tests/unit/providers/anthropic",
            "tests/laws/test_anthropic_laws.py",
            "tests/laws/test_answer_laws.py",
            "tests/conformance/test_anthropic_cases.py",
            "tests/conformance/test_provider_cases.py",
            "tests/conformance/test_structured_cases.py",
            "tests/integration/sdk",
        ),
    ),
    "providers/host": Room(("fxai/providers/host/*.py",), ("tests/unit/providers/host",)),
    "providers/http": Room(
        ("fxai/providers/http/*.py",),
        (
            "tests/unit/providers/http",
            "tests/unit/providers/openai/test_layer.py",
            "tests/unit/providers/openai/test_stream.py",
        ),
    ),
    "providers/openai": Room(
        ("fxai/providers/openai/*.py",),
        (
            "tests/unit/providers/openai",
            "tests/laws/test_openai_laws.py",
            "tests/laws/test_answer_laws.py",
            "tests/conformance/test_openai_cases.py",
            "tests/conformance/test_provider_cases.py",
            "tests/conformance/test_structured_cases.py",
            "tests/integration/sdk",
        ),
    ),
    "providers": Room(
        tuple(f"fxai/providers/{name}/**/*.py" for name in ("openai", "anthropic", "http", "host")),
        (
            "tests/unit/providers",
            "tests/laws/test_openai_laws.py",
            "tests/laws/test_anthropic_laws.py",
            "tests/laws/test_answer_laws.py",
            "tests/conformance/test_openai_cases.py",
            "tests/conformance/test_anthropic_cases.py",
            "tests/conformance/test_provider_cases.py",
            "tests/conformance/test_structured_cases.py",
            "tests/integration/sdk",
        ),
    ),
    "schema": Room(
        ("fxai/schema/**/*.py",),
        (
            "tests/unit/schema",
            "tests/laws/test_schema_laws.py",
            "tests/laws/test_strict_laws.py",
            "tests/laws/test_encoding_laws.py",
            "tests/conformance/test_schema_cases.py",
        ),
    ),
    "storage": Room(
        ("fxai/storage/*.py", "fxai/agents/memory.py", "fxai/mcp/pin.py"),
        (
            "tests/unit/storage",
            "tests/unit/agents/test_memory.py",
            "tests/unit/agents/test_memory_file.py",
            "tests/unit/agents/test_memory_sqlite.py",
            "tests/unit/mcp/test_pin.py",
            "tests/unit/models/test_chat.py",
            "tests/laws/test_storage_laws.py",
        ),
    ),
}


@final
class Drawn(msgspec.Struct, frozen=True):
    """A mutant of a module."""

    path: str
    mutant: Mutant

    def __str__(self) -> str:
        before, after = (" ".join(text.split())[:90] for text in (self.mutant.before, self.mutant.after))
        return f"{self.path}:{self.mutant.line}\n    {before}\n  → {after}"


def main(arguments: list[str]) -> int:
    """Draws, runs and prints; gives the exit code."""
    options = _options(arguments)
    room = ROOMS[options.room]
    drawn = _draw(room, options)
    started = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="mutation-") as folder:
        copies: Queue[Path] = Queue()
        for number in range(options.jobs):
            copies.put(_copy(Path(folder) / str(number)))
        sound = copies.get()
        if not _pass(sound, [f"--deselect={name}" for name in options.deselect] + _tests(room), 1800):
            print("the tests of the room fail without any mutant", file=sys.stderr)
            return 2
        copies.put(sound)
        ceiling = max(90.0, 4 * (time.monotonic() - started))
        print(f"{len(drawn)} mutants; the tests take {time.monotonic() - started:.0f} s", flush=True)
        with ThreadPoolExecutor(options.jobs) as pool:
            futures = [pool.submit(_survivor, one, room, copies, ceiling) for one in drawn]
        survivors = [future.result() for future in futures if future.result() is not None]
    found = len(drawn) - len(survivors)
    print(f"{found} of {len(drawn)} found: {found / len(drawn):.1%}")
    return 0 if found >= FLOOR * len(drawn) else 1


def _options(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.mutation", description=str(__doc__).partition("\n")[0])
    parser.add_argument("room", choices=sorted(ROOMS))
    parser.add_argument("--count", type=int, default=50, help="how many mutants are drawn (50)")
    parser.add_argument("--seed", type=int, default=0, help="what they are drawn by (0)")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="how many run at once")
    parser.add_argument("--only", default="", help="a text that the module's path must hold")
    parser.add_argument("--deselect", action="append", default=[], help="a test that is not asked")
    return parser.parse_args(arguments)


def _draw(room: Room, options: argparse.Namespace) -> list[Drawn]:
    paths = sorted({path for pattern in room.modules for path in ROOT.glob(pattern) if options.only in str(path)})
    lines: dict[tuple[str, int], list[Drawn]] = {}
    for path in paths:
        name = path.relative_to(ROOT).as_posix()
        for mutant in mutants(path.read_text(encoding="utf-8")):
            lines.setdefault((name, mutant.line), []).append(Drawn(name, mutant))
    chance = random.Random(options.seed)
    chosen = chance.sample(sorted(lines), min(options.count, len(lines)))
    return [chance.choice(lines[line]) for line in chosen]


def _copy(folder: Path) -> Path:
    left = shutil.ignore_patterns(".*", "__pycache__", "*.egg-info", "build", "dist", "site")
    shutil.copytree(ROOT, folder, ignore=left)
    return folder


def _tests(room: Room) -> list[str]:
    return [path for path in room.tests if (ROOT / path).exists()]


def _survivor(one: Drawn, room: Room, copies: Queue[Path], ceiling: float) -> Drawn | None:
    copy = copies.get()
    path = copy / one.path
    sound = path.read_text(encoding="utf-8")
    try:
        path.write_text(one.mutant.text, encoding="utf-8")
        beside = _beside(one.path, room)
        survives = (not beside or _pass(copy, [*beside, one.path], ceiling)) and _pass(copy, _tests(room), ceiling)
    finally:
        path.write_text(sound, encoding="utf-8")
        copies.put(copy)
    if survives:
        print(f"not found: {one}", flush=True)
    return one if survives else None


def _beside(path: str, room: Room) -> list[str]:
    """The tests whose name is that of the module: most mutants are found by them in a second."""
    name = f"test_{Path(path).stem}.py"
    return sorted(test.relative_to(ROOT).as_posix() for folder in _tests(room) for test in (ROOT / folder).rglob(name))


def _pass(copy: Path, arguments: list[str], ceiling: float) -> bool:
    """Whether the tests pass; what takes too long does not."""
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-x",
        "-q",
        "--no-header",
        "-p",
        "no:cacheprovider",
        "--hypothesis-seed=0",
    ]
    process = subprocess.Popen(
        [*command, *arguments],
        cwd=copy,
        env={**os.environ, "PYTHONPATH": str(copy), "PYTHONDONTWRITEBYTECODE": "1"},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        return process.wait(ceiling) == 0
    except subprocess.TimeoutExpired:
        return False
    finally:
        if process.poll() is None:
            os.killpg(process.pid, 9)
            process.wait()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
