"""Recorded runs as values: store a run, replay it with changed tools or another model, and compare two runs."""

from __future__ import annotations

from fxai.agents.records.run_diff import ChangeKind, RunChange, RunDiff, ValueChange, diff_runs
from fxai.agents.records.run_record import RecordedCall, RecordedStep, RunEnd, RunRecord, RunRecordError, RunSource
from fxai.agents.records.run_replay import Divergence, RunDiverged, replay_results, replay_turns

__all__ = [
    "ChangeKind",
    "Divergence",
    "RecordedCall",
    "RecordedStep",
    "RunChange",
    "RunDiff",
    "RunDiverged",
    "RunEnd",
    "RunRecord",
    "RunRecordError",
    "RunSource",
    "ValueChange",
    "diff_runs",
    "replay_results",
    "replay_turns",
]
