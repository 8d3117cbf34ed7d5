"""The command `fxai models`: the models as a table or as JSON.

>>> import io
>>> out = io.StringIO()
>>> show_models(("local",), out, as_json=True)
True
>>> '"name":"local"' in out.getvalue()
True

With `--check` each provider is asked for its page of the model, which shows whether it accepts the key and knows the
model. Nothing is generated, so nothing is charged. A model that runs in this process is not checked:

>>> from fxai.cli.model_list import list_models
>>> [entry.checked for entry in check_models(list_models(("local",)))]
[False]
"""

from __future__ import annotations

from typing import Final, TextIO
from urllib.parse import quote

import msgspec

from fxai.cli.model_list import Entry, list_models
from fxai.cli.program import value_of
from fxai.effects import fx
from fxai.effects.effect import Effect, Gen
from fxai.effects.scope import Scope
from fxai.messages.errors import AiError
from fxai.providers.http.client import Client, open_client
from fxai.providers.http.secret import Secret
from fxai.schema.display import json_line, one_line

__all__ = ["check_model", "check_models", "show_models"]

_HEADS: Final = ("MODEL", "TOOLS", "STRICT", "STRUCTURED", "IMAGES", "EMBEDDINGS", "STATE")


def show_models(
    names: tuple[str, ...], out: TextIO, *, check: bool = False, as_json: bool = False, color: bool | None = None
) -> bool:
    """Shows the models of these names; False where one that was named, or was asked, cannot be used.

    Raises:
        CliError: a name is of no provider.
    """
    entries = list_models(names)
    if check:
        entries = check_models(entries)
    ok = all(entry.ok or not ((names and check) or entry.checked) for entry in entries)
    if as_json:
        data = {"ok": ok, "models": [entry.to_data() for entry in entries]}
        out.write(json_line(data))
    else:
        _table(entries, out, color)
    return ok


def _table(entries: tuple[Entry, ...], out: TextIO, color: bool | None) -> None:
    from fxai.cli.screen import console

    screen = console(out, color)
    rows = [_row(entry) for entry in entries]
    wide = [max(map(len, column)) for column in zip(*(row[:-1] for row in (_HEADS, *rows)), strict=True)]
    for number, row in enumerate((_HEADS, *rows)):
        cells = "  ".join(f"{cell:<{size}}" for cell, size in zip(row[:-1], wide, strict=True))
        screen.print(cells, style="bold" if number == 0 else None, end="  ")
        fine = number == 0 or entries[number - 1].ok
        screen.print(row[-1], style=("bold" if number == 0 else "green") if fine else "yellow")


def _row(entry: Entry) -> tuple[str, ...]:
    can = entry.can
    name = one_line(entry.name) + (" (default)" if entry.default else "")
    return (name, can.tools, can.strict, can.structured, can.images, can.embeddings or "no", entry.state_text)


_PATIENCE: Final = 10.0


def check_models(entries: tuple[Entry, ...]) -> tuple[Entry, ...]:
    """The entries with the providers' answers; models that cannot be used or that run here are not checked."""
    return value_of(fx.for_each(entries, check_model, concurrency=None).map(tuple))


def check_model(entry: Entry) -> Effect[Entry]:
    """The entry with its provider's answer."""
    if entry.state != "ready" or entry.provider not in ("openai", "anthropic"):
        return fx.succeed(entry)
    asked = _openai(entry.model) if entry.provider == "openai" else _anthropic(entry.model)
    failed = fx.scoped(asked).as_(None).catch_all(fx.succeed)
    return failed.map(lambda error: msgspec.structs.replace(entry, checked=True, failure=error))


@fx.gen
def _openai(model: str) -> Gen[object, AiError, Scope]:
    from fxai.providers.openai.client import BASE_URL, address, open_account

    client: Client = yield from open_account(timeout=_PATIENCE, retry=None)
    own = address().startswith(BASE_URL)  # servers of others list their models, but have no page for each
    return (yield from client.get(f"/models/{quote(model, safe='')}" if own else "/models", method="check"))


@fx.gen
def _anthropic(model: str) -> Gen[object, AiError, Scope]:
    from fxai.providers.anthropic.model import BASE_URL, KEY
    from fxai.providers.anthropic.request import VERSION

    key = yield from Secret.from_env(KEY, module="anthropic")
    client = yield from open_client(
        base_url=BASE_URL,
        headers={"x-api-key": key, "anthropic-version": VERSION},
        timeout=_PATIENCE,
        retry=None,
        module="anthropic",
    )
    return (yield from client.get(f"/v1/models/{quote(model, safe='')}", method="check"))
