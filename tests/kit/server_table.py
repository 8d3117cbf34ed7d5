"""What recorded exchanges show of each server of Chat Completions: `python -m tests.kit.server_table` writes the table.

A cell is the day of the latest exchange that shows it; an empty one says that none does.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from fxai.providers.openai import SERVERS
from tests.kit.data import is_array, is_object
from tests.kit.recorded_leaves import body_of
from tests.kit.recordings import Exchange, exchanges, server_of

__all__ = ["PAGE", "fill_page", "table"]

PAGE: Final = Path(__file__).parents[2] / "docs/reference/servers.md"
"""The page whose generated parts stand between two marks each."""


def _objects(value: Any) -> list[dict[str, Any]]:
    return [one for one in value if is_object(one)] if is_array(value) else []


def _messages(body: Any) -> list[dict[str, Any]]:
    return _objects([choice.get("message") for choice in _objects(body.get("choices"))])


def _calls(body: Any) -> int:
    return max((len(_objects(message.get("tool_calls"))) for message in _messages(body)), default=0)


def _field(*names: str) -> Callable[[Exchange, Any], bool]:
    """Whether a message of the answer has one of the fields."""
    return lambda _, body: any(message.get(name) for message in _messages(body) for name in names)


def _sends_back(exchange: Exchange, _: Any) -> bool:
    fields = ("reasoning", "reasoning_content", "reasoning_details")
    return any(message.get(name) for message in _request_messages(exchange) for name in fields) or any(
        piece.get("type") == "thinking" for piece in _pieces(exchange)
    )


def _request_messages(exchange: Exchange) -> list[dict[str, Any]]:
    return _objects((exchange.request or {}).get("messages"))


def _pieces(exchange: Exchange) -> list[dict[str, Any]]:
    return [piece for message in _request_messages(exchange) for piece in _objects(message.get("content"))]


def _piece(*kinds: str) -> Callable[[Exchange, Any], bool]:
    """Whether the request has a piece of content of one of the types."""
    return lambda exchange, _: any(piece.get("type") in kinds for piece in _pieces(exchange))


def _thinks(exchange: Exchange, body: Any) -> bool:
    pieces = [piece for message in _messages(body) for piece in _objects(message.get("content"))]
    told = _field("reasoning", "reasoning_content", "reasoning_details")(exchange, body)
    return told or any(piece.get("type") == "thinking" for piece in pieces)


def _sources(_: Exchange, body: Any) -> bool:
    notes = [note for message in _messages(body) for note in _objects(message.get("annotations"))]
    return bool(body.get("citations")) or any(note.get("type") == "url_citation" for note in notes)


def _schema(exchange: Exchange, _: Any) -> bool:
    form = (exchange.request or {}).get("response_format")
    return is_object(form) and form.get("type") == "json_schema"


def _strict(exchange: Exchange, _: Any) -> bool:
    functions = _objects([tool.get("function") for tool in _objects((exchange.request or {}).get("tools"))])
    return any(function.get("strict") for function in functions)


def _usage(*names: str) -> Callable[[Exchange, Any], bool]:
    def holds(_: Exchange, body: Any) -> bool:
        usage: dict[str, Any] = body.get("usage") or {}
        return any(name in usage or name in (usage.get("prompt_tokens_details") or {}) for name in names)

    return holds


_COLUMNS: Final[Mapping[str, Callable[[Exchange, Any], object]]] = {
    "Whole": lambda exchange, _: not exchange.stream,
    "Stream": lambda exchange, _: exchange.stream,
    "Call": lambda _, body: _calls(body) > 0,
    "Calls": lambda _, body: _calls(body) > 1,
    "Strict tool": _strict,
    "JSON Schema": _schema,
    "Reasoning": _thinks,
    "Sent back": _sends_back,
    "Image": _piece("image_url"),
    "Document": _piece("file", "document_url"),
    "Audio": _piece("input_audio"),
    "Video": _piece("video_url"),
    "Sources": _sources,
    "Cached tokens": _usage("cached_tokens", "num_cached_tokens", "prompt_cache_hit_tokens"),
    "Cost": _usage("cost", "cost_in_usd_ticks"),
    "Server-side tools": _field("executed_tools"),
}


def _day(body: Any) -> str:
    made = body.get("created")
    return f"{datetime.fromtimestamp(made, UTC):%Y-%m-%d}" if isinstance(made, int | float) and made else "recorded"


def table() -> str:
    """The table, as Markdown: a row for each server, by its name."""
    rows: dict[str, dict[str, str]] = {name: {**_RUNS.get(name, {})} for name in sorted({*SERVERS, "openai"})}
    for exchange in exchanges("chat"):
        row = rows.get(server_of(exchange).name)
        if row is None or exchange.status >= 400 or exchange.host in _NOT_THEIRS:
            continue
        body = body_of(exchange)[0]
        for column, shows in _COLUMNS.items():
            if "choices" in body and shows(exchange, body):
                row[column] = max(row.get(column, ""), _day(body))
    head = f"| Server | {' | '.join(_COLUMNS)} |\n|---|{'---|' * len(_COLUMNS)}"
    lines = [f"| `{name}` | {' | '.join(row.get(column, '') for column in _COLUMNS)} |" for name, row in rows.items()]
    return "\n".join([head, *lines]) + "\n"


# What real servers do in the tests beside this one, and the day on which that was seen.
_RUNS: Final[Mapping[str, dict[str, str]]] = {
    "llamacpp": dict.fromkeys(("Whole", "Stream", "Call", "JSON Schema"), "2026-11-25")
}
# Hosts whose server has no name here; they are read as one that nothing is known of.
_NOT_THEIRS: Final = frozenset(
    (
        *("api.inference.crusoecloud.com", "demo-endpoints.pydantic.workers.dev", "localhost", "openai-compatible"),
        "us.inference.heroku.com",
    )
)


def _yes(value: bool | None, unknown: str = "by model name") -> str:
    return unknown if value is None else "yes" if value else "no"


def facts() -> str:
    """What requests to each server are like, as Markdown rows."""
    heads = [
        *("Server", "Key", "Tokens", "Usage in a stream", "Strict tools", "JSON Schema", "Forced calls"),
        *("Earlier reasoning", "Documents"),
    ]
    rows = [f"| {' | '.join(heads)} |\n|{'---|' * len(heads)}\n"]
    for name, server in SERVERS.items():
        models = (server.schema_models or "").replace("|", "&#124;")
        schema = f"<code>{models}</code>" if models else _yes(server.supports_schema)
        back = server.returns if server.returns is not None else ("unchanged",)
        earlier = ", ".join(dict.fromkeys((*back, *((server.thoughts,) if server.thoughts else ()))))
        cells = (
            f"`{name}`",
            " or ".join(f"`{key}`" for key in server.keys) + ("" if server.needs_key else ", optional"),
            f"`{server.token_limit}`" if server.token_limit else "by model name",
            "requested" if server.stream_usage else "not requested",
            _yes(server.supports_strict),
            schema,
            _yes(server.forced_choice),
            earlier or "none",
            _yes(server.documents),
        )
        rows.append(f"| {' | '.join(cells)} |\n")
    return "".join(rows)


def sources() -> str:
    """Where the facts about each server come from, as a Markdown list."""
    return "".join(f"- `{name}`: {'; '.join(server.sources)}\n" for name, server in SERVERS.items())


def fill_page(page: str) -> str:
    """The page with its generated parts as they are now."""
    for mark, text in (("table", table()), ("facts", facts()), ("sources", sources())):
        start, end = f"<!-- {mark} -->\n", f"<!-- end of {mark} -->"
        before, _, rest = page.partition(start)
        page = f"{before}{start}{text}{end}{rest.partition(end)[2]}"
    return page


if __name__ == "__main__":
    PAGE.write_text(fill_page(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
    sys.stdout.write(table())
