"""The figures of the project's folders, with a cache of the files that did not change."""

from __future__ import annotations

import contextlib
import hashlib
import subprocess
import sys
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path

import msgspec

from tests.kit.prose.measures import Figures, Finding, findings
from tests.kit.prose.texts import Text, texts_of
from tests.kit.source import ROOT

__all__ = ["figures_of_folders", "new_findings", "project_texts", "top_level"]

SKIPPED = {"venv", "node_modules", "site", "build", "dist", "__pycache__"}
CACHE = ROOT / ".cache" / "prose.json"


class _Sizes(msgspec.Struct):
    counts: dict[str, int]
    words: dict[str, int]


class _Cache(msgspec.Struct):
    """Figures of files by the hash of their contents."""

    version: str
    """The hash of the measures. Another version empties the cache."""
    files: dict[str, _Sizes]


def top_level() -> list[str]:
    """Return the names of the project's files and folders, without hidden and generated folders."""
    return sorted(path.name for path in ROOT.iterdir() if not path.name.startswith(".") and path.name not in SKIPPED)


def project_texts(paths: Iterable[str]) -> Iterator[tuple[str, list[Text]]]:
    """Yield the name and the prose of each Markdown and Python file below the paths."""
    for name, source in _sources(paths):
        yield name, list(texts_of(name, source))


def figures_of_folders(paths: Iterable[str]) -> dict[str, Figures]:
    """Return the figures of each folder. A folder is one or two levels deep, such as `tests` and `fxai/tools`."""
    cache, fresh = _read_cache(), dict[str, _Sizes]()
    folders: dict[str, Figures] = defaultdict(Figures)
    for name, source in _sources(paths):
        key = hashlib.sha256(f"{Path(name).suffix}\n{source}".encode()).hexdigest()
        sizes = cache.files.get(key) or fresh.get(key)
        if sizes is None:
            sizes = fresh[key] = _measure(name, source)
        folders[_folder_of(name)].add(Figures(sizes.counts, sizes.words))
    if fresh:
        _write_cache(_Cache(cache.version, cache.files | fresh))
    return dict(sorted(folders.items()))


def new_findings(paths: Iterable[str], since: str) -> list[Finding]:
    """Return the findings that a commit did not have, in the files that changed after it.

    Raises:
        subprocess.CalledProcessError: If git does not know the commit.
    """
    changed = {*_git("diff", "--name-only", since).splitlines(), *_git("ls-files", "-o", "--exclude-standard").split()}
    known = set(_git("ls-tree", "-r", "--name-only", since).splitlines())
    found: list[Finding] = []
    for name, texts in project_texts(paths):
        if name not in changed:
            continue
        old = texts_of(name, _git("show", f"{since}:{name}")) if name in known else ()
        before = Counter((finding.measure, finding.note) for finding in findings(old, Figures()))
        for finding in findings(texts, Figures()):
            before[finding.measure, finding.note] -= 1
            if before[finding.measure, finding.note] < 0:
                found.append(finding)
    return found


def _sources(paths: Iterable[str]) -> Iterator[tuple[str, str]]:
    files: set[Path] = set()
    for path in map(ROOT.joinpath, paths):
        files.update([path] if path.is_file() else path.rglob("*"))
    for file in sorted(files):
        name = file.relative_to(ROOT)
        is_hidden = any(part in SKIPPED or part.startswith(".") for part in name.parts)
        if file.suffix in {".py", ".md"} and not is_hidden:
            yield name.as_posix(), file.read_text(encoding="utf-8", errors="replace")


def _folder_of(name: str) -> str:
    parts = Path(name).parent.parts
    return "/".join(parts[:2]) or "."


def _measure(name: str, source: str) -> _Sizes:
    figures = Figures()
    for _ in findings(texts_of(name, source), figures):
        pass
    return _Sizes(figures.counts, figures.function_words)


def _read_cache() -> _Cache:
    parts = [path.read_bytes() for path in sorted(Path(__file__).parent.glob("*.py"))]
    version = hashlib.sha256(b"".join([sys.version.encode(), *parts])).hexdigest()
    with contextlib.suppress(OSError, msgspec.MsgspecError):
        cache = msgspec.json.decode(CACHE.read_bytes(), type=_Cache)
        if cache.version == version:
            return cache
    return _Cache(version, {})


def _write_cache(cache: _Cache) -> None:
    """Replace the cache. A checkout that is not writable has no cache."""
    with contextlib.suppress(OSError):
        CACHE.parent.mkdir(exist_ok=True)
        draft = CACHE.with_suffix(f".{hashlib.sha256(msgspec.json.encode(cache)).hexdigest()[:8]}")
        draft.write_bytes(msgspec.json.encode(cache))
        draft.replace(CACHE)


def _git(*arguments: str) -> str:
    command = ["git", *arguments]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
