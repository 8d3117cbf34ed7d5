"""Models of Anthropic as a service. Use `layer` to send requests to the Messages API over HTTP.

>>> type(layer("claude-sonnet-5", api_key="sk-1")).__name__
'LayerOf'
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any, Final, Literal, final

import msgspec
from typing_extensions import Unpack, override

from fxai.effects import fx
from fxai.effects.effect import Effect, Gen
from fxai.effects.layer import Layer
from fxai.effects.scope import Scope
from fxai.effects.stream import Stream, StreamOf
from fxai.messages.errors import AiError
from fxai.messages.part import Part, StreamPart
from fxai.messages.reason import ModelUnavailableError, Reason
from fxai.messages.think_tag import ThinkTags, split_thoughts
from fxai.models.file_store import FileIndex, FileStore
from fxai.models.language_model import LanguageModel
from fxai.models.model_facts import ModelFacts
from fxai.models.model_info import ModelInfo
from fxai.models.model_request import ModelRequest
from fxai.models.prepared_tools import PreparationError
from fxai.models.request_cache import RequestCache
from fxai.models.token_count import TokenCount
from fxai.providers.anthropic.known_models import TABLE, facts_from
from fxai.providers.anthropic.known_models import facts as facts_by_name
from fxai.providers.anthropic.options import NAME
from fxai.providers.anthropic.reply import MessagesReader, read_message
from fxai.providers.anthropic.request import VERSION, Cache, PreparedRequest, prepare_request
from fxai.providers.http.client import Client, ConnectionOptions, Key, PoolOptions, check_options, key_of, open_client
from fxai.providers.http.endpoint import FileApi, HttpFileStore, TokenCounter
from fxai.providers.http.event import FIRST_FIELD
from fxai.providers.http.reply import attempt_reply, read_event_body, stream_reply
from fxai.providers.http.transport import Secret
from fxai.tools.identity import NameConflictError

BASE_URL: Final = "https://api.anthropic.com"
"""The address of Anthropic's API."""
_HOST: Final = BASE_URL.rpartition("/")[2]
KEY: Final = "ANTHROPIC_API_KEY"
"""The environment variable with the key."""

_PATH: Final = "/v1/messages"


@final
class Config(msgspec.Struct, frozen=True):
    """The settings of a model."""

    model: str
    """The name of the model."""
    strict_json_schema: bool | None = None
    """True if tools that lack the annotation `Strict` are strict. By default, they are strict if the model supports
    it."""
    facts: ModelFacts | None = None
    """The limits and abilities of the model. By default the facts that fxai has for this name."""
    max_tokens: int | None = None
    """The maximum number of tokens of an answer if the request sets no limit. By default the model's limit."""


