"""Anthropic's models as a service: a layer that asks them over HTTP, by the Messages API.

>>> type(layer("claude-sonnet-5", api_key="sk-1")).__name__
'LayerOf'
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final, Literal, final

import msgspec
from returns.result import Failure, Result
from typing_extensions import Unpack, override

from fxai.effects import fx
from fxai.effects.effect import Effect, Gen
from fxai.effects.layer import Layer
from fxai.effects.pull import END
from fxai.effects.schedule import Schedule
from fxai.effects.scope import Scope
from fxai.effects.stream import Emit, Stream, StreamOf
from fxai.messages.errors import AiError
from fxai.messages.part import Part, StreamPart
from fxai.messages.reason import InvalidRequestError, ModelUnavailableError
from fxai.messages.response import Response
from fxai.messages.think_tag import ThinkTags, split_thoughts
from fxai.models.language_model import LanguageModel
from fxai.models.model_facts import ModelFacts
from fxai.models.model_info import ModelInfo
from fxai.models.model_request import ModelRequest
from fxai.models.prepared_tools import PreparationError
from fxai.models.request_cache import RequestCache
from fxai.models.token_count import TokenCount
from fxai.providers.anthropic.known_models import TABLE
from fxai.providers.anthropic.known_models import facts as facts_by_name
from fxai.providers.anthropic.messages_stream import Reader
from fxai.providers.anthropic.model_endpoint import facts_from
from fxai.providers.anthropic.options import NAME
from fxai.providers.anthropic.reply import parse_reply
from fxai.providers.anthropic.request import VERSION, Cache, PreparedRequest, prepare_request
from fxai.providers.http.client import RETRY, Client, ConnectionOptions, Key, key_of, open_client
from fxai.providers.http.event import FIRST_FIELD, read_events
from fxai.providers.http.token_counter import TokenCounter
from fxai.providers.http.transport import TIMEOUT, Secret, Timeout
from fxai.tools.identity import NameConflictError

if TYPE_CHECKING:
    import httpx2

BASE_URL: Final = "https://api.anthropic.com"
"""Where Anthropic's API is."""
_HOST: Final = BASE_URL.rpartition("/")[2]
KEY: Final = "ANTHROPIC_API_KEY"
"""The environment variable that holds the key."""

_PATH: Final = "/v1/messages"
# A reply that takes more than ten minutes is cut on the way; the official SDKs ask for a stream beyond this as well.
_MOST_AT_ONCE: Final = 21_333


@final
class Config(msgspec.Struct, frozen=True):
    """How a model is asked.

    Attributes:
        model: Its name.
        strict_json_schema: Whether tools that say nothing of `Strict` are strict. None: they are, if the model can.
        facts: The limits and abilities of the model. Default: the facts that fxai knows by its name.
        max_tokens: The most tokens of an answer where a request says nothing; None: the most that the model can.
    """

    model: str
    strict_json_schema: bool | None = None
    facts: ModelFacts | None = None
    max_tokens: int | None = None


