"""OpenAI's models as a service. Use `layer` or `embedding_layer` with OpenAI or with a compatible server.

>>> layer("gpt-5.5", api_key="sk-…").__class__.__name__
'LayerOf'
>>> read_embeddings(b'{"data": [{"index": 1, "embedding": [0, 1]}, {"index": 0, "embedding": [1, 0]}]}').vectors
((1.0, 0.0), (0.0, 1.0))
"""

from __future__ import annotations

import struct
from base64 import b64decode
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from threading import Lock
from typing import Any, Final, TypeVar, final

import msgspec
from typing_extensions import Unpack, override

from fxai.effects import fx
from fxai.effects.effect import Effect
from fxai.effects.layer import Layer
from fxai.effects.scope import Scope
from fxai.effects.stream import Stream, StreamOf
from fxai.messages.errors import AiError
from fxai.messages.part import AnyPart, Part, StreamPart, Usage
from fxai.messages.reason import InvalidRequestError, ModelUnavailableError, Reason
from fxai.messages.think_tag import ThinkTags, split_thoughts
from fxai.models.embedding_model import EmbeddingModel, Embeddings, Vector
from fxai.models.language_model import LanguageModel
from fxai.models.model_facts import ModelFacts
from fxai.models.model_info import ModelInfo
from fxai.models.model_request import ModelRequest
from fxai.models.request_cache import RequestCache
from fxai.models.token_count import TokenCount
from fxai.providers.http.client import Client, HttpResponse
from fxai.providers.http.endpoint import TokenCounter
from fxai.providers.http.event import FIRST_FIELD
from fxai.providers.http.reply import (
    attempt_reply,
    failure_of,
    form_error,
    parse_object,
    read_event_body,
    stream_reply,
)
from fxai.providers.openai.account import BASE_URL, MODULE, AccountOptions, address, open_account
from fxai.providers.openai.background import Background, BackgroundResponse
from fxai.providers.openai.chat_reply import ChatReader, read_chat
from fxai.providers.openai.known_models import facts_at
from fxai.providers.openai.options import NAME
from fxai.providers.openai.reply import ResponsesReader, read_responses
from fxai.providers.openai.request import Cache, Profile, WireRequest, prepare_request
from fxai.providers.openai.responses_input import SystemRole, digests_of, reply_items
from fxai.providers.openai.server import COMPATIBLE, OPENAI_CHAT, Server, server_at, server_of
from fxai.providers.openai.tool_calls import is_refused_call
from fxai.providers.openai.tool_encoding import Api
from fxai.schema.data import JSON_ERRORS, JsonObject

_PATHS: Final[Mapping[str, str]] = {"responses": "/responses", "chat": "/chat/completions"}


_A = TypeVar("_A")


def read_reply(reply: bytes | str | Mapping[str, Any], sent: WireRequest) -> tuple[Part, ...]:
    """Return the parts of a whole answer: warnings, metadata of the response, the items in order, and the finish.

    Args:
        reply: The body, raw or parsed. It can be a stream of events, because some servers always send a stream.
        sent: The request of the answer.

    Raises:
        ReplyError: If the body is not an answer of the API, or if it is an error.
    """
    if isinstance(reply, bytes) and FIRST_FIELD.match(reply):
        parts = read_event_body(reply, _reader_of(sent))
    else:
        data = parse_object(reply)
        parts = read_chat(data, sent) if sent.api == "chat" else tuple(read_responses(data, sent))
    return split_thoughts(parts, NAME) if sent.think_tags else parts


def _reader_of(sent: WireRequest) -> ChatReader | ResponsesReader:
    return ChatReader(sent) if sent.api == "chat" else ResponsesReader(sent)


