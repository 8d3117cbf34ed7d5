"""The table of jobs and DBOS: what is used of it below its public classes is there, and its own tools see the jobs."""

from __future__ import annotations

import ast
import inspect
from pathlib import Path
from typing import Any

from dbos import DBOSClient
from dbos._sys_db import SystemDatabase

from fxai.storage import job_table
from fxai.storage.job_table import JobTable, NewJob
from tests.kit.every import every


def _calls() -> list[tuple[str, int, tuple[str, ...]]]:
    """The methods of the database that are called: name, how many arguments by place, the others by name."""
    calls: list[tuple[str, int, tuple[str, ...]]] = []
    for node in ast.walk(ast.parse(inspect.getsource(job_table))):
        if isinstance(node, ast.Call) and ast.unparse(node.func).rpartition(".")[0] == "self._database":
            named = tuple(keyword.arg for keyword in node.keywords if keyword.arg is not None)
            calls.append((ast.unparse(node.func).rpartition(".")[2], len(node.args), named))
    return calls


@every(("method", "places", "named"), _calls())
def test_dbos_has_what_is_called(method: str, places: int, named: tuple[str, ...]) -> None:
    """A method of it that is gone, or that takes other arguments, is named here before anything else breaks."""
    found: Any = getattr(SystemDatabase, method, None)
    assert found is not None, f"this version of DBOS has no SystemDatabase.{method}: look at fxai/storage/job_table.py"
    parameters = inspect.signature(found).parameters
    by_place = [one for one in parameters.values() if one.kind is not inspect.Parameter.KEYWORD_ONLY]
    assert len(by_place) > places, f"SystemDatabase.{method} takes other arguments"  # one is self
    assert set(named) <= set(parameters), f"SystemDatabase.{method} takes other arguments"


def test_calls_of_dbos_are_found() -> None:
    """Else the test above would hold nothing."""
    assert {"init_workflows", "start_queued_workflows", "update_workflow_outcome"} <= {name for name, _, _ in _calls()}


def test_the_tools_of_dbos_see_the_jobs(tmp_path: Path) -> None:
    """Jobs are workflows: a client of DBOS lists them, cancels one, and lets it wait again."""
    place = tmp_path / "jobs.db"
    with JobTable.open(place) as table:
        table.insert([NewJob("add", name, "[1, 2]") for name in ("a", "b")])
        client = DBOSClient(system_database_url=f"sqlite:///{place}", application_name="fxai")
        try:
            listed = client.list_workflows()
            client.cancel_workflow("a")
            cancelled = table.states(["a"])["a"].status
            client.resume_workflow("a", queue_name="add")
            claimed = table.claim(["add"], 5, worker="one")
        finally:
            client.destroy()
    assert [(one.workflow_id, one.name, one.status) for one in listed] == [
        ("a", "add", "ENQUEUED"),
        ("b", "add", "ENQUEUED"),
    ]
    assert cancelled == "cancelled"
    assert sorted(job.id for job in claimed) == ["a", "b"]
