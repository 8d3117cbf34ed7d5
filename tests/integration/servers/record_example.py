"""Records the cassettes of the example anew: `python -m tests.integration.servers.record_example`.

The scripted server stands in for the providers. Needed when what we send changes: a cassette answers the very
requests that it recorded.
"""

from __future__ import annotations

import json
import runpy
import tempfile
from pathlib import Path
from typing import Any

from fxai.effects import fx
from fxai.providers import anthropic, openai
from fxai.testing.recording import record
from tests.kit.node import installed, node
from tests.kit.server_process import serving

EXAMPLE = Path(__file__).parents[3] / "examples" / "70_one_program_four_models.py"
CALL = {"id": "call_1", "name": "weather", "arguments": {"city": "Oslo"}}
SCRIPT = [
    {"match": {"userMessage": "Oslo", "hasToolResult": False}, "response": {"toolCalls": [CALL]}},
    {"match": {"userMessage": "Oslo"}, "response": {"content": "It snows in Oslo, at -3 degrees."}},
]


def main() -> None:
    """Runs the program of the example once on each wire, and keeps what was said."""
    example: dict[str, Any] = runpy.run_path(str(EXAMPLE))
    server = installed(Path(__file__).parent / "aimock") / "@copilotkit" / "aimock" / "dist" / "cli.js"
    with tempfile.NamedTemporaryFile("w", suffix=".json") as script:
        json.dump({"fixtures": SCRIPT}, script)
        script.flush()
        with serving([node(), str(server), "--port", "0", "--fixtures", script.name, "--strict"]) as url:
            layers: dict[str, Any] = {
                "responses": openai.layer("gpt-5.5", base_url=f"{url}/v1", api_key="sk-1"),
                "chat": openai.layer("gpt-5.5", api="chat", base_url=f"{url}/v1", api_key="sk-1"),
                "messages": anthropic.layer("claude-sonnet-5", base_url=url, api_key="sk-1"),
            }
            for wire, layer in layers.items():
                kept = record(example["CASSETTES"] / f"{wire}.json")
                fx.run(example["program"].provide(example["tools"]).provide(layer).provide(kept))


if __name__ == "__main__":
    main()
