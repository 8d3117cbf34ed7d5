"""Check the built pages: their links, the fields on the reference pages, and the index of the search.

`python -m tests.kit.site site` prints each finding and exits with 1 if there is one. The folder `site` is the result of
`zensical build`.
"""

from __future__ import annotations

import ast
import json
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from typing_extensions import override

from tests.kit.source import ROOT, definitions, is_public, modules

__all__ = [
    "SEARCHES",
    "Page",
    "broken_links",
    "escaped_bars",
    "pages_of",
    "searches_without_title",
    "unnamed_fields",
    "unnamed_members",
]

SEARCHES = {
    "structured output": "quickstart/structured-output/",
    "dependency injection": "how-to/use-dependency-injection/",
    "retry": "how-to/retry-and-time-out/",
    "evaluate": "how-to/evaluate-an-agent/",
    "guard": "how-to/guard-models-and-tools/",
    "migrate": "how-to/migrate-from-langgraph/",
    "install": "install/",
}
"""Searches, each with a page that must have the words in a title."""


@dataclass
class Page:
    """The links and the anchors of a page. `path` is relative to the folder of the site."""

    path: str
    links: list[str] = field(default_factory=list[str])
    anchors: set[str] = field(default_factory=set[str])


class _Reader(HTMLParser):
    def __init__(self, page: Page) -> None:
        super().__init__()
        self.page = page

    @override
    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for name, value in attrs:
            if name in {"href", "src"} and value and tag != "link":
                self.page.links.append(value)
            elif name == "id" and value:
                self.page.anchors.add(value)


def pages_of(site: Path) -> dict[str, Page]:
    """Return the pages of a built site, by their paths."""
    pages: dict[str, Page] = {}
    for file in sorted(site.rglob("*.html")):
        page = Page(file.relative_to(site).as_posix())
        _Reader(page).feed(file.read_text(encoding="utf-8"))
        pages[page.path] = page
    return pages


def broken_links(site: Path, pages: dict[str, Page]) -> Iterator[str]:
    """Yield the links that leave the site, name no file, or name an anchor that their page does not have."""
    root = site.resolve()
    for page in pages.values():
        for link in dict.fromkeys(page.links):
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                continue
            start = root if parts.path.startswith("/") else (root / page.path).parent
            target = (start / unquote(parts.path).lstrip("/")).resolve() if parts.path else root / page.path
            target = target / "index.html" if target.is_dir() else target
            if not target.is_relative_to(root):
                yield f"{page.path}: {link} leaves the site"
                continue
            found = pages.get(target.relative_to(root).as_posix())
            if not target.is_file():
                yield f"{page.path}: {link} names no file"
            elif parts.fragment and found is not None and unquote(parts.fragment) not in found.anchors | {"__top"}:
                yield f"{page.path}: {link} names no anchor"


def escaped_bars(site: Path) -> Iterator[str]:
    """Yield the pages that show a backslash before a bar in a table. Write `<code>a &#124; b</code>` there."""
    for file in sorted(site.rglob("*.html")):
        if re.search(r"<td[^>]*>(?:(?!</td>).)*\\\|", file.read_text(encoding="utf-8"), re.DOTALL):
            yield f"{file.relative_to(site).as_posix()}: a table shows a backslash before |"


def _anchors(pages: dict[str, Page]) -> set[str]:
    return {anchor for page in pages.values() if page.path.startswith("reference/") for anchor in page.anchors}


def _fields(cls: ast.ClassDef) -> list[str]:
    names = [
        node.target.id for node in cls.body if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name)
    ]
    return [name for name in names if is_public(name)]


def unnamed_fields(pages: dict[str, Page]) -> tuple[int, list[str]]:
    """Return the number of shown classes with fields, and the fields that no reference page names."""
    anchors = _anchors(pages)
    classes = [
        (f"{module.name}.{name}", _fields(node))
        for module in modules()
        for name, node in definitions(module)
        if isinstance(node, ast.ClassDef) and f"{module.name}.{name}" in anchors and _fields(node)
    ]
    missing = [f"{name}.{each}" for name, fields in classes for each in fields if f"{name}.{each}" not in anchors]
    return len(classes), missing


def unnamed_members(pages: dict[str, Page]) -> list[str]:
    """Return the public classes, functions, and methods of the shown modules that no reference page names."""
    anchors = _anchors(pages)
    shown = {
        name
        for page in (ROOT / "docs/reference").rglob("*.md")
        for name in re.findall(r"^::: (\S+)$(?!\n    options:)", page.read_text(encoding="utf-8"), re.MULTILINE)
    }
    names = [f"{module.name}.{name}" for module in modules() if module.name in shown for name, _ in definitions(module)]
    return [name for name in names if name not in anchors]


def searches_without_title(index: dict[str, Any]) -> list[str]:
    """Return the searches whose page has no title with all words of the search."""
    titles: dict[str, list[str]] = {}
    for item in index["items"]:
        titles.setdefault(item["location"].partition("#")[0], []).append(re.sub(r"<[^>]+>", "", item["title"]).lower())
    return [
        f"search {query!r}: no title of {page} has these words"
        for query, page in SEARCHES.items()
        if not any(all(word in title for word in query.split()) for title in titles.get(page, []))
    ]


def main(folder: str) -> int:
    """Print the findings of a built site, and return the exit code."""
    site = Path(folder)
    pages = pages_of(site)
    count, fields = unnamed_fields(pages)
    findings = [
        *broken_links(site, pages),
        *escaped_bars(site),
        *(f"no reference page names the field {name}" for name in fields),
        *(f"no reference page names {name}" for name in unnamed_members(pages)),
        *searches_without_title(json.loads((site / "search.json").read_text(encoding="utf-8"))),
    ]
    print("\n".join(findings) or f"{len(pages)} pages, {count} classes with fields: no finding")
    return 1 if findings else 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1]))
