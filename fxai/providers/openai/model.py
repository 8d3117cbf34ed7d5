"""OpenAI's language models as a service: a layer over one pool of connections, which is closed with its scope.

>>> layer("gpt-5.5", api_key="sk-…").__class__.__name__
'LayerOf'
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping
from hashlib import sha256
from threading import Lock
from typing import Any, Final, final

import msgspec
from typing_extensions import Unpack

from fxai.effects import fx
from fxai.effects.effect import Effect, Gen
from fxai.effects.layer import Layer
from fxai.effects.pull import END
from fxai.effects.scope import Scope
from fxai.effects.stream import Emit, Stream, StreamOf
from fxai.messages.errors import AiError, InvalidRequestError, ModelUnavailableError
from fxai.messages.part import AnyPart, Part, StreamPart
from fxai.models.language_model import LanguageModel
from fxai.models.request import ModelRequest
from fxai.models.request_cache import RequestCache
from fxai.models.tool_encoding import PreparationError
from fxai.providers.http.client import Client
from fxai.providers.openai.chat_stream import ChatReader
from fxai.providers.openai.client import BASE_URL, MODULE, AccountOptions, open_account
from fxai.providers.openai.reply import ReplyError, read_reply
from fxai.providers.openai.request import Cache, Profile, WireRequest, prepare_request
from fxai.providers.openai.responses_input import SystemRole, reply_items
from fxai.providers.openai.responses_stream import ResponsesReader
from fxai.providers.openai.tool_encoding import Api

__all__ = ["BASE_URL", "Continuation", "OpenAIModel", "layer"]

_PATHS: Final[Mapping[str, str]] = {"responses": "/responses", "chat": "/chat/completions"}


@final
class OpenAIModel(LanguageModel):
    """A model of OpenAI's, or of a compatible server, that answers turn by turn; `layer` makes one.

    Args:
        client: What sends its requests.
        name: The model's name there.
        profile: What is known of it.
        continuation: What remembers answers to go on from; None: each prompt is sent whole.
    """

    def __init__(self, client: Client, name: str, profile: Profile, continuation: Continuation | None = None) -> None:
        self._client = client
        self._profile = profile
        self._continuation = continuation
        self._cache: Cache = RequestCache()
        self.name = name
        """The model's name."""

    def ask(self, request: ModelRequest) -> Effect[tuple[Part, ...], AiError]:
        """The model's turn, whole.

        Fails with:
            AiError: The request cannot be sent (its tools, its schema, its prompt, its options), the provider refuses
                it or cannot be reached, or its answer is none.
        """

        def post(sent: WireRequest) -> Effect[tuple[Part, ...], AiError]:
            body = self._tried("ask", sent.body)
            answered = body.flat_map(lambda text: self._client.post(_PATHS[sent.api], text, method="ask"))
            return answered.flat_map(lambda answer: self._tried("ask", lambda: read_reply(answer.body, sent)))

        def asked(whole: WireRequest) -> Effect[tuple[Part, ...], AiError]:
            sent, earlier = self._shortened(whole)
            answered = post(sent)
            if earlier is not None:
                answered = answered.catch_all(lambda error: self._again(error, earlier, lambda: post(whole)))
            return answered.map(lambda parts: self._remembered(whole, parts))

        return self._prepared(request, "ask").flat_map(asked)

    def ask_stream(self, request: ModelRequest) -> Stream[StreamPart, AiError]:
        """The same turn, part by part; a reader that stops early closes the connection.

        Fails with:
            AiError: As `ask`; also behind parts that came, which stand: the stream was cut, or holds an error.
        """

        def opened(whole: WireRequest) -> Stream[StreamPart, AiError]:
            sent, earlier = self._shortened(whole)
            begun: list[bool] = []
            parts = self._events(sent, whole, begun)

            def again(error: AiError) -> Stream[StreamPart, AiError]:
                if begun or earlier is None:
                    return StreamOf.fail(error)
                anew = self._again(error, earlier, lambda: fx.succeed(self._events(whole, whole, begun)))
                return StreamOf.unwrap(anew)

            return parts if earlier is None else parts.catch_all(again)

        return StreamOf.unwrap(self._prepared(request, "ask_stream").map(opened))

    def _prepared(self, request: ModelRequest, method: str) -> Effect[WireRequest, AiError]:
        return self._tried(
            method, lambda: prepare_request(request, model=self.name, profile=self._profile, cache=self._cache)
        )

    def _tried(self, method: str, f: Callable[[], Any]) -> Effect[Any, AiError]:
        def attempt() -> Effect[Any, AiError]:
            try:
                return fx.succeed(f())
            except (PreparationError, ReplyError) as error:
                return fx.fail(AiError(MODULE, method, error.reason))

        return fx.suspend(attempt)

    def _events(self, sent: WireRequest, whole: WireRequest, begun: list[bool]) -> Stream[StreamPart, AiError]:
        return StreamOf.steps(lambda emit: fx.scoped(self._read(sent, whole, begun, emit)))

    @fx.gen
    def _read(
        self, sent: WireRequest, whole: WireRequest, begun: list[bool], emit: Emit[StreamPart]
    ) -> Gen[None, AiError, Scope]:
        """Reads the events of a stream until its last one, and emits their parts; `begun` is filled by the first."""
        body = yield from self._tried("ask_stream", lambda: sent.body(stream=True))
        reader = ChatReader(sent) if sent.api == "chat" else ResponsesReader(sent)
        remember = self._ended(whole)
        said: list[AnyPart] = []
        events = yield from self._client.events(_PATHS[sent.api], body, method="ask_stream").pull()
        is_over = False
        while not is_over:
            event: Any = yield from events
            try:
                parts = reader.end() if event is END else reader.read(event.name, event.data)
            except ReplyError as error:
                yield from fx.fail(AiError(MODULE, "ask_stream", error.reason))
                return
            is_over = reader.done
            if parts:
                begun.append(True)
            if remember is not None:
                said.extend(parts)
                if is_over:
                    remember(tuple(said))
            for part in parts:
                yield from emit(part)

    # -- going on from an answer that the provider keeps

    def _shortened(self, sent: WireRequest) -> tuple[WireRequest, str | None]:
        """The request that only says what is new, and the answer that it goes on from; or the whole one."""
        fields = sent.fields
        if self._continuation is None or "previous_response_id" in fields or "conversation" in fields:
            return sent, None
        found = self._continuation.shortened(fields["input"]) if sent.api == "responses" else None
        if found is None:
            return sent, None
        earlier, rest = found
        shorter = {**fields, "previous_response_id": earlier, "input": rest}
        return msgspec.structs.replace(sent, fields=shorter), earlier

    def _again(self, error: AiError, earlier: str, whole: Callable[[], Effect[Any, AiError]]) -> Effect[Any, AiError]:
        """The whole request, where the provider does not take the short one."""
        if self._continuation is None or not isinstance(error.reason, InvalidRequestError):
            return fx.fail(error)
        self._continuation.forget(earlier)
        return whole()

    def _remembered(self, whole: WireRequest, parts: tuple[Part, ...]) -> tuple[Part, ...]:
        ended = self._ended(whole)
        if ended is not None:
            ended(parts)
        return parts

    def _ended(self, whole: WireRequest) -> Callable[[tuple[AnyPart, ...]], None] | None:
        """The function that remembers an answer for `Continuation`; None where answers are not continued."""
        known = self._continuation
        if known is None or whole.api != "responses" or whole.fields.get("store") is False:
            return None

        def remember(parts: tuple[AnyPart, ...]) -> None:
            ids = [part.id for part in parts if part.type == "response-metadata" and part.id is not None]
            if ids:
                known.remember([*whole.fields["input"], *reply_items(parts, whole.offer)], ids[-1])

        return remember


