"""The table of jobs and DBOS: fxai uses the public API of DBOS, and the tools of DBOS see the jobs."""

from __future__ import annotations

import ast
import sqlite3
import sys
from pathlib import Path

import dbos
import pytest
from dbos import DBOSClient

import fxai
from fxai.storage.job_table import JobTable, NewJob
from tests.kit.every import every

_FILES = [path for path in Path(fxai.__file__).parent.rglob("*.py") if "dbos" in path.read_text()]


def _private_names(path: Path) -> list[str]:
    """The names of DBOS in a file that are not public: of modules, and of what it exports."""
    names: list[str] = []
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] == "dbos":
            names += [f"{node.module}.{alias.name}" for alias in node.names if alias.name not in dbos.__all__]
            names += [str(node.module)] if node.module != "dbos" else []
        elif isinstance(node, ast.Import):
            names += [alias.name for alias in node.names if alias.name.startswith("dbos.")]
        elif isinstance(node, ast.Attribute) and node.attr.startswith("_"):
            owner = ast.unparse(node.value)
            names += [ast.unparse(node)] if owner == "DBOS" or owner.endswith("_client") else []
    return names


@every("path", _FILES)
def test_fxai_uses_the_public_api_of_dbos(path: Path) -> None:
    """No file of fxai imports a private name of DBOS, or reads a private attribute of its objects."""
    assert _private_names(path) == []


def test_private_names_are_found(tmp_path: Path) -> None:
    """The test above sees private modules, private names, and private attributes."""
    file = tmp_path / "private.py"
    file.write_text("import dbos._queue\nfrom dbos._sys_db import X\nself._client._sys_db\nDBOS._launch\n")
    assert _private_names(file) == [
        "dbos._queue",
        "dbos._sys_db.X",
        "dbos._sys_db",
        "self._client._sys_db",
        "DBOS._launch",
    ]
    assert len(_FILES) >= 3


@pytest.mark.skipif(
    sys.version_info >= (3, 12) and sqlite3.sqlite_version_info < (3, 42),
    reason="the clock of DBOS needs SQLite 3.42 on Python 3.12 and later",
)
def test_the_tools_of_dbos_see_the_jobs(tmp_path: Path) -> None:
    """Jobs are workflows: a client of DBOS lists them, cancels one, and lets it wait again."""
    location = tmp_path / "jobs.db"
    with JobTable.open(location) as table:
        table.insert([NewJob("add", name, "[1, 2]") for name in ("a", "b")])
        client = DBOSClient(system_database_url=f"sqlite:///{location}", application_name="fxai")
        try:
            listed = client.list_workflows()
            client.cancel_workflow("a")
            cancelled = table.states(["a"])["a"].status
            client.resume_workflow("a", queue_name="add")
            resumed = table.states(["a"])["a"].status
        finally:
            client.destroy()
    assert [(one.workflow_id, one.name, one.status) for one in listed] == [
        ("a", "add", "ENQUEUED"),
        ("b", "add", "ENQUEUED"),
    ]
    assert (cancelled, resumed) == ("cancelled", "waiting")
