"""Measure how plain the project's English is, and record improvements.

```sh
python -m tests.kit.prose                     # figures of each folder, without the tests
python -m tests.kit.prose docs README.md      # figures of some paths
python -m tests.kit.prose --list all docs     # every finding in docs
python -m tests.kit.prose --list idiom        # findings of a measure, or of a kind of text such as `message`
python -m tests.kit.prose --since HEAD        # findings that the last commit did not have
python -m tests.kit.prose --check             # targets that a folder misses
python -m tests.kit.prose --record            # write better figures to tests/architecture/prose.json
```

Figures are per 1,000 words, except for percentages and the distance (k).
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter
from collections.abc import Iterable, Mapping

from tests.kit.prose.folders import figures_of_folders, new_findings, project_texts, top_level
from tests.kit.prose.measures import Figures, Finding, findings
from tests.kit.prose.ratchet import compare, misses, read_record, updated, write_record


def main(arguments: list[str] | None = None) -> int:
    """Run the command, and return its exit code."""
    options = _parser().parse_args(arguments)
    if options.record:
        return _record(options.worse or "")
    paths: list[str] = options.paths or [name for name in top_level() if name != "tests"]
    if options.list or options.since or options.idioms:
        found = new_findings(paths, options.since) if options.since else _all_findings(paths)
        _print_idioms(found) if options.idioms else _print_findings(found, options.list or "all")
        return 0
    folders = figures_of_folders(paths)
    total = Figures()
    for figures in folders.values():
        total.add(figures)
    if options.check:
        missed = list(misses({**folders, "TOTAL": total}))
        print("\n".join(missed) or "every target is met")
        return 1 if missed else 0
    reports = {folder: figures.report() for folder, figures in folders.items()}
    if options.json:
        print(json.dumps({"total": total.report(), "folders": reports}))
    else:
        _print_table({**reports, "TOTAL": total.report()})
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.kit.prose", description="Measure the project's English.")
    parser.add_argument("paths", nargs="*", help="Files and folders. Default: all except the tests.")
    parser.add_argument("--list", metavar="NAME", help="Print findings: all, of a measure, or of a kind of text.")
    parser.add_argument("--since", metavar="COMMIT", help="Print only the findings that a commit did not have.")
    parser.add_argument("--idioms", action="store_true", help="Print the number of findings of each idiom.")
    parser.add_argument("--check", action="store_true", help="Exit with 1 if a large folder misses a target.")
    parser.add_argument("--json", action="store_true", help="Print the figures as JSON.")
    parser.add_argument(
        "--record", action="store_true", help="Record better figures. Exit with 1 if a figure is worse."
    )
    parser.add_argument("--worse", metavar="REASON", help="Record worse figures, too, with the reason.")
    return parser


def _record(reason: str) -> int:
    changes = compare(figures_of_folders(top_level()), read_record())
    try:
        record = updated(changes, reason)
    except ValueError as error:
        print(f"{error}\nNo figure was recorded. Improve the text, or add --worse REASON.", file=sys.stderr)
        return 1
    write_record(record)
    return 0


def _all_findings(paths: Iterable[str]) -> list[Finding]:
    return [finding for _, texts in project_texts(paths) for finding in findings(texts, Figures())]


def _print_findings(found: Iterable[Finding], name: str) -> None:
    for finding in sorted(found, key=lambda finding: (finding.path, finding.line)):
        if name in {"all", finding.measure, finding.kind}:
            print(finding)


def _print_idioms(found: Iterable[Finding]) -> None:
    names = Counter(finding.note.partition(": ")[0] for finding in found if finding.measure == "idiom")
    for name, count in names.most_common():
        print(f"{count:6}  {name}")


def _print_table(rows: Mapping[str, Mapping[str, float]]) -> None:
    names = list(rows["TOTAL"])
    heads = ["w/s" if name == "words a sentence" else name.split(" ")[0] for name in names]
    print(" " * 34 + "".join(f"{head:>8}" for head in heads))
    for row, figures in rows.items():
        print(f"{row[:33]:34}" + "".join(f"{figures[name]:>8}" for name in names))
    print("\n" + "\n".join(f"{head:>6} = {name}" for head, name in zip(heads, names, strict=True)))


if __name__ == "__main__":
    raise SystemExit(main())
