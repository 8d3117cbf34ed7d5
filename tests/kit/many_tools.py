"""Programs of any number of differently typed tools, as text; `python -m tests.kit.many_tools` times the checkers."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from resource import RUSAGE_CHILDREN, getrusage
from tempfile import TemporaryDirectory
from time import perf_counter

__all__ = ["FEW", "MISSING", "PART", "program"]

PART = 50
"""The most tools of a toolkit that misses a handler: there, the time of mypy grows with the third power."""
FEW = 9
"""The number of tools in the program that the quick tests check."""
MISSING = 7
"""The number of the tool whose handler is missing on the marked line."""

_HEAD = """from __future__ import annotations

from typing import Never, assert_type

import msgspec
from returns.result import Result, Success

from fxai import BoundToolkit, HandlerOf, Layer, Tool, Toolkit, fx
from fxai.effects import LayerOf
from fxai.effects import Many

"""


def program(
    number: int, *, part: int = PART, named: bool = False, is_right: bool = False, missing: int = MISSING
) -> str:
    """Return a program of so many tools, in toolkits of `part`, with handlers inline or named.

    The program asserts the type of the layer of each toolkit, calls a tool, and binds all toolkits as one. In one line
    the handler of the tool `missing` is missing, unless the program is right.
    """
    parts = [range(first, min(first + part, number)) for first in range(0, number, part)]
    lines = [_HEAD, *(line for one in range(number) for line in _tool(one, named=named))]
    for at, members in enumerate(parts):
        union = " | ".join(f"HandlerOf[P{one}, int, Never]" for one in members)
        lines += [
            f"kit{at} = Toolkit.make({', '.join(f't{one}' for one in members)})",
            f"layer{at} = kit{at}.to_layer({_merged(members, named=named)})",
            f"assert_type(layer{at}, LayerOf[{union}{' | Many' if len(members) > 8 else ''}])",
        ]
    others = [one for one in parts[0] if one != missing]
    lines.append("fx.run(kit0.call('t0', {}).provide(layer0))")
    if not is_right:
        lines.append(f"kit0.to_layer({_merged(others, named=named)})  # wrong: a handler is missing")
    lines.append(f"BoundToolkit.make({', '.join(f'BoundToolkit.of(kit{at}, layer{at})' for at in range(len(parts)))})")
    return "\n".join(lines) + "\n"


def _tool(one: int, *, named: bool) -> Iterator[str]:
    yield f"class P{one}(msgspec.Struct, frozen=True): ...\n"
    yield f't{one} = Tool.make("t{one}", parameters=P{one}, success=int)\n'
    yield f"def on{one}(p: P{one}) -> Result[int, Never]: return Success({one})\n"
    if named:
        yield f"h{one} = t{one}.handler(on{one})\n"


def _merged(members: range | list[int], *, named: bool) -> str:
    handlers = (f"h{one}" if named else f"t{one}.handler(on{one})" for one in members)
    return f"Layer.merge_all({', '.join(handlers)})"


def _main() -> None:
    """Print the seconds of CPU that each checker takes for each program, which is in no cache."""
    for number in (20, 100, 200):
        for part in sorted({number, min(number, PART)}):
            with TemporaryDirectory() as folder:
                file = Path(folder) / f"program_of_{number}.py"
                text = program(number, part=part, named=True, is_right=True)
                file.write_text(f"# {perf_counter()}\n{text}", encoding="utf-8")
                for checker in (("mypy",), ("pyright", "--pythonpath", sys.executable)):
                    command = (sys.executable, "-m", *checker, str(file))
                    sys.stdout.write(f"{number:4} tools by {part:3}: {checker[0]:7} {_cpu_seconds(command):5.1f} s\n")


def _cpu_seconds(command: tuple[str, ...]) -> float:
    before = getrusage(RUSAGE_CHILDREN)
    subprocess.run(command, capture_output=True, check=False)
    after = getrusage(RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


if __name__ == "__main__":
    _main()