@final
class AnthropicModel(LanguageModel):
    """A model of Anthropic over HTTP. Create it with `layer`."""

    def __init__(self, client: Client, config: Config) -> None:
        self._client = client
        given = config.facts
        self._config = config if given is None else msgspec.structs.replace(config, facts=TABLE.complete(given))
        self._cache: Cache = RequestCache()
        self._counter = TokenCounter(client, NAME, "the server counts no tokens")
        self.name: str = config.model
        """The name of the model."""

    @property
    @override
    def info(self) -> ModelInfo:
        """The name of the model and its server."""
        return ModelInfo("anthropic", self.name, *self._client.server)

    @property
    @override
    def facts(self) -> ModelFacts:
        """The limits and abilities of the model."""
        given = self._config.facts
        return facts_by_name(self.name) if given is None else given

    def ask(self, request: ModelRequest) -> Effect[tuple[Part, ...], AiError]:
        """Return the model's turn as a whole. fxai streams a potentially long turn, so that the network cannot cut it.

        Fails with:
            AiError: If fxai cannot encode the request, if the provider rejects it or fails, or if the reply is invalid.
        """

        def post(sent: PreparedRequest) -> Effect[tuple[Part, ...], AiError]:
            answered = self._client.post(_PATH, sent.encoded, headers=sent.headers, method="ask")
            error = partial(self._error, "ask")
            return answered.flat_map(lambda answer: attempt_reply(lambda: read_whole(answer.body, sent), error))

        return self._prepare(request, "ask", stream=None).flat_map(post)

    def ask_stream(self, request: ModelRequest) -> Stream[StreamPart, AiError]:
        """Stream the parts of the model's turn. If the reader stops early, the connection closes.

        Fails with:
            AiError: If `ask` would fail, or if the connection cuts the stream. The earlier parts remain valid.
        """

        def start(sent: PreparedRequest) -> Stream[StreamPart, AiError]:
            reader, tags = MessagesReader(sent), None if sent.unsigned is None else ThinkTags(NAME)
            events = self._client.events(_PATH, sent.encoded, headers=sent.headers, method="ask_stream")
            return stream_reply(events, reader, partial(self._error, "ask_stream"), tags=tags, rest=reader.rest)

        return StreamOf.unwrap(self._prepare(request, "ask_stream", stream=True).map(start))

    @override
    def count(self, request: ModelRequest) -> Effect[TokenCount, AiError]:
        """Count the tokens of the request with Anthropic's endpoint. The count is close to the number in the bill.

        The count excludes tokens that edits of the context remove. If another server lacks the endpoint, the result
        is an estimate with a warning. fxai then sends no further count to this server.

        Fails with:
            AiError: If `ask` would fail.
        """

        def count(sent: PreparedRequest) -> Effect[TokenCount, AiError]:
            body = fx.sync(sent.count_body)
            return self._counter.count(request, f"{_PATH}/count_tokens", body, sent.warnings, sent.headers)

        return self._prepare(request, "count", stream=False).flat_map(count)

    def prepare(self, request: ModelRequest, *, stream: bool | None = False, eager: bool = False) -> PreparedRequest:
        """Prepare a request without sending it. `prepare_request` documents the arguments and errors."""
        config: dict[str, Any] = msgspec.structs.asdict(self._config)
        official = self._client.server[0] == _HOST
        return prepare_request(request, stream=stream, eager=eager, cache=self._cache, official=official, **config)

    def _error(self, method: str, reason: Reason) -> AiError:
        return self._client.redact(AiError(NAME, method, reason))

    def _prepare(self, request: ModelRequest, method: str, *, stream: bool | None) -> Effect[PreparedRequest, AiError]:
        def prepare() -> PreparedRequest:
            try:
                return self.prepare(request, stream=stream, eager=method == "ask_stream")
            except NameConflictError as error:
                raise PreparationError.of("tools", str(error)) from None

        return attempt_reply(prepare, partial(AiError, NAME, method))


def read_whole(body: bytes, sent: PreparedRequest) -> tuple[Part, ...]:
    """Return the parts of a whole answer. The answer to a request for a long answer is a stream of events.

    Some servers send a stream to every request.

    Raises:
        ReplyError: If the body is not an answer, or if it is an error.
    """
    if not FIRST_FIELD.match(body):
        return read_message(body, sent)
    parts = read_event_body(body, MessagesReader(sent))
    return parts if sent.unsigned is None else split_thoughts(parts, NAME)


def open_account(
    *,
    api_key: Key = None,
    base_url: str | None = None,
    headers: Mapping[str, str | Secret] | None = None,
    **pool: Unpack[PoolOptions],
) -> Effect[Client, AiError, Scope]:
    """Open a client of the API with its own pool of connections. The scope closes it.

    The arguments are `ConnectionOptions`.

    Fails with:
        AiError: `AuthenticationError("MissingKey")` if no key is available. `open_client` can fail too.
    """
    check_options(pool, ConnectionOptions)

    def opening(key: Secret) -> Effect[Client, AiError, Scope]:
        more = {name.lower(): value for name, value in (headers or {}).items()}
        named = {"x-api-key": key, "anthropic-version": VERSION, **more}
        return open_client(base_url=base_url or BASE_URL, headers=named, module=NAME, **pool)

    return key_of(api_key, KEY, module=NAME).flat_map(opening)