@final
class Continuation:
    """The answers that the provider keeps, so that a request need only say what is new; runs may share it.

    An answer is known by all that was sent before it and all that it said. A prompt that begins so, item by item, goes
    on from it; any other prompt, a changed one too, is sent whole.

    Args:
        most: How many answers are remembered, the latest ones.

    >>> known = Continuation()
    >>> said = [{"role": "user", "content": "Hello"}, {"role": "assistant", "content": "Good day."}]
    >>> known.remember(said, "resp_1")
    >>> known.shortened([*said, {"role": "user", "content": "And now?"}])
    ('resp_1', [{'role': 'user', 'content': 'And now?'}])
    >>> known.shortened(said[:1]) is None
    True
    """

    __slots__ = ("_known", "_lock", "_most")

    def __init__(self, most: int = 1024) -> None:
        self._known: OrderedDict[bytes, str] = OrderedDict()
        self._most = most
        self._lock = Lock()

    def remember(self, items: Iterable[Mapping[str, Any]], response: str) -> None:
        """Remember that the answer `response` comes after these items, those of the request and its own."""
        *_, last = _digests(items)
        with self._lock:
            self._known[last] = response
            while len(self._known) > self._most:
                self._known.popitem(last=False)

    def shortened(self, items: list[dict[str, Any]]) -> tuple[str, list[dict[str, Any]]] | None:
        """The latest known answer that these items continue, and the items after it; None if there is none."""
        digests = list(_digests(items))
        for place in range(len(items) - 1, 0, -1):
            found = self._known.get(digests[place])
            if found is not None:
                return found, items[place:]
        return None

    def forget(self, response: str) -> None:
        """Forget the answer, for instance because the provider has lost it."""
        with self._lock:
            for digest in [digest for digest, known in self._known.items() if known == response]:
                del self._known[digest]

    def clear(self) -> None:
        """Forget all answers: the next request is sent whole."""
        with self._lock:
            self._known.clear()


