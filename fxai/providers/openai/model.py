"""OpenAI's language models as a service: a layer over one pool of connections, which is closed with its scope.

>>> layer("gpt-5.5", api_key="sk-…").__class__.__name__
'LayerOf'
"""

from __future__ import annotations

import os
import re
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from threading import Lock
from typing import TYPE_CHECKING, Any, Final, TypeVar, final
from urllib.parse import quote

import msgspec
from typing_extensions import Unpack, override

from fxai.effects import fx
from fxai.effects.effect import Effect, Gen
from fxai.effects.layer import Layer
from fxai.effects.pull import END
from fxai.effects.schedule import Schedule
from fxai.effects.scope import Scope
from fxai.effects.stream import Emit, Stream, StreamOf
from fxai.messages.accumulate import gather
from fxai.messages.errors import AiError
from fxai.messages.part import AnyPart, Part, StreamPart
from fxai.messages.reason import InvalidRequestError, ModelUnavailableError, Reason
from fxai.messages.think_tag import ThinkTags, split_thoughts
from fxai.models.language_model import LanguageModel
from fxai.models.model_facts import ModelFacts
from fxai.models.model_info import ModelInfo
from fxai.models.model_request import ModelRequest
from fxai.models.prepared_tools import PreparationError
from fxai.models.request_cache import RequestCache
from fxai.models.token_count import TokenCount
from fxai.providers.http.client import RETRY, Client, ConnectionOptions, Key, key_of, open_client
from fxai.providers.http.event import FIRST_FIELD, Event, read_events
from fxai.providers.http.token_counter import TokenCounter
from fxai.providers.http.transport import TIMEOUT, Secret, Timeout
from fxai.providers.openai.background import Background, BackgroundResponse
from fxai.providers.openai.chat_call import is_refused_call
from fxai.providers.openai.chat_reply import ChatReader, read_chat
from fxai.providers.openai.known_models import facts_at
from fxai.providers.openai.options import NAME
from fxai.providers.openai.reply import ReplyError, parse_object, read_responses
from fxai.providers.openai.request import Cache, Profile, WireRequest, prepare_request
from fxai.providers.openai.responses_input import SystemRole, digests_of, reply_items
from fxai.providers.openai.responses_stream import ResponsesReader
from fxai.providers.openai.server import COMPATIBLE, OPENAI_CHAT, Server, server_at, server_of
from fxai.providers.openai.tool_encoding import Api

if TYPE_CHECKING:
    import httpx2