@final
class OpenAIModel(LanguageModel):
    """A model of OpenAI or of a compatible server that answers one turn at a time. Create it with `layer`.

    Args:
        client: The client that sends the requests.
        name: The model's name on the server.
        profile: The profile of the model and the server.
        continuation: The stored answers that requests can continue. Models can share them. By default, the model has
            its own if the profile is `incremental`. Otherwise it sends each prompt whole.
    """

    def __init__(self, client: Client, name: str, profile: Profile, continuation: Continuation | None = None) -> None:
        known = Continuation() if continuation is None and profile.incremental else continuation
        self._client = client
        self._profile = msgspec.structs.replace(profile, incremental=known is not None)
        self._continuation = known
        self._cache: Cache = RequestCache()
        self._module = profile.server.name if profile.api == "chat" else MODULE
        why = f"the server that runs {name!r} counts no tokens on this API"
        self._counter = TokenCounter(client, self._module, why)
        self.name = name
        """The name of the model."""

    @property
    @override
    def info(self) -> ModelInfo:
        """The name of the model and its server."""
        return ModelInfo("openai", self.name, *self._client.server)

    @property
    @override
    def facts(self) -> ModelFacts:
        """The facts of the model on its server."""
        return self._profile.facts_of(self.name)

    def ask(self, request: ModelRequest) -> Effect[tuple[Part, ...], AiError]:
        """Return the model's turn as a whole.

        Fails with:
            AiError: If fxai cannot send the tools, the schema, the prompt, or the options of the request. If the
                provider rejects the request or is unreachable. If its answer is invalid.
        """

        def post(sent: WireRequest, whole: WireRequest) -> Effect[tuple[Part, ...], AiError]:
            def read(body: bytes) -> tuple[Part, ...]:
                parts = read_reply(body, sent)
                if self._keeps(whole):
                    self._remember(whole, parts)
                return parts

            answer = self._attempt("ask", lambda: sent.encoded).flat_map(lambda body: self._post(sent, body))
            return answer.flat_map(lambda body: self._attempt("ask", lambda: read(body)))

        def send(whole: WireRequest) -> Effect[tuple[Part, ...], AiError]:
            sent, earlier = self._shorten(whole)
            if earlier is None:
                return post(whole, whole)
            return post(sent, whole).catch_all(lambda error: self._again(error, earlier, lambda: post(whole, whole)))

        return self._prepare(request, "ask").flat_map(send)

    def ask_stream(self, request: ModelRequest) -> Stream[StreamPart, AiError]:
        """Stream the parts of the model's turn. If the reader stops early, the connection closes.

        Fails with:
            AiError: If `ask` would fail. After some parts, also if the stream ends early or contains an error. The
                earlier parts remain valid.
        """

        def send(whole: WireRequest) -> Stream[StreamPart, AiError]:
            if whole.background is not None and whole.background.window in ("2h", "8h"):
                return LanguageModel.ask_stream(self, request)
            sent, earlier = self._shorten(whole)
            begun: list[bool] = []
            parts = self._events(sent, whole, begun)
            if earlier is None:
                return parts

            def again(error: AiError) -> Stream[StreamPart, AiError]:
                if begun:
                    return StreamOf.fail(error)
                anew = self._again(error, earlier, lambda: fx.succeed(self._events(whole, whole, begun)))
                return StreamOf.unwrap(anew)

            return parts.catch_all(again)

        return StreamOf.unwrap(self._prepare(request, "ask_stream").map(send))

    @override
    def count(self, request: ModelRequest) -> Effect[TokenCount, AiError]:
        """Count the tokens of the request on the server. OpenAI counts them on Responses, llama.cpp on both APIs.

        If a server has no counter, the result is an estimate with a warning. fxai then sends no further count to it.

        Fails with:
            AiError: If `ask` would fail.
        """

        def count(sent: WireRequest) -> Effect[TokenCount, AiError]:
            path, body = f"{_PATHS[sent.api]}/input_tokens", self._attempt("count", sent.count_body)
            return self._counter.count(request, path, body, sent.warnings)

        return self._prepare(request, "count").flat_map(count)

    def _prepare(self, request: ModelRequest, method: str) -> Effect[WireRequest, AiError]:
        known: JsonObject = {"profile": self._profile, "cache": self._cache, "stream": method == "ask_stream"}
        return self._attempt(method, lambda: prepare_request(request, model=self.name, **known))

    def _events(self, sent: WireRequest, whole: WireRequest, begun: list[bool]) -> Stream[StreamPart, AiError]:
        """Return the parts of the answer. The first part fills `begun`."""
        reader, keeps, turn = _reader_of(sent), self._keeps(whole), list[StreamPart]()

        def see(parts: Sequence[StreamPart]) -> None:
            if parts:
                begun.append(True)
            if keeps:
                turn.extend(parts)
                if reader.done:
                    self._remember(whole, turn)

        def read(body: bytes) -> Stream[StreamPart, AiError]:
            tags, path, waiting = ThinkTags(NAME) if sent.think_tags else None, _PATHS[sent.api], self._waiting(sent)
            refused = is_refused_call if sent.api == "chat" else None
            if waiting is None:
                events = self._client.events(path, body, method="ask_stream", reads_error=refused)
            else:
                events = waiting.events(path, body, "ask_stream")
            return stream_reply(events, reader, lambda reason: self._error("ask_stream", reason), tags=tags, see=see)

        return StreamOf.unwrap(self._attempt("ask_stream", lambda: sent.encoded).map(read))

    def _post(self, sent: WireRequest, body: bytes) -> Effect[bytes, AiError]:
        """Return the whole answer. OpenAI can create it in the background."""
        waiting = self._waiting(sent)
        if waiting is not None:
            return waiting.whole(_PATHS[sent.api], body, "ask")
        refused, path = is_refused_call if sent.api == "chat" else None, _PATHS[sent.api]
        return self._client.post(path, body, method="ask", reads_error=refused).map(lambda answer: answer.body)

    def _waiting(self, sent: WireRequest) -> BackgroundResponse | None:
        """Return the response that OpenAI creates in the background, or None for an immediate answer."""
        if sent.background is None:
            return None
        included = tuple(map(str, sent.fields.get("include", ())))
        return BackgroundResponse(self._client, sent.background, included, sent.response_id)

    def _attempt(self, method: str, f: Callable[[], _A]) -> Effect[_A, AiError]:
        return attempt_reply(f, partial(self._error, method))

    def _error(self, method: str, reason: Reason) -> AiError:
        return self._client.redact(AiError(self._module, method, reason))

    # -- continuation of answers that the provider stores

    def _shorten(self, whole: WireRequest) -> tuple[WireRequest, str | None]:
        """Return a request with only the new items and the id of the earlier answer, or `whole` and None."""
        fields = whole.fields
        if whole.api != "responses" or "previous_response_id" in fields or "conversation" in fields:
            return whole, None
        if whole.response_id is not None:
            return whole, None
        found = self._continuation and self._continuation.shorten(fields["input"], whole.digests)
        if found is None:
            return whole, None
        earlier, rest = found
        shorter = {**fields, "previous_response_id": earlier, "input": rest}
        return msgspec.structs.replace(whole, fields=shorter), earlier

    def _again(self, error: AiError, earlier: str, whole: Callable[[], Effect[_A, AiError]]) -> Effect[_A, AiError]:
        """Send the whole request if the provider rejected the short request."""
        if self._continuation is None or not isinstance(error.reason, InvalidRequestError):
            return fx.fail(error)
        self._continuation.forget(earlier)
        return whole()

    def _keeps(self, whole: WireRequest) -> bool:
        """Return True if a later request can continue the answer."""
        return self._continuation is not None and whole.api == "responses" and whole.fields.get("store") is not False

    def _remember(self, whole: WireRequest, parts: Sequence[AnyPart]) -> None:
        ids = [part.id for part in parts if part.type == "response-metadata" and part.id is not None]
        if self._continuation is not None and ids:
            items = [*whole.fields["input"], *reply_items(parts, whole.offer)]
            self._continuation.remember(items, ids[-1], whole.digests)


