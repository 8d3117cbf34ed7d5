"""The agent that reads files: its tools say what they should, and its handlers use the folder of a layer."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, cast

import pytest

from examples import files_agent
from examples.files_agent import agent, folder, handlers, kit
from fxai.annotations import Destructive, Readonly
from fxai.effects import fx
from fxai.tools import Outcome, Tool


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A folder with a text of five lines in it, and an empty one."""
    (tmp_path / "empty").mkdir()
    (tmp_path / "notes.txt").write_text("one\ntwo three\n\nfour\nfive\n")
    return tmp_path


def asked(root: Path, name: str, **params: Any) -> Outcome:
    """What the handlers give for a call."""
    return fx.run(kit.call(name, params).provide(handlers).provide(folder(root)))


def shown(root: Path, name: str, **params: Any) -> object:
    """What the model is shown of it."""
    change = kit.tools[name].to_model_output
    assert change is not None
    return change(asked(root, name, **params).result)


def test_the_tools_of_servers_are_as_the_servers_listed_them() -> None:
    """One tool is ours; the others are dynamic, with the description and the schema that a server sent."""
    document = json.loads(Path(files_agent.__file__).with_suffix(".json").read_text(encoding="utf-8"))
    listed = {tool["name"]: tool for server in document["servers"] for tool in server["tools"]}
    dynamic = {tool.name: tool for tool in kit if Tool.is_dynamic(tool)}

    assert list(kit.tools) == ["count_lines", "list_directory", "read_text_file"]
    assert dynamic.keys() == listed.keys()
    assert all(tool.json_schema() == listed[name]["inputSchema"] for name, tool in dynamic.items())
    assert all(tool.description == listed[name]["description"] for name, tool in dynamic.items())
    assert [server["serverInfo"]["version"] for server in document["servers"]] == ["0.2.0"]


def test_every_tool_is_harmless_and_has_examples() -> None:
    """The agent changes nothing; each tool shows requests, which is what a small model learns from."""
    assert all(tool.get(Readonly) and not tool.get(Destructive) for tool in kit)
    assert all(len(tool.input_examples) >= 3 and all(e.request for e in tool.input_examples) for tool in kit)
    assert agent.toolkit == kit


def test_it_counts_reads_and_lists(root: Path) -> None:
    """Results are typed for programs, and sentences for the model."""
    assert shown(root, "count_lines", path="notes.txt") == "notes.txt has 5 lines and 5 words."
    assert shown(root, "list_directory", path=".") == "This folder contains empty/, notes.txt."
    assert shown(root, "list_directory", path="empty") == "empty is empty."
    assert shown(root, "read_text_file", path="notes.txt", head=2) == "notes.txt says: one\ntwo three"
    assert shown(root, "read_text_file", path="notes.txt", tail=1) == "notes.txt says: five"


def test_long_results_are_cut_for_the_model_alone(root: Path) -> None:
    """A long text or listing is whole for the program, and said to be cut where the model reads it."""
    (root / "long.txt").write_text("x" * 5000)
    for number in range(60):
        (root / "empty" / f"{number:02}").touch()

    assert len(cast(Any, asked(root, "read_text_file", path="long.txt").result).text) == 5000
    assert str(shown(root, "read_text_file", path="long.txt")).endswith("(the first 800 of 5,000 characters)")
    assert str(shown(root, "list_directory", path="empty")).endswith("38, 39 and 20 more.")


@pytest.mark.parametrize("name", ["count_lines", "list_directory", "read_text_file"])
def test_what_is_outside_is_a_typed_failure_of_every_tool(root: Path, name: str) -> None:
    """A path that leads out is a failure, which the model reads as a line."""
    outcome = asked(root, name, path="../..")

    assert outcome.is_failure
    assert outcome.result == outcome.encoded_result == "outside of this folder: ../.."


@pytest.mark.parametrize("name", ["count_lines", "read_text_file"])
def test_a_secret_is_a_typed_failure_of_every_tool(root: Path, name: str) -> None:
    """Neither the text of a file that may hold secrets nor its length is told; its name may be listed."""
    (root / "server.pem").write_text("harmless")
    outcome = asked(root, name, path="server.pem")

    assert outcome.encoded_result == "may hold secrets: server.pem"
    assert "server.pem" in str(shown(root, "list_directory", path="."))


@pytest.mark.parametrize("params", [{"head": 1e308}, {"tail": 1e308}, {"head": -5}, {"tail": 0.5}])
def test_any_number_of_lines_may_be_asked_for(root: Path, params: dict[str, float]) -> None:
    """Numbers that no file has lines for are no fault of the program."""
    assert not asked(root, "read_text_file", path="notes.txt", **params).is_failure