def _digests(items: Iterable[Mapping[str, Any]]) -> Iterator[bytes]:
    """The digests of the first 0, 1, 2 … items, in time by their size."""
    running = sha256()
    yield running.digest()
    for item in items:
        running.update(msgspec.json.encode(item, order="deterministic") + b"\n")  # no JSON text holds a line feed
        yield running.digest()


def layer(
    model: str | None = None,
    *,
    api: Api = "responses",
    strict_json_schema: bool | None = None,
    supports_strict: bool | None = None,
    supports_schema: bool | None = None,
    system_role: SystemRole | None = None,
    store: bool | None = None,
    incremental: bool = False,
    **connection: Unpack[AccountOptions],
) -> Layer[LanguageModel, AiError]:
    """The layer of a language model of OpenAI's, or of a server that speaks one of its APIs. Needs the extra `openai`.

    The environment is read and the connections are made when the layer is built; they are closed with its scope.

    Args:
        model: The model's name, such as `"gpt-5.5"`.
        api: `"responses"`, or `"chat"` for Chat Completions, which most servers of others speak.
        strict_json_schema: Whether tools and answers are strict where they do not say; None: where they can be.
        supports_strict: Whether the model has strict mode for tools; None: as its name says.
        supports_schema: Whether it can be held to a JSON Schema; None: as its name says. Where not, it calls a tool.
        system_role: How system messages are sent; None: as instructions, on Chat Completions as role `system`.
        store: Whether the provider keeps the answers; None: as it does by itself.
        incremental: Whether a prompt that goes on from a kept answer is sent as what is new alone. Only on Responses;
            where the provider does not take it, the whole prompt is sent.
        connection: The key, the address, the timeouts and the like; see `AccountOptions`.

    Fails with:
        AiError: `AuthenticationError("MissingKey")`; `ModelUnavailableError`: no model is named, or the extra is not
            installed; `NetworkError("InvalidUrlError")`.
    """
    profile = Profile(api, strict_json_schema, supports_strict, supports_schema, system_role, store)
    account = open_account(**connection)

    def make(client: Client) -> LanguageModel:
        return OpenAIModel(client, model or "", profile, Continuation() if incremental else None)

    nameless = ModelUnavailableError("(unnamed)", "unknown-model", 'say which, as in "openai:gpt-5.5"')
    failure = fx.fail(AiError(MODULE, "layer", nameless))
    return Layer.scoped(LanguageModel, account.map(make) if model else failure)