@final
class Continuation:
    """The answers that the provider stores. A request that continues an answer contains only new items.

    Runs can share a continuation. The items before an answer and the items of the answer identify it. A prompt that
    starts with the same items continues the answer. fxai sends any other prompt whole.

    Args:
        most: The maximum number of answers to remember. The oldest answers are dropped first.

    >>> known = Continuation()
    >>> turn = [{"role": "user", "content": "Hello"}, {"role": "assistant", "content": "Good day."}]
    >>> known.remember(turn, "resp_1")
    >>> known.shorten([*turn, {"role": "user", "content": "And now?"}])
    ('resp_1', [{'role': 'user', 'content': 'And now?'}])
    >>> known.shorten(turn[:1]) is None
    True
    """

    __slots__ = ("_known", "_lock", "_most")

    def __init__(self, most: int = 1024) -> None:
        self._known: OrderedDict[bytes, str] = OrderedDict()
        self._most = most
        self._lock = Lock()

    def remember(self, items: Sequence[Mapping[str, Any]], response: str, digests: Sequence[bytes] = ()) -> None:
        """Remember that the answer `response` follows these items, at least one, of the request and of the answer.

        `digests` contains the known digests of the first items from `digests_of`.
        """
        last = digests_of(items, digests)[-1]
        with self._lock:
            self._known[last] = response
            while len(self._known) > self._most:
                self._known.popitem(last=False)

    def shorten(self, items: list[JsonObject], digests: Sequence[bytes] = ()) -> tuple[str, list[JsonObject]] | None:
        """Return the latest known answer that these items continue and the items after it, or None. See `remember`."""
        known = digests_of(items, digests)
        for index in range(len(items) - 1, 0, -1):
            response = self._known.get(known[index - 1])
            if response is not None:
                return response, items[index:]
        return None

    def forget(self, response: str) -> None:
        """Remove the answer from the memory, for example because the provider lost it."""
        with self._lock:
            for digest in [digest for digest, known in self._known.items() if known == response]:
                del self._known[digest]

    def clear(self) -> None:
        """Clear the memory of answers. The model sends the next request whole."""
        with self._lock:
            self._known.clear()


