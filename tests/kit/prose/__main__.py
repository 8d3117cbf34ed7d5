"""Measure how plain the project's English is.

```sh
python -m tests.kit.prose                         # figures of each folder, without the tests
python -m tests.kit.prose docs README.md          # figures of some paths
python -m tests.kit.prose --list all fxai/ui      # every finding in a folder, with a replacement
python -m tests.kit.prose --list idiom            # findings of a measure, or of a kind of text such as `message`
python -m tests.kit.prose --check                 # targets that a folder misses
```

Figures are per 1,000 words, except for percentages and the distance (k).
"""

from __future__ import annotations

import argparse

from tests.kit.prose.measures import MEASURES, Figures, figures_of_folders, findings, misses, total_of
from tests.kit.prose.texts import texts_below, top_level


def main(arguments: list[str] | None = None) -> int:
    """Run the command, and return its exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.kit.prose", description="Measure the project's English.")
    parser.add_argument("paths", nargs="*", help="Files and folders. Default: all except the tests.")
    parser.add_argument("--list", metavar="NAME", help="Print findings: all, of a measure, or of a kind of text.")
    parser.add_argument("--check", action="store_true", help="Exit with 1 if a large folder misses a target.")
    options = parser.parse_args(arguments)
    paths: list[str] = options.paths or [name for name in top_level() if name != "tests"]
    if options.list:
        found = [finding for _, texts in texts_below(paths) for finding in findings(texts, Figures())]
        for finding in sorted(found, key=lambda finding: (finding.path, finding.line)):
            if options.list in {"all", finding.measure, finding.kind}:
                print(finding)
        return 0
    folders = figures_of_folders(paths)
    if options.check:
        missed = list(misses(folders))
        print("\n".join(missed) or "every target is met")
        return 1 if missed else 0
    print(" " * 34 + f"{'words':>8}" + "".join(f"{measure.name.split(' ')[0]:>8}" for measure in MEASURES))
    for folder, figures in {**folders, "TOTAL": total_of(folders)}.items():
        row = "".join(f"{figures.figure(measure):>8}" for measure in MEASURES)
        print(f"{folder[:33]:34}{figures.counts['words']:>8}{row}")
    for measure in MEASURES:
        head, _, name = measure.name.partition(" ")
        print(f"{head:>6} = {name}, target: {measure.target}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
