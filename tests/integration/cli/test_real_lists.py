"""The tools that real MCP servers list: what is shown, what would be sent, and what is found."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.kit.command_line import Run, runner

LISTS = sorted((Path(__file__).parents[1] / "mcp_schemas").glob("*.json"))


@pytest.fixture
def fxai(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """Runs `fxai` with arguments."""
    return runner(monkeypatch, capsys)


@pytest.mark.parametrize("file", LISTS, ids=lambda file: file.stem)
def test_every_tool_of_a_server_is_shown(fxai: Run, file: Path) -> None:
    """The table and the data have each tool that the server lists, and nothing is left out."""
    names = [tool["name"] for tool in json.loads(file.read_text())["tools"]]
    data = json.loads(fxai("tools", "--json", str(file)).out)
    shown = fxai("tools", str(file))

    assert names
    assert [tool["name"] for tool in data["tools"]] == names
    assert data["left_out"] == []
    assert all(f"{name}  dynamic" in shown.out for name in names)


@pytest.mark.parametrize("file", LISTS, ids=lambda file: file.stem)
@pytest.mark.parametrize("provider", [["openai"], ["openai", "--api", "chat"], ["anthropic"]], ids=" ".join)
def test_every_tool_of_a_server_can_be_sent(fxai: Run, file: Path, provider: list[str]) -> None:
    """Each tool is sent, and where it is not strict a warning says why."""
    data = json.loads(fxai("schema", str(file), "--json", "--provider", *provider).out)

    assert data["ok"]
    assert all(tool["sent"] is not None for tool in data["tools"])
    assert all(tool["strict"] or tool["warnings"] for tool in data["tools"])


@pytest.mark.parametrize("file", LISTS, ids=lambda file: file.stem)
def test_only_descriptions_are_found_wanting(fxai: Run, file: Path) -> None:
    """The servers' schemas are sound: what is found by default is about descriptions alone, so the rest is no noise."""
    faults = json.loads(fxai("check", "--json", str(file)).out)["faults"]

    assert {fault["code"] for fault in faults} <= {"parameter-undescribed", "description-too-long"}
    assert all(fault["pointer"].startswith(("/parameters/", "/description")) for fault in faults)