def layer(
    model: str | None = None,
    *,
    api: Api | None = None,
    server: str | Server | None = None,
    known_as: str | None = None,
    facts: ModelFacts | None = None,
    strict_json_schema: bool | None = None,
    supports_strict: bool | None = None,
    supports_schema: bool | None = None,
    system_role: SystemRole | None = None,
    store: bool | None = None,
    incremental: bool = False,
    background: Background | bool = False,
    **connection: Unpack[AccountOptions],
) -> Layer[LanguageModel, AiError]:
    """Return the layer of a language model of OpenAI or of a server with an OpenAI API.

    The layer requires the extra `openai`. fxai reads the environment and opens the connections when it builds the
    layer. The scope closes the connections.

    Args:
        model: The name of the model, such as `"gpt-5.5"`. For a deployment, also `"deployment=gpt-5.5"`.
        api: `"responses"`, or `"chat"` for Chat Completions, which most other servers support. By default Chat
            Completions if `server` is set, otherwise Responses.
        server: The server of Chat Completions, by name or as a value. By default the known server at the address.
        known_as: The model with the same abilities, if the name does not reveal them.
        facts: Facts of the model. They replace the facts of the server and of the table.
        strict_json_schema: True if tools and answers without their own setting are strict. By default, they are strict
            if possible.
        supports_strict: True if the model has strict mode for tools. By default from the server and the name.
        supports_schema: True if the API can enforce a JSON Schema. By default from the server and the name. If False,
            the model calls a tool.
        system_role: The role of system messages. By default instructions, or the role `system` on Chat Completions.
        store: True if the provider stores the answers. By default the provider decides.
        incremental: True to send only the new items of a prompt that continues a stored answer. Only on Responses. If
            the provider rejects the short request, fxai sends the whole prompt.
        background: Settings of answers in the background. Only on Responses. True means `Background()`.
        connection: The key, the address, the timeouts, and other settings. See `AccountOptions`.

    Fails with:
        AiError: `AuthenticationError("MissingKey")`. `NetworkError("InvalidUrlError")`. `ModelUnavailableError` if
            `model` is missing, if the server or its address is unknown, or if the extra is not installed.
    """
    try:
        given = None if server is None else server_of(server)
    except ValueError as error:
        return Layer.effect(LanguageModel, _unavailable(model, str(error)))
    name, behind = model or "", known_as
    if given is not None and given.deployments and "=" in name:  # a deployment and the model with its abilities
        name, _, equal = name.partition("=")
        behind = known_as or equal
    if not name:
        remedy = f'Name a model, such as "{"openai:gpt-5.5" if given is None else f"{given.name}:…"}".'
        return Layer.effect(LanguageModel, _unavailable(model, remedy))
    known: Api = api or ("responses" if given is None else "chat")
    waiting = Background() if background is True else background or None
    settings = (strict_json_schema, supports_strict, supports_schema, system_role, store, incremental, waiting)
    account = open_account(server=given, model=name, **connection)

    def opening() -> Effect[OpenAIModel, AiError, Scope]:
        url = address(connection.get("base_url"))
        is_official = url.startswith(BASE_URL) and given in (None, OPENAI_CHAT)
        at_server = OPENAI_CHAT if is_official else given or (server_at(url) if known == "chat" else COMPATIBLE)
        able = facts_at(at_server, behind or name, known, facts, elsewhere=not is_official)
        profile, client = Profile(known, *settings, at_server, behind, able), account
        if given is None and at_server not in (
            COMPATIBLE,
            OPENAI_CHAT,
        ):  # users also pass OPENAI_API_KEY to these servers
            at = msgspec.structs.replace(at_server, other_keys=(*at_server.other_keys, OPENAI_CHAT.key))
            there: AccountOptions = {**connection, "base_url": url}
            client = open_account(server=at, model=name, **there)
        return client.map(lambda client: OpenAIModel(client, name, profile))

    return Layer.scoped(LanguageModel, fx.suspend(opening))