@final
class AnthropicModel(LanguageModel):
    """A model of Anthropic's, asked over HTTP; `layer` makes one."""

    def __init__(self, client: Client, config: Config) -> None:
        self._client = client
        given = config.facts
        self._config = config if given is None else msgspec.structs.replace(config, facts=TABLE.complete(given))
        self._cache: Cache = RequestCache()
        self._counter = TokenCounter(client, NAME, "the server counts no tokens")
        self.name: str = config.model
        """The model's name."""

    @property
    @override
    def info(self) -> ModelInfo:
        """Its name, and the server that it is asked of."""
        return ModelInfo("anthropic", self.name, *self._client.server)

    @property
    @override
    def facts(self) -> ModelFacts:
        """The limits and abilities of the model."""
        given = self._config.facts
        return facts_by_name(self.name) if given is None else given

    def ask(self, request: ModelRequest) -> Effect[tuple[Part, ...], AiError]:
        """The model's turn, whole. One that may be long is asked for as a stream, so that nothing cuts it on the way.

        Fails with:
            AiError: The request cannot be sent as it is; the provider refuses it or fails; the reply is none.
        """
        return fx.suspend(lambda: self._whole(request))

    def ask_stream(self, request: ModelRequest) -> Stream[StreamPart, AiError]:
        """The same turn, part by part; a reader that stops early closes the connection.

        Fails with:
            AiError: As `ask`; also when the stream is cut: the parts that came before it stand.
        """
        return StreamOf.suspend(lambda: self._stream(request, "ask_stream"))

    @override
    def count(self, request: ModelRequest) -> Effect[TokenCount, AiError]:
        """The tokens that the request takes, as Anthropic counts them: near the number that it will charge.

        With edits of the context, what is left after them. A server of others that counts none gives an estimate with
        a warning; it is not asked for another count then.

        Fails with:
            AiError: As `ask`.
        """
        return fx.suspend(lambda: self._count(request))

    def _count(self, request: ModelRequest) -> Effect[TokenCount, AiError]:
        sent = self._attempt(request, "count", stream=False)
        if isinstance(sent, AiError):
            return fx.fail(sent)
        body = fx.sync(sent.count_body)
        return self._counter.count(request, f"{_PATH}/count_tokens", body, sent.warnings, sent.headers)

    def prepare(self, request: ModelRequest, *, stream: bool = False, eager: bool = False) -> PreparedRequest:
        """The request as it is sent; arguments and errors as `prepare_request`."""
        config: dict[str, Any] = msgspec.structs.asdict(self._config)
        official = self._client.server[0] == _HOST
        return prepare_request(request, stream=stream, eager=eager, cache=self._cache, official=official, **config)

    def _whole(self, request: ModelRequest) -> Effect[tuple[Part, ...], AiError]:
        sent = self._attempt(request, "ask", stream=False)
        if isinstance(sent, AiError):
            return fx.fail(sent)
        if sent.max_tokens > _MOST_AT_ONCE:
            parts = self._stream(request, "ask").collect()
            return parts.map(lambda stream: Response.from_stream(stream).content)
        answered = self._client.post(_PATH, sent.encoded, headers=sent.headers, method="ask")
        read = answered.flat_map(lambda answer: fx.lift(_read_whole(answer.body, sent)))
        return read.map_error(self._client.redact)

    def _stream(self, request: ModelRequest, method: str) -> Stream[StreamPart, AiError]:
        sent = self._attempt(request, method, stream=True)
        if isinstance(sent, AiError):
            return StreamOf.fail(sent)
        return StreamOf.steps(lambda emit: fx.scoped(self._read(sent, method, emit)))

    @fx.gen
    def _read(self, sent: PreparedRequest, method: str, emit: Emit[StreamPart]) -> Gen[None, AiError, Scope]:
        """Reads the events of a stream to their end, and emits their parts.

        Where it breaks off, whatever came and was held back is emitted before the failure.
        """
        reader, tags = Reader(sent, method=method), ThinkTags(NAME)
        pull = yield from self._client.events(_PATH, sent.encoded, headers=sent.headers, method=method).pull()
        events: Effect[Any] = pull.catch_all(fx.succeed)
        failed: AiError | None = None
        while failed is None:
            event = yield from events
            is_over = event is END or isinstance(event, AiError)
            if is_over and reader.done:
                return
            if isinstance(event, AiError):
                failed = event
            elif is_over or not reader.done:
                read = reader.end() if is_over else reader.read(event.data, event.name)
                for part in read.value_or(()):
                    for one in (part,) if sent.unsigned is None else tags.read(part):
                        yield from emit(one)
                failed = read.swap().value_or(None)
        for part in reader.rest():
            for one in (part,) if sent.unsigned is None else tags.read(part):
                yield from emit(one)
        yield from fx.fail(self._client.redact(failed))

    def _attempt(self, request: ModelRequest, method: str, *, stream: bool) -> PreparedRequest | AiError:
        try:
            return self.prepare(request, stream=stream, eager=method == "ask_stream")
        except PreparationError as error:
            return AiError(NAME, method, error.reason)
        except NameConflictError as error:
            return AiError(NAME, method, InvalidRequestError(parameter="tools", description=str(error)))


