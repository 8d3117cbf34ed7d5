"""Our server, used by programs of others: the official conformance tool and inspector, two TypeScript SDKs."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.kit.node import Missing, installed, node
from tests.kit.server_process import serving

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("mcp_peers")]

HERE = Path(__file__).parent / "peers"
ROOT = Path(__file__).parents[3]
SERVED = "tests.kit.tool_servers"
STDIO = [sys.executable, "-m", SERVED, "stdio"]


@pytest.fixture(scope="module")
def modules() -> Path:
    """The folder of npm's programs."""
    try:
        return installed(HERE)
    except Missing as missing:
        pytest.skip(f"the programs of npm are not here: {missing}")


@pytest.fixture(scope="module")
def url(modules: Path) -> Iterator[str]:
    """Where our server listens."""
    with serving([sys.executable, "-m", SERVED, "http"], {"PYTHONPATH": str(ROOT)}) as address:
        yield f"{address}/mcp"


def _ran(*words: object) -> subprocess.CompletedProcess[str]:
    command = [node(), *(str(word) for word in words)]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120, check=False)


@pytest.mark.parametrize(
    ("package", "baseline", "options"),
    [
        ("@modelcontextprotocol/conformance", "0.1.16", ()),
        ("conformance-next", "2025-11-25", ("--requirements", "2025-11-25")),
        ("conformance-next", "2026-07-28", ("--requirements", "2026-07-28")),
    ],
    ids=["0.1.16", "2025-11-25", "2026-07-28"],
)
def test_the_conformance_tool_finds_only_what_is_listed(
    modules: Path, url: str, tmp_path: Path, package: str, baseline: str, options: tuple[str, ...]
) -> None:
    """Every scenario that is about tools passes; each that fails is listed with its reason, and none passes there."""
    program = modules / package / "dist" / "index.js"
    listed = HERE / f"expected-{baseline}.yml"
    done = _ran(program, "server", "--url", url, "--expected-failures", listed, "-o", tmp_path, *options)

    assert done.returncode == 0, done.stdout[-4000:]
    assert "tools-call-with-progress" in done.stdout


def test_the_inspector_lists_and_calls(modules: Path, url: str) -> None:
    """The official inspector's command line lists the tools over HTTP, and calls one over each transport."""
    program = modules / "@modelcontextprotocol" / "inspector" / "clients" / "launcher" / "build" / "index.js"
    call = ("--method", "tools/call", "--tool-name", "weather", "--tool-arg", "name=Oslo")
    over_http = (url, "--transport", "http")
    listed = _ran(program, "--cli", *over_http, "--method", "tools/list")
    called = [_ran(program, "--cli", *target, *call) for target in (over_http, STDIO)]

    assert [tool["name"] for tool in json.loads(listed.stdout)["tools"]][:2] == ["test_simple_text", "weather"]
    assert [json.loads(one.stdout)["structuredContent"] for one in called] == [{"degrees": 7.5, "sky": "grey"}] * 2


@pytest.mark.parametrize("way", ["stdio", "http"])
@pytest.mark.parametrize(("sdk", "protocol"), [("sdk", None), ("client", "2026-07-28")])
def test_typescript_clients_use_the_tools(modules: Path, url: str, way: str, sdk: str, protocol: str | None) -> None:
    """Both TypeScript SDKs list, call, see failures as we mean them, follow progress and are asked for approval."""
    target = STDIO if way == "stdio" else [url]
    done = _ran(HERE / "client.mjs", modules, sdk, *target)
    seen: dict[str, Any] = json.loads(done.stdout)

    assert seen["protocol"] == protocol
    assert seen["server"]["name"] == "served"
    assert seen["weather"]["structuredContent"] == {"degrees": 7.5, "sky": "grey"}
    assert seen["nowhere"]["isError"]
    assert json.loads(seen["nowhere"]["content"][0]["text"]) == {"type": "no-such-city", "name": "Atlantis"}
    assert (seen["unknown"]["code"], seen["broken"]["code"]) == (-32602, -32603)
    assert seen["invalid"]["isError"]
    assert json.loads(seen["invalid"]["content"][0]["text"])["faults"][0]["pointer"] == "/name"
    assert "secret" not in seen["broken"]["message"]
    assert seen["forget"]["content"] == []
    assert seen["progress"] == ["1", "2", "3"]
    assert seen["erased"]["content"][0]["text"] == "/tmp/x is gone"
    assert seen["kept"]["isError"]
    assert [message.endswith('/x"}') for message in seen["asked"]] == [True, True]
