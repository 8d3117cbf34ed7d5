"""The HTTP client of OpenAI's API, with the key and the address from the arguments or the environment.

>>> from fxai.effects import fx
>>> opened = open_account(api_key="sk-1", base_url="https://api.example.com/v1")
>>> type(fx.run(fx.scoped(opened))).__name__
'Client'
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from fxai.effects import fx
from fxai.effects.effect import Effect, Gen
from fxai.effects.schedule import Schedule
from fxai.effects.scope import Scope
from fxai.messages.errors import AiError
from fxai.providers.http.client import RETRY, Client, open_client
from fxai.providers.http.transport import TIMEOUT, Secret, Timeout

if TYPE_CHECKING:
    import httpx2

__all__ = ["BASE_URL", "MODULE", "Key", "address", "open_account"]

BASE_URL: Final = "https://api.openai.com/v1"
"""Where OpenAI's own API is."""
MODULE: Final = "openai"
"""Who reports errors."""

Key: TypeAlias = str | Secret | Effect[Secret, AiError] | None
"""A key, or how to get one; None for `OPENAI_API_KEY`."""


def address(given: str | None = None) -> str:
    """Where the API is: as given, else `OPENAI_BASE_URL`, else OpenAI's own."""
    return given or os.environ.get("OPENAI_BASE_URL") or BASE_URL


def open_account(
    *,
    api_key: Key = None,
    base_url: str | None = None,
    organization: str | None = None,
    project: str | None = None,
    headers: Mapping[str, str | Secret] | None = None,
    timeout: Timeout | float | None = TIMEOUT,
    proxy: str | None = None,
    retry: Schedule[AiError, Any] | None = RETRY,
    transport: httpx2.AsyncBaseTransport | None = None,
) -> Effect[Client, AiError, Scope]:
    """A client of the API, with a pool of connections of its own, which is closed with the scope.

    The environment is read when it is opened. Arguments as of the layers: `OPENAI_BASE_URL`, `OPENAI_ORG_ID` and
    `OPENAI_PROJECT_ID` stand for what is not given.

    Fails with:
        AiError: `AuthenticationError("MissingKey")`: there is no key, and it is OpenAI's own API; and as `open_client`.
    """

    @fx.gen
    def opened() -> Gen[Client, AiError, Scope]:
        url = address(base_url)
        key = yield from _key(api_key, needed=url.startswith(BASE_URL))
        return (
            yield from open_client(
                base_url=url,
                headers={**_account(key, organization, project), **(headers or {})},
                timeout=timeout,
                proxy=proxy,
                retry=retry,
                module=MODULE,
                transport=transport,
            )
        )

    return opened()


def _key(given: Key, *, needed: bool) -> Effect[Secret | None, AiError]:
    if isinstance(given, str):
        return fx.succeed(Secret(given) if given else None)
    if isinstance(given, Secret):
        return fx.succeed(given)
    if given is not None:
        return given
    found = Secret.from_env("OPENAI_API_KEY", module=MODULE)
    return found if needed else found.catch_all(lambda _: fx.succeed(None))


def _account(key: Secret | None, organization: str | None, project: str | None) -> dict[str, str | Secret]:
    bearer = None if key is None else Secret(f"Bearer {key.reveal()}")
    said = {
        "authorization": bearer,
        "openai-organization": organization or os.environ.get("OPENAI_ORG_ID"),
        "openai-project": project or os.environ.get("OPENAI_PROJECT_ID"),
    }
    return {name: value for name, value in said.items() if value}
