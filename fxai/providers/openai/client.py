"""The HTTP client of OpenAI's API, with the key and the address from the arguments or the environment.

>>> from fxai.effects import fx
>>> client = open_account(api_key="sk-1", base_url="https://api.example.com/v1")
>>> type(fx.run(fx.scoped(client))).__name__
'Client'
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from fxai.effects import fx
from fxai.effects.effect import Effect, Gen
from fxai.effects.schedule import Schedule
from fxai.effects.scope import Scope
from fxai.messages.errors import AiError
from fxai.providers.http.client import RETRY, Client, ConnectionOptions, Key, key_of, open_client
from fxai.providers.http.transport import TIMEOUT, Secret, Timeout

if TYPE_CHECKING:
    import httpx2

BASE_URL: Final = "https://api.openai.com/v1"
"""Where OpenAI's own API is."""
MODULE: Final = "openai"
"""What errors name as their origin."""


class AccountOptions(ConnectionOptions, total=False):
    """How OpenAI's API, or a compatible server, is reached: keyword arguments of both layers, all of them optional.

    For what is left out, the environment is read when the layer is built: `OPENAI_API_KEY`, which another server than
    OpenAI's need not have, and `OPENAI_BASE_URL`.
    """

    organization: str | None
    """The organization that is charged; None: `OPENAI_ORG_ID`."""
    project: str | None
    """The project that is charged; None: `OPENAI_PROJECT_ID`."""


def address(base_url: str | None = None) -> str:
    """Where the API is: `base_url`, else `OPENAI_BASE_URL`, else OpenAI's own."""
    return base_url or os.environ.get("OPENAI_BASE_URL") or BASE_URL


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

    The arguments are `AccountOptions`; an empty key means none.

    Fails with:
        AiError: `AuthenticationError("MissingKey")`: there is no key, and it is OpenAI's own API; and as `open_client`.
    """

    @fx.gen
    def opening() -> Gen[Client, AiError, Scope]:
        url = address(base_url)
        secret = yield from _secret(api_key, needed=url.startswith(BASE_URL))
        account = {
            "authorization": None if secret is None else Secret(f"Bearer {secret.reveal()}"),
            "openai-organization": organization or os.environ.get("OPENAI_ORG_ID"),
            "openai-project": project or os.environ.get("OPENAI_PROJECT_ID"),
        }
        given = {name: value for name, value in account.items() if value}
        return (
            yield from open_client(
                base_url=url,
                headers={**given, **(headers or {})},
                timeout=timeout,
                proxy=proxy,
                retry=retry,
                module=MODULE,
                transport=transport,
            )
        )

    return opening()


def _secret(api_key: Key, *, needed: bool) -> Effect[Secret | None, AiError]:
    if api_key == "":
        return fx.succeed(None)
    key = key_of(api_key, "OPENAI_API_KEY", module=MODULE)
    return key if needed or api_key is not None else key.catch_all(lambda _: fx.succeed(None))
