"""An account at OpenAI or at a compatible server: its address, its key, and its files.

Use `files_layer` to upload and list the files of an account with the service `FileStore`.

>>> files_layer(api_key="sk-…").__class__.__name__
'LayerOf'
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Final, Literal, TypeAlias
from urllib.parse import quote

from typing_extensions import Unpack

from fxai.effects import fx
from fxai.effects.effect import Effect, Gen
from fxai.effects.layer import Layer
from fxai.effects.scope import Scope
from fxai.messages.errors import AiError
from fxai.messages.reason import ModelUnavailableError
from fxai.models.file_store import FileIndex, FileStore
from fxai.providers.http.client import Client, ConnectionOptions, Key, PoolOptions, check_options, key_of, open_client
from fxai.providers.http.endpoint import FileApi, HttpFileStore
from fxai.providers.http.transport import Secret
from fxai.providers.openai.server import COMPATIBLE, OPENAI_CHAT, Server

BASE_URL: Final = OPENAI_CHAT.base_url
"""The address of OpenAI's API."""
MODULE: Final = OPENAI_CHAT.name
"""The name of the origin in errors."""


class AccountOptions(ConnectionOptions, total=False):
    """Connection settings for OpenAI's API or for a compatible server. Both layers accept them as keyword arguments.

    If you omit a setting, fxai reads `OPENAI_API_KEY` and `OPENAI_BASE_URL` from the environment when it builds the
    layer. Another server than OpenAI's does not require a key.
    """

    organization: str | None
    """The organization that pays. By default `OPENAI_ORG_ID`."""
    project: str | None
    """The project that pays. By default `OPENAI_PROJECT_ID`."""


def address(base_url: str | None = None) -> str:
    """Return the address of the API: `base_url`, `OPENAI_BASE_URL`, or OpenAI's address by default."""
    return base_url or os.environ.get("OPENAI_BASE_URL") or BASE_URL


def open_account(
    *,
    server: Server | None = None,
    model: str = "",
    api_key: Key = None,
    base_url: str | None = None,
    organization: str | None = None,
    project: str | None = None,
    headers: Mapping[str, str | Secret] | None = None,
    **pool: Unpack[PoolOptions],
) -> Effect[Client, AiError, Scope]:
    """Open a client of the API with its own pool of connections. The scope closes it.

    The arguments are `AccountOptions`. An empty key means no key. If `server` is set, its address and the variable of
    its key apply. `model` is the deployment, which is part of some servers' addresses.

    Fails with:
        AiError: `AuthenticationError("MissingKey")` if a required key is missing. `ModelUnavailableError` if the
            address of the server is unknown. `open_client` can fail too.
    """
    check_options(pool, AccountOptions)

    @fx.gen
    def opening() -> Gen[Client, AiError, Scope]:
        url = yield from _address(server, base_url, model)
        known = server or (OPENAI_CHAT if url.startswith(BASE_URL) else COMPATIBLE)
        secret = yield from _secret(api_key, known)
        bearer, ours = known.key_header == "authorization", known.name == MODULE
        account = {
            known.key_header: None if secret is None else Secret(f"Bearer {secret.reveal()}") if bearer else secret,
            "openai-organization": organization or (os.environ.get("OPENAI_ORG_ID") if ours else None),
            "openai-project": project or (os.environ.get("OPENAI_PROJECT_ID") if ours else None),
        }
        given = {name: value for name, value in account.items() if value}
        named = {**given, **(headers or {})}
        return (yield from open_client(base_url=url, headers=named, module=known.name, **pool))

    return opening()


def _secret(api_key: Key, server: Server) -> Effect[Secret | None, AiError]:
    """Return the key of an account, or None if it needs no key and has none."""
    if api_key == "" or (api_key is None and not server.key and server is not COMPATIBLE):
        return fx.succeed(None)
    key = key_of(api_key, server.key_variable() or "OPENAI_API_KEY", module=server.name)
    return key if server.needs_key or api_key is not None else key.catch_all(lambda _: fx.succeed(None))


def _address(server: Server | None, base_url: str | None, model: str) -> Effect[str, AiError]:
    """Return the address of the API. It is the address of a deployment if the server and the API version require it."""
    if server is None or base_url:
        return fx.succeed(base_url or address())
    url, problem = "", "the server has no base_url. Pass one."
    try:
        url = server.address()
    except LookupError as missing:
        problem = f"address of {server.name} is unknown. Set {missing.args[0]} or pass base_url."
    if not url:
        reason = ModelUnavailableError(model or "(unnamed)", "unknown-model", problem)
        return fx.fail(AiError(server.name, "layer", reason))
    if server.deployments:
        url = url.replace("/openai/v1/openai/v1", "/openai/v1")  # an endpoint can already contain its version
        version = os.environ.get("OPENAI_API_VERSION", "").strip()
        if version and not version.startswith(("v1", "preview")):
            root = url.removesuffix("/openai/v1")
            return fx.succeed(f"{root}/openai/deployments/{quote(model, safe='')}?api-version={quote(version)}")
    return fx.succeed(url)


Purpose: TypeAlias = Literal["assistants", "batch", "fine-tune", "vision", "user_data", "evals"]
"""The purpose of a file. `user_data` permits any use, including prompts."""


def files_layer(
    *, purpose: Purpose = "user_data", index: FileIndex | None = None, **connection: Unpack[AccountOptions]
) -> Layer[FileStore, AiError]:
    """Return the layer of an account's files at OpenAI or at a server with the same API.

    The layer requires the extra `openai`. Lists start with the newest file. OpenAI returns the bytes of files that a
    model created, but not the bytes of `user_data`.

    Args:
        purpose: The purpose of uploaded files. `user_data` permits prompts.
        index: The files that were sent, for `FileStore.upload(…, once=True)`. By default the files of this layer.
        connection: The key, the address, the timeouts, and other settings. See `AccountOptions`.

    Fails with:
        AiError: The failures of `layer`.
    """

    def form(expires_in: float | None) -> dict[str, str]:
        ends = {} if expires_in is None else {"anchor": "created_at", "seconds": str(round(expires_in))}
        return {"purpose": purpose, **{f"expires_after[{name}]": value for name, value in ends.items()}}

    api = FileApi(module=MODULE, path="/files", form=form, query={"order": "desc"}, cursor="after")
    return Layer.scoped(FileStore, open_account(**connection).map(lambda client: HttpFileStore(client, api, index)))
