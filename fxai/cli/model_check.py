"""Checks of models: the cheapest question to each provider, whether it knows the key and the model.

Nothing is generated, so nothing is charged: a provider is asked what it says of the model.

>>> from fxai.cli.model_list import listed
>>> [entry.checked for entry in checked(listed(("local",)))]
[False]
"""

from __future__ import annotations

from typing import Final
from urllib.parse import quote

import msgspec

from fxai.cli.model_list import Entry
from fxai.cli.program import value_of
from fxai.effects import fx
from fxai.effects.effect import Effect, Gen
from fxai.effects.scope import Scope
from fxai.messages.errors import AiError
from fxai.providers.http.client import Client, open_client
from fxai.providers.http.secret import Secret

__all__ = ["check_of", "checked"]

_PATIENCE: Final = 10.0


def checked(entries: tuple[Entry, ...]) -> tuple[Entry, ...]:
    """The entries with what the providers said. Those that cannot be asked, and what runs here, are as they were."""
    return value_of(fx.for_each(entries, check_of, concurrency=None).map(tuple))


def check_of(entry: Entry) -> Effect[Entry]:
    """The entry with what its provider said of it."""
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
