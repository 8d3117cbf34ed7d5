"""The check of the built pages finds each kind of mistake. `nox -s docs` runs the check on the real site."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.kit.site import (
    SEARCHES,
    broken_links,
    escaped_bars,
    pages_of,
    searches_without_title,
    unnamed_fields,
    unnamed_members,
)

LINKS = {
    "guide/": None,
    "guide/index.html#start": None,
    "#top": None,
    "/guide/": None,
    "https://example.org/missing": None,
    "picture.png#only-light": None,
    "../README.md": "leaves the site",
    "guide/../../README.md": "leaves the site",
    "missing/": "names no file",
    "guide/#end": "names no anchor",
    "#end": "names no anchor",
}


@pytest.mark.parametrize("link", LINKS)
def test_a_broken_link_is_found(link: str, tmp_path: Path) -> None:
    """A link must name a file in the site, and an anchor must exist on its page."""
    site = tmp_path / "site"
    (site / "guide").mkdir(parents=True)
    (tmp_path / "README.md").touch()
    (site / "picture.png").touch()
    (site / "index.html").write_text(f'<h1 id="top"></h1><a href="{link}">x</a>', encoding="utf-8")
    (site / "guide/index.html").write_text('<h1 id="start"></h1>', encoding="utf-8")

    expected = [] if LINKS[link] is None else [f"index.html: {link} {LINKS[link]}"]
    assert list(broken_links(site, pages_of(site))) == expected


@pytest.mark.parametrize(("cell", "count"), [(r"<code>a \| b</code>", 1), ("a &#124; b", 0), ("a | b", 0)])
def test_an_escaped_bar_in_a_table_is_found(cell: str, count: int, tmp_path: Path) -> None:
    """Code in a table must not show the backslash that Markdown requires."""
    (tmp_path / "index.html").write_text(rf"<table><td>{cell}</td></table><code>\|</code>", encoding="utf-8")

    assert len(list(escaped_bars(tmp_path))) == count


def test_a_field_and_a_method_without_a_name_on_the_pages_are_found(tmp_path: Path) -> None:
    """A shown class must have each of its fields, and a shown module each of its functions, on a reference page."""
    (tmp_path / "reference").mkdir()
    page = '<h2 id="fxai.agents.answer.Step"></h2><h3 id="fxai.agents.answer.Step.number"></h3>'
    (tmp_path / "reference/index.html").write_text(page, encoding="utf-8")
    pages = pages_of(tmp_path)

    assert unnamed_fields(pages) == (1, ["fxai.agents.answer.Step.response", "fxai.agents.answer.Step.record"])
    assert "fxai.agents.answer.Step.results_of" in unnamed_members(pages)
    assert "fxai.agents.answer.Step" not in unnamed_members(pages)


def test_a_search_without_a_title_is_found() -> None:
    """Each search needs a title with all of its words on its page, in any order and case."""
    items: list[dict[str, Any]] = [
        {"location": f"{page}#there", "title": f"<b>How to</b> {query.title()}"} for query, page in SEARCHES.items()
    ]

    assert searches_without_title({"items": items}) == []
    assert len(searches_without_title({"items": items[1:]})) == 1
