"""Measure what an installation of fxai and of other libraries costs: packages and size.

`python -m tests.kit.peer_costs` installs each library in a new environment and prints the first table of costs of the
front page. The command needs `uv` and a package registry. `nox -s bench` measures CPU times.
"""

from __future__ import annotations

import argparse
import subprocess
import tempfile
from pathlib import Path

from tests.kit.source import ROOT

__all__ = ["PEERS"]

PEERS = {
    "fxai": str(ROOT),
    "pydantic-ai": "pydantic-ai-slim>=2.68,<3",
    "OpenAI Agents SDK": "openai-agents>=0.24,<0.25",
    "LangChain": "langchain>=1.4,<2",
}
"""The requirement of each library, without extras."""


def _measure(requirement: str, folder: Path) -> tuple[int, float]:
    python = folder / "venv/bin/python"
    subprocess.run(["uv", "venv", "--quiet", "--python", "3.11", str(folder / "venv")], check=True)
    subprocess.run(["uv", "pip", "install", "--quiet", "--python", str(python), requirement], check=True)
    (site,) = (folder / "venv").glob("lib/python*/site-packages")
    size = sum(file.stat().st_size for file in site.rglob("*") if file.is_file()) / 1e6
    return len(list(site.glob("*.dist-info"))), size


def main(arguments: list[str] | None = None) -> int:
    """Run the command, and return its exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.kit.peer_costs", description="Measure other libraries.")
    parser.add_argument("names", nargs="*", help="Libraries to measure. Default: all.")
    options = parser.parse_args(arguments)
    print("| Library | Packages | MB on disk |\n|---|---|---|")
    for name in options.names or PEERS:
        with tempfile.TemporaryDirectory() as folder:
            packages, size = _measure(PEERS[name], Path(folder))
        print(f"| {name} | {packages} | {size:.0f} |", flush=True)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
