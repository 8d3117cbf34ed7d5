"""The tables of extras: each extra is on the README and on the page about the installation, with its cost."""

from __future__ import annotations

from tests.kit.extra_sizes import ROW, extras, rows_of
from tests.kit.source import ROOT

FOR_DEVELOPERS = {"all", "dev", "dev-servers"}


def test_the_readme_states_the_cost_of_each_extra() -> None:
    """The README has a row for each extra of `pyproject.toml`, with its packages and its size in MB."""
    rows = rows_of("README.md")

    assert sorted(rows) == sorted(extras())
    assert all(packages > 0 and size > 0 for packages, size in rows.values())


def test_the_page_about_the_installation_has_the_rows_of_the_readme() -> None:
    """The page has the row of each extra for users, word by word."""
    readme, page = (
        [found.group(0) for found in ROW.finditer((ROOT / path).read_text(encoding="utf-8"))]
        for path in ("README.md", "docs/install.md")
    )

    assert page == [row for row in readme if FOR_DEVELOPERS.isdisjoint(row.split("`"))]
    assert set(rows_of("docs/install.md")) == set(extras()) - FOR_DEVELOPERS