def _read_whole(body: bytes, sent: PreparedRequest) -> Result[tuple[Part, ...], AiError]:
    """Return the parts of a whole answer. Some servers send a stream of events in any case."""
    if not FIRST_FIELD.match(body):
        return parse_reply(body, sent)
    reader, parts = Reader(sent, method="ask"), list[StreamPart]()
    events, _ = read_events([body])  # an event that was cut is the failure of `end`
    for event in events:
        if not (event.is_empty or reader.done):
            read = reader.read(event.data, event.name)
            if isinstance(read, Failure):
                return Failure(read.failure())
            parts += read.unwrap()
    ended = reader.end()
    whole = ended.map(lambda last: Response.from_stream([*parts, *last]).content)
    return whole if sent.unsigned is None else whole.map(lambda found: split_thoughts(found, NAME))


def open_account(
    *,
    api_key: Key = None,
    base_url: str | None = None,
    headers: Mapping[str, str | Secret] | None = None,
    timeout: Timeout | float | None = TIMEOUT,
    proxy: str | None = None,
    retry: Schedule[AiError, Any] | None = RETRY,
    transport: httpx2.AsyncBaseTransport | None = None,
) -> Effect[Client, AiError, Scope]:
    """A client of the API, with a pool of connections of its own, which is closed with the scope.

    The arguments are `ConnectionOptions`.

    Fails with:
        AiError: `AuthenticationError("MissingKey")`: there is no key; and as `open_client`.
    """

    def opening(key: Secret) -> Effect[Client, AiError, Scope]:
        more = {name.lower(): value for name, value in (headers or {}).items()}
        return open_client(
            base_url=base_url or BASE_URL,
            headers={"x-api-key": key, "anthropic-version": VERSION, **more},
            timeout=timeout,
            proxy=proxy,
            retry=retry,
            module=NAME,
            transport=transport,
        )

    return key_of(api_key, KEY, module=NAME).flat_map(opening)


def layer(
    model: str | None = None,
    *,
    strict_json_schema: bool | None = None,
    facts: ModelFacts | Literal["provider"] | None = None,
    max_tokens: int | None = None,
    **connection: Unpack[ConnectionOptions],
) -> Layer[LanguageModel, AiError]:
    """The layer of a model of Anthropic's, or of one that a server offers by the same API. Needs the extra `anthropic`.

    Nothing is imported, read or sent before it is built. It has one pool of connections, closed with its scope.

    Args:
        model: The model's name, `"claude-sonnet-5"`.
        strict_json_schema: Whether tools that say nothing of `Strict` are strict. None: they are, if the model can.
            With True, an answer whose schema has no strict form is a failure before the request.
        facts: The limits and abilities of the model. With `"provider"`, fxai reads them from Anthropic's model endpoint
            when it builds the layer, as `read_facts`. Default: the facts that fxai knows by its name.
        max_tokens: The most tokens of an answer where a request says nothing; None: the most that the model can.
        connection: The key, by default what `ANTHROPIC_API_KEY` holds, the address, the timeouts and the like; see
            `ConnectionOptions`.

    Fails with:
        AiError: `ModelUnavailableError`: no model is named, or a package is not installed; `AuthenticationError`:
            there is no key; `NetworkError`: base_url or proxy is none.
    """
    account = open_account(**connection)
    nameless = ModelUnavailableError(NAME, "unknown-model", "name one, such as 'anthropic:claude-sonnet-5'")
    failure = fx.fail(AiError(NAME, "layer", nameless))

    @fx.gen
    def opening(name: str) -> Gen[LanguageModel, AiError, Scope]:
        client = yield from account
        known = (yield from facts_from(client, name)) if facts == "provider" else facts
        return AnthropicModel(client, Config(name, strict_json_schema, known, max_tokens))

    return Layer.scoped(LanguageModel, opening(model) if model else failure)


def read_facts(model: str, **connection: Unpack[ConnectionOptions]) -> Effect[ModelFacts, AiError]:
    """Read the facts of a model from Anthropic's model endpoint, with one GET. They win over the facts of fxai's table.

    The endpoint states the limits, the lifecycle, the kinds of input, structured outputs, thinking types and efforts.
    Pass the result to `layer(…, facts=…)`.

    Args:
        model: The name of the model.
        connection: The key, the address and the timeouts; see `ConnectionOptions`.

    Fails with:
        AiError: As `layer`; `ModelUnavailableError`: Anthropic does not serve the model; `InvalidOutputError`: the
            answer does not describe a model.
    """
    return fx.scoped(open_account(**connection).flat_map(lambda client: facts_from(client, model)))
