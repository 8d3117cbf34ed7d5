"""The page that is served is what its sources build."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from fxai.schema.display import indent_json, squeeze
from tests.kit.node import Missing, installed, node

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[3]
BUILT = ROOT / "fxai/ui/static"
SOURCES = ("build.mjs", "tsconfig.json", "app.css", "index.html", "icon.svg", "src")


@pytest.fixture(scope="module")
def sources(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the sources, with the packages that build them."""
    if not (ROOT / "page").is_dir():
        pytest.skip("the sources of the page are in the repository, and not in the package")
    lock = tmp_path_factory.mktemp("lock") / "page"
    lock.mkdir()
    for name in ("package.json", "package-lock.json"):
        shutil.copy(ROOT / "page" / name, lock)
    try:
        modules = installed(lock)
    except Missing as missing:
        pytest.skip(str(missing))
    copy = tmp_path_factory.mktemp("page")
    for name in SOURCES:
        source = ROOT / "page" / name
        (shutil.copytree if source.is_dir() else shutil.copy)(source, copy / name)
    (copy / "node_modules").symlink_to(modules)
    return copy


def test_what_is_served_is_what_the_sources_build(sources: Path, tmp_path: Path) -> None:
    """`npm run build` in `page/` changes nothing; where this fails, it has to be run."""
    subprocess.run([node(), "build.mjs", str(tmp_path / "built")], cwd=sources, check=True, timeout=120)
    built = {path.name: path.read_bytes() for path in (tmp_path / "built").iterdir()}

    assert {path.name: path.read_bytes() for path in BUILT.iterdir()} == built


def test_the_sources_type_check(sources: Path) -> None:
    """Strictly, with nothing that is not used."""
    command = [node(), "node_modules/typescript/bin/tsc", "--noEmit"]
    done = subprocess.run(command, cwd=sources, capture_output=True, text=True, check=False, timeout=240)

    assert (done.returncode, done.stdout) == (0, "")


def test_the_page_names_no_other_host() -> None:
    """The built files contain the address in the license of the Markdown reader, and the name of the SVG namespace."""
    text = "".join(path.read_text("utf-8") for path in BUILT.iterdir() if path.suffix != ".svg")

    assert set(re.findall(r"https?://[\w.-]+", text)) == {"https://github.com", "http://www.w3.org"}


VALUES: list[Any] = [
    {"to": [f"friend{number}" for number in range(250)] + ["attacker"], "deep": {"a": {"b": {"c": [1, None, True]}}}},
    {
        "file": "report\u202egpj.exe",
        "zero\u200bwidth": "\u2066x\u2069",
        "blank": "\u3164\u2800\uffa0",
        "no\u00a0break": "\u2028",
    },
    {"esc": "\x1b[2J\x9b31m\x07\x7f", "tab": "a\tb\nc", "tag": "\U000e0041", "half": "Troms\u00f8 \u8bfb \U0001f600"},
    {"hidden": "rm -rf ~" + " " * 5_000 + "; ls", "long": "ab" * 400, "unseen": "\u200b" * 60},
    "text",
    [],
    {},
    1.5,
    None,
]


def test_page_and_terminal_show_what_is_approved_alike(sources: Path, tmp_path: Path) -> None:
    """Both show every member as indented JSON, with the same escapes and the same repetitions counted."""
    script = tmp_path / "exact.mjs"
    program = f"""
import {{ build }} from 'esbuild';
await build({{ entryPoints: ['src/exact.ts'], bundle: true, format: 'esm', outfile: {json.dumps(str(script))} }});
const {{ exactJson }} = await import({json.dumps(script.as_uri())});
console.log(JSON.stringify({json.dumps(VALUES)}.map(exactJson)));
"""
    command = [node(), "--input-type=module", "-e", program]
    done = subprocess.run(
        command, cwd=sources, capture_output=True, text=True, check=True, timeout=120, encoding="utf-8"
    )

    assert json.loads(done.stdout) == [squeeze(indent_json(value)) for value in VALUES]
