"""The recorded figures of each folder, and the rule that a folder must not get worse."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

import msgspec

from tests.kit.prose.measures import DISTANCE, MEASURES, Figures, Measure
from tests.kit.source import ROOT

__all__ = ["Change", "Entry", "Record", "compare", "misses", "read_record", "updated", "write_record"]

RECORD = ROOT / "tests" / "architecture" / "prose.json"

DISTANCE_TARGET = 1.6
DISTANCE_NOISE = 250
"""Change of the distance that 300 words cause, times the words of the folder: about 150 to 270 in this project."""

YOU_KEPT = 0.95
"""Share of the recorded 'you' that a guide must have. New pages about data address the reader less often."""

LARGE = 2000
"""Words of a folder whose figures are stable enough for the targets."""

LARGE_PROFILE = 20000
"""Words of a folder whose distance is stable enough for its target."""


class Entry(NamedTuple):
    """A recorded figure: the findings, the units of text, and the reason for a recorded loss."""

    found: float
    of: int
    reason: str = ""


Record = dict[str, dict[str, Entry]]
"""Entries by folder and by the name of the measure."""


class Change(NamedTuple):
    """The recorded figure and the current figure of a folder."""

    folder: str
    name: str
    measure: Measure | None
    """The measure, or None for the distance of the function words."""
    stored: Entry | None
    """The recorded figure, or None if the folder is new."""
    now: Entry

    @property
    def is_better(self) -> bool:
        """True if the figure improved, or if it has no record."""
        if self.stored is None:
            return True
        if self.measure is not None and self.measure.finding == "you":
            return self._figure(self.now) > self._figure(self.stored)
        return self._figure(self.now) < self._figure(self.stored)

    @property
    def is_worse(self) -> bool:
        """True if the figure got worse by more than one finding.

        New text may have as many findings as the target allows. A folder may lose text without findings.
        """
        if self.measure is None:
            return self._is_farther()
        if self.measure.finding == "you":
            return self._has_fewer_you(self.measure)
        stored = self.stored or Entry(0, 0)
        added = max(self.now.of - stored.of, 0)
        allowed = stored.found + (self.measure.target or 0.0) * added / self.measure.per + 1
        return self.now.found > allowed and self._figure(self.now) > self._figure(stored)

    def _is_farther(self) -> bool:
        if self.stored is None:
            return self.now.of >= LARGE_PROFILE and self.now.found > DISTANCE_TARGET
        allowed = self.stored.found + DISTANCE_NOISE / max(self.now.of, LARGE)
        return self.now.found > max(allowed, DISTANCE_TARGET)

    def _has_fewer_you(self, measure: Measure) -> bool:
        least = measure.target or 0.0
        if self.stored is not None:
            least = min(self._figure(self.stored), least)
        return self.now.found < YOU_KEPT * least * self.now.of / measure.per - 1

    def _figure(self, entry: Entry) -> float:
        return entry.found if self.measure is None else self.measure.figure(entry.found, entry.of)

    def _shown(self, entry: Entry) -> str:
        if self.measure is None:
            return f"{entry.found} ({entry.of} words)"
        return f"{self._figure(entry):.1f} ({entry.found:.0f} in {entry.of} {self.measure.unit})"

    def __str__(self) -> str:
        """Return the folder, the measure, both figures, and the command that lists the new findings."""
        if self.stored is not None:
            recorded = f"recorded {self._shown(self.stored)}"
        else:
            target = DISTANCE_TARGET if self.measure is None else self.measure.target or 0
            recorded = f"target of a new folder {target}"
        line = f"{self.folder}: {self.name} is {self._shown(self.now)}, {recorded}."
        if self.measure is None or self.measure.finding == "you":
            return line
        return f"{line} List: python -m tests.kit.prose --since HEAD --list {self.measure.finding} {self.folder}"


def compare(folders: Mapping[str, Figures], record: Record) -> list[Change]:
    """Compare every figure of the folders with its record."""
    changes: list[Change] = []
    for folder, figures in folders.items():
        stored = record.get(folder, {})
        for measure in MEASURES:
            now = Entry(figures.counts[measure.finding], figures.counts[measure.unit])
            if _applies(measure, folder) and now.of:
                changes.append(Change(folder, measure.name, measure, stored.get(measure.name), now))
        if (words := figures.counts["profile_words"]) >= LARGE:
            now = Entry(round(figures.distance, 3), words)
            changes.append(Change(folder, DISTANCE, None, stored.get(DISTANCE), now))
    return changes


def updated(changes: Iterable[Change], reason: str = "") -> Record:
    """Return the record with the improvements, and with the losses if you pass a reason.

    Raises:
        ValueError: If a figure is worse and the reason is empty.
    """
    changes = list(changes)
    if not reason and (worse := [str(change) for change in changes if change.is_worse]):
        raise ValueError("\n".join(worse))
    record: Record = {}
    for change in changes:
        if change.is_worse:
            entry = change.now._replace(reason=reason)
        else:
            entry = change.now if change.is_better or change.stored is None else change.stored
        record.setdefault(change.folder, {})[change.name] = entry
    return record


def misses(folders: Mapping[str, Figures]) -> Iterator[str]:
    """Yield a line for each target that a large folder misses."""
    for folder, figures in folders.items():
        if (words := figures.counts["words"]) < LARGE:
            continue
        report = figures.report()
        for measure in MEASURES:
            if measure.target is None or not (_applies(measure, folder) or folder == "TOTAL"):
                continue
            figure = report[measure.name]
            if measure.finding == "you":
                if figure < measure.target and folder != "TOTAL":
                    yield f"{folder}: {measure.name} is {figure}, target: at least {measure.target}"
            elif figure > measure.target:
                yield f"{folder}: {measure.name} is {figure}, target: at most {measure.target}"
        if words >= LARGE_PROFILE and report[DISTANCE] > DISTANCE_TARGET:
            yield f"{folder}: {DISTANCE} is {report[DISTANCE]}, target: at most {DISTANCE_TARGET}"


def read_record(path: Path = RECORD) -> Record:
    """Return the recorded figures."""
    return msgspec.json.decode(path.read_bytes(), type=Record)


def write_record(record: Record, path: Path = RECORD) -> None:
    """Write a record with one figure per line, so that git can merge changes of two folders."""
    folders: list[str] = []
    for folder, entries in sorted(record.items()):
        lines = [
            f"    {msgspec.json.encode(name).decode()}: {msgspec.json.encode(_short(entry)).decode()}"
            for name, entry in entries.items()
        ]
        folders.append(f'  "{folder}": {{\n' + ",\n".join(lines) + "\n  }")
    path.write_text("{\n" + ",\n".join(folders) + "\n}\n", encoding="utf-8")


def _short(entry: Entry) -> tuple[object, ...]:
    return entry if entry.reason else entry[:2]


def _applies(measure: Measure, folder: str) -> bool:
    """Return False for the verbs of test docstrings, and for 'you' in reference pages and code."""
    if measure.finding == "nounfunction":
        return not folder.startswith("tests")
    if measure.finding == "you":
        return folder.startswith("docs") and "reference" not in folder
    return True