def layer(
    model: str | None = None,
    *,
    strict_json_schema: bool | None = None,
    facts: ModelFacts | Literal["provider"] | None = None,
    max_tokens: int | None = None,
    **connection: Unpack[ConnectionOptions],
) -> Layer[LanguageModel, AiError]:
    """Return the layer of a model of Anthropic or of a server with the same API. It requires the extra `anthropic`.

    fxai imports, reads, and sends nothing before it builds the layer. The scope closes the layer's pool of connections.

    Args:
        model: The name of the model, such as `"claude-sonnet-5"`.
        strict_json_schema: True if tools that lack the annotation `Strict` are strict. By default, they are strict if
            the model supports it. With True, an answer whose schema has no strict form fails before the request.
        facts: The limits and abilities of the model. With `"provider"`, fxai reads them from Anthropic's model endpoint
            when it builds the layer, like `read_facts`. By default the facts that fxai has for this name.
        max_tokens: The maximum number of tokens of an answer if the request sets no limit. By default the model's
            limit.
        connection: The key (by default `ANTHROPIC_API_KEY`), the address, the timeouts, and other settings. See
            `ConnectionOptions`.

    Fails with:
        AiError: `ModelUnavailableError` if `model` is missing or a package is not installed. `AuthenticationError` if
            no key is available. `NetworkError` if `base_url` or `proxy` is invalid.
    """
    account = open_account(**connection)
    nameless = ModelUnavailableError(NAME, "unknown-model", "Name a model, such as 'anthropic:claude-sonnet-5'.")
    failure = fx.fail(AiError(NAME, "layer", nameless))

    @fx.gen
    def opening(name: str) -> Gen[LanguageModel, AiError, Scope]:
        client = yield from account
        known = (yield from facts_from(client, name)) if facts == "provider" else facts
        return AnthropicModel(client, Config(name, strict_json_schema, known, max_tokens))

    return Layer.scoped(LanguageModel, opening(model) if model else failure)


def read_facts(model: str, **connection: Unpack[ConnectionOptions]) -> Effect[ModelFacts, AiError]:
    """Read the facts of a model from Anthropic's model endpoint, with one GET. They replace the facts of fxai's table.

    The endpoint states the limits, the lifecycle, the kinds of input, structured outputs, thinking types, and efforts.
    Pass the result to `layer(…, facts=…)`.

    Args:
        model: The name of the model.
        connection: The key, the address, and the timeouts. See `ConnectionOptions`.

    Fails with:
        AiError: The failures of `layer`. `ModelUnavailableError` if Anthropic does not serve the model.
            `InvalidOutputError` if the answer does not describe a model.
    """
    return fx.scoped(open_account(**connection).flat_map(lambda client: facts_from(client, model)))


_FILES: Final = FileApi(
    module=NAME,
    path="/v1/files",
    form=lambda seconds: {} if seconds is None else {"expires_in_seconds": str(round(seconds))},
)


def files_layer(
    *, index: FileIndex | None = None, **connection: Unpack[ConnectionOptions]
) -> Layer[FileStore, AiError]:
    """Return the layer of a workspace's files at Anthropic. It requires the extra `anthropic`.

    Anthropic returns the bytes of files that a tool created, but not of uploaded files.

    Args:
        index: The files that were sent, for `FileStore.upload(…, once=True)`. By default the files of this layer.
        connection: The key, the address, the timeouts, and other settings. See `ConnectionOptions`.

    Fails with:
        AiError: The failures of `layer`.
    """
    return Layer.scoped(FileStore, open_account(**connection).map(lambda client: HttpFileStore(client, _FILES, index)))
