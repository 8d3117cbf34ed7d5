"""The pages: every Python example on them runs, and their links lead somewhere."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest
from sybil import Document, Region, Sybil
from sybil.parsers.markdown import PythonCodeBlockParser, SkipParser

from tests.kit.source import modules, sources
from tests.kit.tiers import in_tiers

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
LINK = re.compile(r"\]\((?!https?://)([^)#\s]+)")


def _name(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


@pytest.mark.parametrize("page", in_tiers(PAGES), ids=_name)
def test_the_examples_of_a_page_run(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The Python blocks of a page, all of them, run from top to bottom as one program and raise nothing."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))  # what a page makes is not left behind
    parsers: list[Callable[[Document], Iterable[Region]]] = [PythonCodeBlockParser(), SkipParser()]
    document = Sybil(parsers=parsers, pattern=page.name, path=str(page.parent)).parse(page)
    examples = list(document.examples())
    for example in examples:
        example.evaluate()

    assert len(examples) == document.text.count("```python\n") + document.text.count("<!-- skip:")


@pytest.mark.parametrize("page", PAGES, ids=_name)
def test_the_links_of_a_page_lead_somewhere(page: Path) -> None:
    """Each relative link of a page names a file or folder of this project."""
    text = page.read_text(encoding="utf-8")
    broken = [target for target in LINK.findall(text) if not (page.parent / target).exists()]

    assert broken == []


@pytest.mark.parametrize("mark", ["run", "test"])
def test_the_readme_marks_a_command(mark: str) -> None:
    """The README has both commands, each in a fenced block right below its mark."""
    text = (ROOT / "README.md").read_text(encoding="utf-8")

    assert re.search(rf"<!-- command: {mark} -->\n```sh\n[^`]+\n```\n", text)


def test_every_noun_is_on_a_reference_page() -> None:
    """Each module whose names a floor offers is shown on a page of the reference, and the menu has every page."""
    pages = sorted((ROOT / "docs/reference").rglob("*.md"))
    shown = {name for page in pages for name in re.findall(r"^::: (\S+)$", page.read_text("utf-8"), re.MULTILINE)}
    offered = {source for module in modules() if module.path.endswith("__init__.py") for source in sources(module)}
    floors = {module.name for module in modules() if module.path.endswith("__init__.py")}
    menu = (ROOT / "zensical.toml").read_text("utf-8")
    docs = ROOT / "docs"
    unlisted = [page.name for page in docs.rglob("*.md") if f'"{page.relative_to(docs).as_posix()}"' not in menu]

    assert shown - {module.name for module in modules()} == set()
    assert offered - shown - floors == set()
    assert unlisted == []


def test_the_tests_that_hold_the_promises_of_security_exist() -> None:
    """Each test that the page on security names is there, each promise names one, and its links lead somewhere."""
    text = (ROOT / "SECURITY.md").read_text(encoding="utf-8")
    named = re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", text)
    missing = [
        f"{path}::{name}"
        for path, name in named
        if not re.search(rf"^def {name}\(", (ROOT / path).read_text("utf-8"), re.MULTILINE)
    ]
    promises = text.partition("## Guarantees\n")[2].partition("## Limits of the guarantees\n")[0].split("\n- ")[1:]

    assert missing == []
    assert [promise for promise in promises if "`tests/" not in promise] == []
    assert [target for target in LINK.findall(text) if not (ROOT / target).exists()] == []
