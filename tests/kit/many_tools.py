"""Programs of any number of differently typed tools, as text; `python -m tests.kit.many_tools` times the checkers."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter

__all__ = ["FEW", "MISSING", "PART", "program"]

PART = 50
"""How many tools a toolkit has at most: mypy's time grows with the third power."""
FEW = 9
"""The number of tools in the program that the quick tests check."""
MISSING = 7
"""The number of the tool whose handler is missing on the marked line."""

_HEAD = """from __future__ import annotations

from typing import Never, assert_type

import msgspec
from returns.result import Result, Success

from fxai import BoundToolkit, HandlerOf, Layer, LayerOf, Tool, Toolkit
from fxai.effects import Many

"""


def program(number: int, *, part: int = PART, named: bool = False) -> str:
    """A program of so many tools, in toolkits of `part`, with handlers inline or named.

    The toolkits' layers are right and their types asserted, all are bound as one; in one line a handler is missing.
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
    others = [one for one in parts[0] if one != MISSING]
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
    """Print how long each checker takes for each program, which is in no cache."""
    for number in (9, 50, 200):
        for named in (False, True):
            with TemporaryDirectory() as folder:
                file = Path(folder) / f"program_of_{number}.py"
                file.write_text(f"# {perf_counter()}\n{program(number, named=named)}", encoding="utf-8")
                for checker in ("mypy", "pyright"):
                    begun = perf_counter()
                    subprocess.run([sys.executable, "-m", checker, str(file)], capture_output=True, check=False)
                    how = "named" if named else "inline"
                    sys.stdout.write(f"{number:4} tools, {how:6}: {checker:7} {perf_counter() - begun:5.1f} s\n")


if __name__ == "__main__":
    _main()
