"""Our client on our server: what a toolkit says and does comes through, over both transports and on both loops."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal, TypeAlias, cast

import pytest

from fxai import Gen, ToolSource, fx, mcp
from fxai.annotations import Meta, Readonly, Title
from fxai.tools import Toolkit
from tests.kit.server_process import serving

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("mcp_own_client")]

Seen: TypeAlias = tuple[Any, Any, Any, Any, Any]

ROOT = Path(__file__).parents[3]
SERVED = ("-m", "tests.kit.tool_servers")


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    """Where our server listens."""
    with serving([sys.executable, *SERVED, "http"], {"PYTHONPATH": str(ROOT)}) as address:
        yield f"{address}/mcp"


# On trio the SDK's client leaves streams of events to the garbage collector, which says so.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("way", ["stdio", "http"])
def test_what_goes_in_comes_out(url: str, way: str, backend: str) -> None:
    """Annotations, schemas, results, failures and preliminary results are on the other side what they are on this."""
    server = mcp.http(url) if way == "http" else mcp.stdio(sys.executable, *SERVED, "stdio", backend, cwd=str(ROOT))

    @fx.gen
    def ask(kit: Toolkit[Any]) -> Gen[Seen, Any, Any]:
        right = yield from kit.call("weather", {"name": "Oslo"})
        wrong = yield from kit.call("weather", {"name": "Atlantis"})
        counted = yield from kit.handle("count", {"value": 3}).collect()
        denied = yield from kit.call("erase", {"path": "/tmp/x"})
        return kit.tools["weather"], right, wrong, counted, denied

    loop = cast(Literal["asyncio", "trio"], backend)
    weather, right, wrong, counted, denied = fx.run(ToolSource.of(server).use(ask), backend=loop)

    assert (weather.get(Title), weather.get(Readonly)) == ("Weather", True)
    assert dict(weather.get(Meta)) == {"example.org/unit": "C"}
    assert right.result == {"degrees": 7.5, "sky": "grey"}
    assert wrong.is_failure
    assert "no-such-city" in wrong.result.problem
    assert (counted[-1].preliminary, denied.is_failure) == (False, True)
    assert "approval" in denied.encoded_json.decode()
    assert "approval-unavailable" in denied.result.problem
    assert "elicitation" in denied.result.problem