BASE_URL: Final = OPENAI_CHAT.base_url
"""Where OpenAI's own API is."""
MODULE: Final = OPENAI_CHAT.name
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
    server: Server | None = None,
    model: str = "",
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

    The arguments are `AccountOptions`; an empty key means none. A server that is given has an address and a variable
    of its key of its own; `model` is the deployment, which the address of some names.

    Fails with:
        AiError: `AuthenticationError("MissingKey")`: there is no key, and the server needs one;
            `ModelUnavailableError`: nothing says where the server is; and as `open_client`.
    """

    @fx.gen
    def opening() -> Gen[Client, AiError, Scope]:
        url = yield from _place(server, base_url, model)
        known = server or (OPENAI_CHAT if url.startswith(BASE_URL) else COMPATIBLE)
        secret = yield from _secret(api_key, known)
        bearer, ours = known.key_header == "authorization", known.name == MODULE
        account = {
            known.key_header: None if secret is None else Secret(f"Bearer {secret.reveal()}") if bearer else secret,
            "openai-organization": organization or (os.environ.get("OPENAI_ORG_ID") if ours else None),
            "openai-project": project or (os.environ.get("OPENAI_PROJECT_ID") if ours else None),
        }
        given = {name: value for name, value in account.items() if value}
        return (
            yield from open_client(
                base_url=url,
                headers={**given, **(headers or {})},
                timeout=timeout,
                proxy=proxy,
                retry=retry,
                module=known.name,
                transport=transport,
            )
        )

    return opening()


def _secret(api_key: Key, server: Server) -> Effect[Secret | None, AiError]:
    if api_key == "" or (api_key is None and not server.key and server is not COMPATIBLE):
        return fx.succeed(None)
    variable = server.key_variable() or "OPENAI_API_KEY"
    key = key_of(api_key, variable, module=server.name)
    return key if server.needs_key or api_key is not None else key.catch_all(lambda _: fx.succeed(None))


def _place(server: Server | None, base_url: str | None, model: str) -> Effect[str, AiError]:
    """Where the API is; the address of a deployment, where the server has one for each and a version is asked for."""
    if server is None or base_url:
        return fx.succeed(base_url or address())
    try:
        url = server.address()
    except LookupError as missing:
        problem = f"nothing says where {server.name} is: set {missing.args[0]}, or give base_url"
        reason = ModelUnavailableError(model or "(unnamed)", "unknown-model", problem)
        return fx.fail(AiError(server.name, "layer", reason))
    if not url:
        reason = ModelUnavailableError(model or "(unnamed)", "unknown-model", "the server has no base_url: give one")
        return fx.fail(AiError(server.name, "layer", reason))
    if server.deployments:
        url = _TWICE.sub("", url)
        version = os.environ.get("OPENAI_API_VERSION", "").strip()
        if version and not version.startswith(("v1", "preview")):
            root = url.removesuffix("/openai/v1")
            return fx.succeed(f"{root}/openai/deployments/{quote(model, safe='')}?api-version={quote(version)}")
    return fx.succeed(url)


_TWICE: Final = re.compile(r"(?<=/openai/v1)/openai/v1$")  # an endpoint may bring its version


_UNSTREAMED: Final = ("2h", "8h")  # windows of the background that give the answer whole
_PATHS: Final[Mapping[str, str]] = {"responses": "/responses", "chat": "/chat/completions"}


_A = TypeVar("_A")


def read_reply(reply: bytes | str | Mapping[str, Any], sent: WireRequest) -> tuple[Part, ...]:
    """The parts of a whole answer: warnings, metadata of the response, the items in order, and how it finished.

    Args:
        reply: the body, as it came or parsed. It may be a stream of events, which some servers send in any case.
        sent: the request that it answers.

    Raises:
        ReplyError: it is not what the API answers, or it is an error.
    """
    if isinstance(reply, bytes) and FIRST_FIELD.match(reply):
        parts = _read_events(reply, sent)
    else:
        data = parse_object(reply)
        parts = read_chat(data, sent) if sent.api == "chat" else tuple(read_responses(data, sent))
    return split_thoughts(parts, NAME) if sent.think_tags else parts


def _read_events(reply: bytes, sent: WireRequest) -> tuple[Part, ...]:
    reader = ChatReader(sent) if sent.api == "chat" else ResponsesReader(sent)
    events, fault = read_events([reply])
    parts = [part for event in events if not event.is_empty for part in reader.read(event.name, event.data)]
    if fault is not None and not reader.done:
        raise ReplyError(fault)
    return gather([*parts, *reader.end()])


@final
class OpenAIModel(LanguageModel):
    """A model of OpenAI's, or of a compatible server, that answers turn by turn; `layer` makes one.

    Args:
        client: What sends its requests.
        name: The model's name there.
        profile: What is known of it.
        continuation: The answers to go on from, which models may share; None: its own where the profile says
            `incremental`, else each prompt is sent whole.
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
        """The model's name."""

    @property
    @override
    def info(self) -> ModelInfo:
        """Its name, and the server that it is asked of."""
        return ModelInfo("openai", self.name, *self._client.server)

    @property
    @override
    def facts(self) -> ModelFacts:
        """The facts about the model at its server."""
        return self._profile.facts_of(self.name)

    def ask(self, request: ModelRequest) -> Effect[tuple[Part, ...], AiError]:
        """The model's turn, whole.

        Fails with:
            AiError: The request cannot be sent (its tools, its schema, its prompt, its options), the provider refuses
                it or cannot be reached, or its answer is none.
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
        """The same turn, part by part; a reader that stops early closes the connection.

        Fails with:
            AiError: As `ask`; also behind parts that came, which stand: the stream was cut, or holds an error.
        """

        def send(whole: WireRequest) -> Stream[StreamPart, AiError]:
            if whole.background is not None and whole.background.window in _UNSTREAMED:
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
        """The tokens that the request takes, where the server counts them: OpenAI on Responses, llama.cpp on both APIs.

        Where it does not, an estimate with a warning that says so; it is not asked for another count then.

        Fails with:
            AiError: As `ask`.
        """

        def count(sent: WireRequest) -> Effect[TokenCount, AiError]:
            path, body = f"{_PATHS[sent.api]}/input_tokens", self._attempt("count", sent.count_body)
            return self._counter.count(request, path, body, sent.warnings)

        return self._prepare(request, "count").flat_map(count)

    def _prepare(self, request: ModelRequest, method: str) -> Effect[WireRequest, AiError]:
        known: dict[str, Any] = {"profile": self._profile, "cache": self._cache, "stream": method == "ask_stream"}
        return self._attempt(method, lambda: prepare_request(request, model=self.name, **known))

    def _events(self, sent: WireRequest, whole: WireRequest, begun: list[bool]) -> Stream[StreamPart, AiError]:
        return StreamOf.steps(lambda emit: fx.scoped(self._read(sent, whole, begun, emit)))

    @fx.gen
    def _read(
        self, sent: WireRequest, whole: WireRequest, begun: list[bool], emit: Emit[StreamPart]
    ) -> Gen[None, AiError, Scope]:
        """Reads the events of a stream until its last one, and emits their parts; `begun` is filled by the first."""
        body: bytes = yield from self._attempt("ask_stream", lambda: sent.encoded)
        reader = ChatReader(sent) if sent.api == "chat" else ResponsesReader(sent)
        tags, keeps, turn = ThinkTags(NAME), self._keeps(whole), list[StreamPart]()
        events = yield from self._source(sent, body).pull()
        is_over = False
        while not is_over:
            event: Any = yield from events
            try:
                parts = reader.end() if event is END else reader.read(event.name, event.data)
                parts = [one for part in parts for one in tags.read(part)] if sent.think_tags else parts
            except ReplyError as error:
                for part in error.parts:
                    for one in tags.read(part) if sent.think_tags else (part,):
                        yield from emit(one)
                yield from fx.fail(self._error("ask_stream", error.reason))
                return
            is_over = reader.done
            if parts:
                begun.append(True)
            if keeps:
                turn.extend(parts)
                if is_over:
                    self._remember(whole, turn)
            for part in parts:
                yield from emit(part)

    def _post(self, sent: WireRequest, body: bytes) -> Effect[bytes, AiError]:
        """The whole answer, which may be made in the background."""
        waiting = self._waiting(sent)
        if waiting is not None:
            return waiting.whole(_PATHS[sent.api], body, "ask")
        refused, path = is_refused_call if sent.api == "chat" else None, _PATHS[sent.api]
        return self._client.post(path, body, method="ask", reads_error=refused).map(lambda answer: answer.body)

    def _source(self, sent: WireRequest, body: bytes) -> Stream[Event, AiError]:
        """The events of the answer, which may be made in the background."""
        waiting = self._waiting(sent)
        if waiting is not None:
            return waiting.events(_PATHS[sent.api], body, "ask_stream")
        refused = is_refused_call if sent.api == "chat" else None
        return self._client.events(_PATHS[sent.api], body, method="ask_stream", reads_error=refused)

    def _waiting(self, sent: WireRequest) -> BackgroundResponse | None:
        if sent.background is None:
            return None
        included = tuple(map(str, sent.fields.get("include", ())))
        return BackgroundResponse(self._client, sent.background, included, sent.response_id)

    def _attempt(self, method: str, f: Callable[[], _A]) -> Effect[_A, AiError]:
        def attempt() -> Effect[_A, AiError]:
            try:
                return fx.succeed(f())
            except (PreparationError, ReplyError) as error:
                return fx.fail(self._error(method, error.reason))

        return fx.suspend(attempt)

    def _error(self, method: str, reason: Reason) -> AiError:
        return self._client.redact(AiError(self._module, method, reason))

    # -- going on from an answer that the provider keeps

    def _shorten(self, whole: WireRequest) -> tuple[WireRequest, str | None]:
        """The request with what is new alone, and the answer that it goes on from; or the whole one, and None."""
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
        """The whole request, where the provider does not take the short one."""
        if self._continuation is None or not isinstance(error.reason, InvalidRequestError):
            return fx.fail(error)
        self._continuation.forget(earlier)
        return whole()

    def _keeps(self, whole: WireRequest) -> bool:
        """Whether the answer is one that a later request may go on from."""
        return self._continuation is not None and whole.api == "responses" and whole.fields.get("store") is not False

    def _remember(self, whole: WireRequest, parts: Sequence[AnyPart]) -> None:
        ids = [part.id for part in parts if part.type == "response-metadata" and part.id is not None]
        if self._continuation is not None and ids:
            items = [*whole.fields["input"], *reply_items(parts, whole.offer)]
            self._continuation.remember(items, ids[-1], whole.digests)


@final
class Continuation:
    """The answers that the provider keeps, so that a request holds only what is new; runs may share it.

    An answer is known by all that was sent before it and all that it contains. A prompt that begins so, item by item,
    goes on from it; any other prompt, a changed one too, is sent whole.

    Args:
        most: How many answers are remembered, the latest ones.

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
        """Remember that the answer `response` comes after these items, those of the request and its own.

        Args:
            items: The items, one at least.
            response: The id of the answer.
            digests: Those of the first items, as `digests_of` gives them, which are not made anew.
        """
        last = digests_of(items, digests)[-1]
        with self._lock:
            self._known[last] = response
            while len(self._known) > self._most:
                self._known.popitem(last=False)

    def shorten(
        self, items: list[dict[str, Any]], digests: Sequence[bytes] = ()
    ) -> tuple[str, list[dict[str, Any]]] | None:
        """The latest known answer that these items continue, and the items after it; None if there is none.

        Args:
            items: The items of a request.
            digests: Those of the first items, as of `remember`.
        """
        known = digests_of(items, digests)
        for place in range(len(items) - 1, 0, -1):
            response = self._known.get(known[place - 1])
            if response is not None:
                return response, items[place:]
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
    """The layer of a language model of OpenAI's, or of a server that speaks one of its APIs. Needs the extra `openai`.

    The environment is read and the connections are made when the layer is built; they are closed with its scope.

    Args:
        model: The model's name, such as `"gpt-5.5"`; of a deployment, also `"deployment=gpt-5.5"`.
        api: `"responses"`, or `"chat"` for Chat Completions, which most servers of others speak. None: Chat Completions
            where a server is given, else Responses.
        server: The server of Chat Completions, by its name or as a value; None: by the address, where it is known.
        known_as: The model whose abilities it has, where its name does not say so.
        facts: Facts about the model, which win over the server and the table. None: as those state.
        strict_json_schema: Whether tools and answers are strict where they do not say; None: where they can be.
        supports_strict: Whether the model has strict mode for tools; None: as the server and its name say.
        supports_schema: Whether it can be held to a JSON Schema; None: as those say. Where not, it calls a tool.
        system_role: How system messages are sent; None: as instructions, on Chat Completions as role `system`.
        store: Whether the provider keeps the answers; None: as it does by itself.
        incremental: Whether a prompt that goes on from a kept answer is sent as what is new alone. Only on Responses;
            where the provider does not take it, the whole prompt is sent.
        background: Whether answers are made in the background, and how they are waited for; only on Responses. True:
            as `Background()` says.
        connection: The key, the address, the timeouts and the like; see `AccountOptions`.

    Fails with:
        AiError: `AuthenticationError("MissingKey")`; `ModelUnavailableError`: no model is named, there is no such
            server, nothing says where it is, or the extra is not installed; `NetworkError("InvalidUrlError")`.
    """
    try:
        given = None if server is None else server_of(server)
    except ValueError as error:
        return Layer.effect(LanguageModel, _unavailable(model, str(error)))
    name, behind = _deployment(model or "", given, known_as)
    if not name:
        remedy = f'say which, as in "{"openai:gpt-5.5" if given is None else f"{given.name}:…"}"'
        return Layer.effect(LanguageModel, _unavailable(model, remedy))
    known: Api = api or ("responses" if given is None else "chat")
    waiting = Background() if background is True else background or None
    settings = (strict_json_schema, supports_strict, supports_schema, system_role, store, incremental, waiting)
    account = open_account(server=given, model=name, **connection)

    def opening() -> Effect[OpenAIModel, AiError, Scope]:
        url = address(connection.get("base_url"))
        place, is_official = _place_of(given, url, known)
        able = facts_at(place, behind or name, known, facts, elsewhere=not is_official)
        profile, client = Profile(known, *settings, place, behind, able), account
        if given is None and place not in (COMPATIBLE, OPENAI_CHAT):  # people give these a key of OpenAI's
            at = msgspec.structs.replace(place, other_keys=(*place.other_keys, OPENAI_CHAT.key))
            there: AccountOptions = {**connection, "base_url": url}
            client = open_account(server=at, model=name, **there)
        return client.map(lambda client: OpenAIModel(client, name, profile))

    return Layer.scoped(LanguageModel, fx.suspend(opening))


def _place_of(given: Server | None, url: str, api: Api) -> tuple[Server, bool]:
    """Return the server that a layer uses, and whether it is OpenAI's own."""
    if url.startswith(BASE_URL) and given in (None, OPENAI_CHAT):
        return OPENAI_CHAT, True
    return given or (server_at(url) if api == "chat" else COMPATIBLE), False


def _deployment(model: str, server: Server | None, known_as: str | None) -> tuple[str, str | None]:
    """The name that is sent, and the model whose abilities it has: of a deployment, its name may say both."""
    if server is None or not server.deployments or "=" not in model:
        return model, known_as
    name, _, behind = model.partition("=")
    return name, known_as or behind


def _unavailable(model: str | None, why: str) -> Effect[LanguageModel, AiError]:
    return fx.fail(
        AiError(OPENAI_CHAT.name, "layer", ModelUnavailableError(model or "(unnamed)", "unknown-model", why))
    )