def _unavailable(model: str | None, why: str) -> Effect[LanguageModel, AiError]:
    return fx.fail(
        AiError(OPENAI_CHAT.name, "layer", ModelUnavailableError(model or "(unnamed)", "unknown-model", why))
    )


# -- embeddings

MOST_TEXTS: Final = 2048
"""The maximum number of strings that OpenAI accepts in one request."""


class _Item(msgspec.Struct):
    embedding: Vector | str
    index: int | None = None


class _Tokens(msgspec.Struct):
    prompt_tokens: int | None = None


class _Reply(msgspec.Struct):
    data: list[_Item] = []
    usage: _Tokens | None = None
    error: Any = None


def prepare_embedding(
    texts: tuple[str, ...], *, model: str, dimensions: int | None = None, user: str | None = None
) -> JsonObject:
    """Return the fields of a request for these strings. This function is pure.

    Args:
        texts: The strings. OpenAI rejects an empty string and a string with more than 8,192 tokens. All strings
            together can have 300,000 tokens.
        model: The name of the model.
        dimensions: The number of dimensions of the vectors. By default the number of the model.
        user: The end user of the request, for OpenAI's monitoring of abuse.
    """
    fields = {"model": model, "input": list(texts), "dimensions": dimensions, "user": user}
    return {name: value for name, value in fields.items() if value is not None}


def read_embeddings(reply: bytes) -> Embeddings:
    """Return the vectors of an answer in the order of the strings. The answer can have another order.

    Raises:
        ReplyError: If the body is not an answer of the API, or if it is an error.
    """
    try:
        answer = msgspec.json.decode(reply, type=_Reply)
    except JSON_ERRORS as error:
        raise form_error(f"the answer is not a list of embeddings: {error}") from None
    if answer.error:
        raise failure_of(answer.error)
    locations = [at if item.index is None else item.index for at, item in enumerate(answer.data)]
    if sorted(locations) != list(range(len(locations))):
        raise form_error(f"indices of the embeddings must be unique numbers from 0, got {locations[:20]}", "/data")

    in_order = sorted(zip(locations, answer.data, strict=True), key=lambda pair: pair[0])
    usage = Usage(input_tokens=answer.usage.prompt_tokens) if answer.usage is not None else Usage()
    vectors: list[Vector] = []
    for at, item in in_order:
        if not isinstance(item.embedding, str):
            vectors.append(item.embedding)
            continue
        try:  # some servers send 32-bit floats in base64
            data = b64decode(item.embedding, validate=True)
            vectors.append(struct.unpack(f"<{len(data) // 4}f", data))
        except (ValueError, struct.error) as error:
            problem = f"the embedding must be numbers or base64 of numbers: {error}"
            raise form_error(problem, f"/data/{at}/embedding") from None
    return Embeddings(tuple(vectors), usage)


@final
class OpenAIEmbeddingModel(EmbeddingModel):
    """An embedding model of OpenAI or of a compatible server. Create it with `embedding_layer`.

    Args:
        client: The client that sends the requests.
        name: The model's name on the server.
        dimensions: The number of dimensions of the vectors.
        user: The end user of the requests.
        most: The maximum number of strings in one request.
    """

    def __init__(
        self,
        client: Client,
        name: str,
        *,
        dimensions: int | None = None,
        user: str | None = None,
        most: int = MOST_TEXTS,
    ) -> None:
        self._client = client
        self._dimensions = dimensions
        self._user = user
        self._most = most
        self.name = name
        """The name of the model."""

    @property
    @override
    def info(self) -> ModelInfo:
        """The name of the model and its server."""
        return ModelInfo("openai", self.name, *self._client.server)

    @property
    @override
    def most(self) -> int:
        return self._most

    @override
    def ask(self, texts: tuple[str, ...]) -> Effect[Embeddings, AiError]:
        """Embed these strings with one request and return their vectors.

        Fails with:
            AiError: If the provider rejects the request or is unreachable, or if its answer is invalid.
        """
        fields = prepare_embedding(texts, model=self.name, dimensions=self._dimensions, user=self._user)

        def read(answer: HttpResponse) -> Effect[Embeddings, AiError]:
            to_error = partial(AiError, MODULE, "embed")
            return attempt_reply(lambda: read_embeddings(answer.body), to_error).map_error(self._client.redact)

        return self._client.post("/embeddings", msgspec.json.encode(fields), method="embed").flat_map(read)


def embedding_layer(
    model: str | None = None,
    *,
    dimensions: int | None = None,
    user: str | None = None,
    most: int = MOST_TEXTS,
    **connection: Unpack[AccountOptions],
) -> Layer[EmbeddingModel, AiError]:
    """Return the layer of an embedding model of OpenAI or of a server with the same API.

    The layer requires the extra `openai`.

    Args:
        model: The name of the model, such as `"text-embedding-3-small"`.
        dimensions: The number of dimensions of the vectors, from `text-embedding-3` on. By default the number of the
            model.
        user: The end user of the requests, for OpenAI's monitoring of abuse.
        most: The maximum number of strings in one request. Decrease it if long strings exceed 300,000 tokens together.
        connection: The key, the address, the timeouts, and other settings. See `AccountOptions`.

    Fails with:
        AiError: `AuthenticationError("MissingKey")`. `NetworkError("InvalidUrlError")`. `ModelUnavailableError` if
            `model` is missing or the extra is not installed.

    Raises:
        ValueError: If `most` is less than 1.
    """
    if most < 1:
        raise ValueError(f"most must be at least 1, got {most}")
    account = open_account(**connection)

    def make(client: Client) -> EmbeddingModel:
        return OpenAIEmbeddingModel(client, model or "", dimensions=dimensions, user=user, most=most)

    nameless = ModelUnavailableError("(unnamed)", "unknown-model", 'Name a model: "openai:text-embedding-3-small".')
    failure = fx.fail(AiError(MODULE, "embedding_layer", nameless))
    return Layer.scoped(EmbeddingModel, account.map(make) if model else failure)
