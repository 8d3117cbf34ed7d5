"""Chat applications. Use `chat_app` to serve an agent over HTTP to pages and to any client of the AI SDK.

An application is an ASGI application on Starlette. Each turn runs in a task of the application, not of its request, so
that it can continue after the client disconnects. Every response reads the events of a turn from the stream store.
If no event arrives for a while, the response sends a comment, so that proxies and clients keep the connection.

>>> from fxai import Agent
>>> from fxai.testing import ScriptedModel, text
>>> app = chat_app(Agent.make("greeter"), layer=ScriptedModel.make([text("Hello.")]).layer)
>>> from starlette.testclient import TestClient
>>> with TestClient(app) as client:
...     question = {"id": "u1", "role": "user", "parts": [{"type": "text", "text": "Hi"}]}
...     response = client.post("/api/chat", json={"id": "c1", "messages": [question]})
...     client.get("/api/chat/c1").json()["messages"][1]["parts"][1]["text"]
'Hello.'
>>> host = Starlette()
>>> mount(host, app, "/desk")
>>> [route.path for route in host.routes]
['/desk']
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from functools import cache, partial
from hashlib import sha256
from importlib.resources import files
from inspect import isawaitable
from typing import Any, Final, Never, TypedDict, cast, final, overload

import anyio
import msgspec
from returns.result import Failure, Result, Success
from starlette.applications import Starlette
from starlette.datastructures import Headers
from starlette.middleware import Middleware
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send
from typing_extensions import TypeAliasType, TypeVar, Unpack, override

from fxai.agents.agent import Agent
from fxai.agents.stateful import StatefulPrompt
from fxai.agents.sub_agent import Callee
from fxai.effects import fx
from fxai.effects.cancellation import event_loop, refuse_foreign
from fxai.effects.cause import Failed
from fxai.effects.effect import AnyEffect, EffectOf
from fxai.effects.layer import AnyLayer, LayerOf
from fxai.effects.runtime import Runtime, run_async_exit, runtime
from fxai.effects.stream import StreamOf
from fxai.models.language_model import LanguageModel
from fxai.schema.data import is_object
from fxai.schema.parsing import parse_json
from fxai.tools.annotation import Title
from fxai.tools.tool import AnyTool
from fxai.ui.access import (
    LOOPBACK,
    Access,
    Action,
    Authorize,
    Identify,
    TurnRate,
    check_host,
    check_origin,
    read_json_body,
)
from fxai.ui.ag_ui import EVENT_HEADERS, NOTHING, AgUiEncoder, RunInput, translate_stream
from fxai.ui.chunk import HEADERS, StreamOptions
from fxai.ui.conversation import Conversation, ConversationSummary
from fxai.ui.conversation_store import Conversations
from fxai.ui.request import (
    LIMITS,
    ChatRequest,
    Refusal,
    RefusedError,
    RequestLimits,
    accept,
    is_id,
    read_sent,
    unknown_conversation,
)
from fxai.ui.signal import Stop, UserReply
from fxai.ui.stream_store import StreamStore
from fxai.ui.turn import Accept, Answerer, ChatJob, ChatTurn, OnLeave, TurnPages

_BEAT = b": \n\n"


@final
class AppOptions(msgspec.Struct, frozen=True):
    """The options of a chat application."""

    title: str = ""
    """Title on the page and in `/api/info`. An empty string means the name of the agent."""
    suggestions: tuple[str, ...] = ()
    """Prompts that the page offers before the first message. By default the requests of the tools' `input_examples`,
    two for each tool."""
    page: bool = False
    """True to serve the page of fxai at `/`."""
    ag_ui: bool = False
    """True to serve AG-UI clients at `/api/ag-ui`."""
    stream: StreamOptions = StreamOptions()
    """The options for the parts of a run that clients receive."""
    on_leave: OnLeave = "continue"
    """Action after the client of a turn has disconnected: continue the turn, or cancel it. A client can read a
    continued turn later."""
    hosts: tuple[str, ...] = LOOPBACK
    """The names in the header `Host` that the server accepts; `*` accepts all names."""
    origins: tuple[str, ...] = ()
    """Other origins whose pages may use the application, such as `https://app.example.org`."""
    limits: RequestLimits = LIMITS
    """The limits for the data that a client sends."""
    body_timeout: float = 10.0
    """Seconds to wait for a body."""
    heartbeat: float = 15.0
    """Seconds without an event before a stream sends a comment."""
    turns_per_minute: int = 60
    """Maximum number of turns that a user starts per minute."""
    running_turns: int = 4
    """Maximum number of active turns of one user."""
    all_turns: int = 256
    """Maximum number of active turns of all users."""
    grace: float = 10.0
    """Seconds that active turns have to finish when the application shuts down. After this time they stop."""


@final
class EventStream(Response):
    """A response whose body is a stream of events."""

    def __init__(self, events: StreamOf[bytes, Any, None], headers: Mapping[str, str], heartbeat: float) -> None:
        """Create a response from events. It sends a comment after `heartbeat` seconds without an event."""
        self.status_code = 200
        self.init_headers(headers)
        self._events = events
        self._heartbeat = heartbeat

    @override
    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        sending = _Sending(send)

        async def watch(reading: anyio.CancelScope) -> None:
            """Send a comment after each silent period, until the client disconnects."""
            with suppress(anyio.get_cancelled_exc_class()):  # anyio would keep it in a cycle of references
                while True:
                    before = sending.sent
                    with anyio.move_on_after(self._heartbeat):
                        while (await receive())["type"] != "http.disconnect":
                            pass
                        return reading.cancel()
                    if sending.sent == before and not sending.lock.locked():
                        await sending.send(_BEAT)

        await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
        try:
            async with anyio.create_task_group() as group:
                group.start_soon(watch, group.cancel_scope)
                async with self._events.iterate() as batches:
                    async for batch in batches:
                        await sending.send(batch)
                await sending.send(b"", more=False)
                group.cancel_scope.cancel()
        except* OSError:  # the client disconnected
            pass


@final
class _Sending(msgspec.Struct, eq=False):
    """A sender of the pieces of a body, one at a time."""

    to_client: Send
    lock: anyio.Lock = msgspec.field(default_factory=lambda: anyio.Lock(fast_acquire=True))
    sent: int = 0  # pieces

    async def send(self, body: bytes, *, more: bool = True) -> None:
        async with self.lock:
            self.sent += 1
            await self.to_client({"type": "http.response.body", "body": body, "more_body": more})


_A = TypeVar("_A")
_R = TypeVar("_R", default=None)
_R_co = TypeVar("_R_co", covariant=True, default=None)
_E = TypeVar("_E")

_LOG: Final = logging.getLogger("fxai.ui")
_MOST_LISTED: Final = 200
_STOPPING: Final = 5.0  # seconds
_OPTIONS: Final = AppOptions()
_SMALL: Final = 64 * 1024  # bytes of a body without messages
_HEADERS: Final = ((b"x-content-type-options", b"nosniff"), (b"referrer-policy", b"no-referrer"))


class AppArgs(TypedDict, total=False):
    """The keyword arguments of `chat_app` that all its overloads share."""

    conversations: Conversations
    """The store of conversations. Default: a store in this process."""
    streams: StreamStore
    """The store of the streams of active turns. Default: a store in this process."""
    identify: Identify
    """Returns the user who sends a request. Default: every client is the user `local`, which requires local `hosts`."""
    authorize: Authorize
    """Returns True if a user may do something. Each route about a conversation calls it. Default: the owner may."""
    options: AppOptions
    """The title, the pages, the hosts, and the limits. Default: `AppOptions()`."""


TurnAnswerer = TypeAliasType(
    "TurnAnswerer",
    Callable[[ChatTurn], Callee[Any, _R] | StreamOf[Any, Any, _R] | EffectOf[Any, Any, _R]],
    type_params=(_R,),
)
"""A function that returns the answerer of a turn: an agent, a stateful prompt, parts, or an effect of one of them."""

Supply = Callable[[EffectOf[None, Never, _R]], EffectOf[Any, Any, None]]
"""A layer that supplies all services that a program requires."""


# mypy infers the parameter of a lambda from the first overload with a function
@overload
def chat_app(answerer: TurnAnswerer[_R], *, layer: Supply[_R | None], **args: Unpack[AppArgs]) -> ChatApp: ...
@overload
def chat_app(answerer: TurnAnswerer[None], **args: Unpack[AppArgs]) -> ChatApp: ...
@overload
def chat_app(answerer: Callee[_E, _R], *, layer: Supply[_R | None], **args: Unpack[AppArgs]) -> ChatApp: ...
@overload
def chat_app(answerer: Callee[_E, None], **args: Unpack[AppArgs]) -> ChatApp: ...
def chat_app(answerer: Any, *, layer: Any = None, **args: Any) -> ChatApp:
    """Return an ASGI application that answers with an agent, a stateful prompt, or the result of a function.

    Args:
        answerer: The answerer. A function receives the `ChatTurn` and returns an agent, a prompt, or a stream of parts.
        layer: The layer of all required services. The application builds it at its start and releases it at its end.
        args: The stores, the access control, and the options of the application; see `AppArgs`.

    Raises:
        ValueError: If the options allow hosts other than this machine, and `identify` is missing.
    """
    return ChatApp(answerer, cast("AnyLayer | None", layer), **args)


@final
class _Active(msgspec.Struct, eq=False):
    """The state of an application while it runs on an event loop."""

    services: Runtime[Any]
    group: Any
    stopping: anyio.Event
    jobs: dict[str, str]
    """The user of each active turn, by the id of the turn."""
    idle: anyio.Event
    """An event that is set when the last turn has ended after the application started to close."""
    is_closing: bool = False


@final
class ChatApp:
    """An ASGI application that answers with agents. Create it with `chat_app`.

    The lifespan of its server starts it. If a host application runs no lifespan for it, its first request starts it.
    `mount` and `dispatch` add it to another application together with its lifespan.
    """

    def __init__(
        self,
        answerer: Any,
        layer: AnyLayer | None = None,
        *,
        conversations: Conversations | None = None,
        streams: StreamStore | None = None,
        identify: Identify | None = None,
        authorize: Authorize | None = None,
        options: AppOptions = _OPTIONS,
    ) -> None:
        """Create an application. `chat_app` is the same function with types."""
        if identify is None and not set(options.hosts) <= set(LOOPBACK):
            advice = "Pass identify=, such as bearer_token(…), to identify users."
            raise ValueError(f"other machines can reach the hosts {', '.join(options.hosts)}. {advice}")
        self._answerer: Answerer = answerer
        self._tools: Sequence[AnyTool] = answerer.tools if isinstance(answerer, Agent) else ()
        self._layer = layer or LayerOf.empty()
        self._conversations = conversations or Conversations.in_process()
        self._streams = streams or StreamStore.in_process()
        self._identify: Identify = identify or (lambda _: "local")
        self._authorize: Authorize = authorize or (lambda access: access.user == access.owner)
        self._options = options
        self.pages: Final = TurnPages()
        """The pages of the active turns. Code outside a turn uses them to ask questions."""
        self._rate = TurnRate(options.turns_per_minute)
        self._active: _Active | None = None
        self._loop: object = None
        self._alone: tuple[asyncio.Task[None], anyio.Event] | None = None  # the task if no server runs the lifespan
        origins = [one for one in options.origins if one != "*"]  # Starlette would allow every origin
        cross_origin = Middleware(
            CORSMiddleware,
            allow_origins=origins,
            allow_methods=("GET", "POST", "PATCH", "DELETE"),
            allow_headers=("authorization", "content-type"),
            expose_headers=("x-fxai-error", "x-vercel-ai-ui-message-stream"),
        )
        self._starlette = Starlette(
            routes=self._routes(),
            middleware=[cross_origin] if origins else [],
            exception_handlers={RefusedError: lambda _, refused: _refusal(cast("RefusedError", refused))},
            lifespan=lambda _: self.lifespan(),
        )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one connection."""
        if scope["type"] != "http":
            await self._starlette(scope, receive, send)
            return
        try:
            check_host(scope, self._options.hosts)
            if scope["method"] not in ("GET", "HEAD", "OPTIONS"):
                check_origin(Headers(scope=scope), scope["scheme"], self._options.origins)
        except RefusedError as refused:
            await _refusal(refused)(scope, receive, send)
            return

        async def with_headers(message: Any) -> None:
            if message["type"] == "http.response.start":
                message = {**message, "headers": [*message["headers"], *_HEADERS]}
            await send(message)

        await self._starlette(scope, receive, with_headers)

    # -- start and stop

    @asynccontextmanager
    async def lifespan(self) -> AsyncGenerator[None]:
        """Run the application during the block. After the block, its turns have `grace` seconds to finish."""
        async with anyio.create_task_group() as group:
            active: _Active = await group.start(self._run)
            try:
                yield
            finally:
                active.stopping.set()

    async def _run(self, *, task_status: anyio.abc.TaskStatus[_Active] = anyio.TASK_STATUS_IGNORED) -> None:
        async with runtime(self._layer) as services, anyio.create_task_group() as group:
            active = _Active(services, group, anyio.Event(), {}, anyio.Event())
            self._active, self._loop = active, anyio.lowlevel.current_token()
            task_status.started(active)
            try:
                await active.stopping.wait()
                active.is_closing = True
                with anyio.move_on_after(self._options.grace):
                    if active.jobs:
                        await active.idle.wait()
            finally:
                self._active = None
                group.cancel_scope.cancel()

    async def _start(self) -> _Active:
        """Return the state of the running application. Start the application if no server started it."""
        token = anyio.lowlevel.current_token()
        if self._active is None or self._loop != token:
            await self._start_alone(token)
        active = self._active
        if active is None or active.is_closing:
            raise RefusedError(503, "stopped", "the server is shutting down. Try again later.")
        return active

    async def _start_alone(self, token: object) -> None:
        """Start the application without a lifespan, once for all requests, in a task of the asyncio event loop."""
        if event_loop() != "asyncio":
            raise RuntimeError("the application was not started. Let the server run its lifespan.")

        async def live(ready: anyio.Event) -> None:
            try:
                async with anyio.create_task_group() as group:
                    await group.start(self._run)
                    ready.set()
            finally:
                ready.set()

        if self._alone is None or self._alone[0].done() or self._loop != token:
            ready = anyio.Event()
            self._active, self._loop = None, token
            self._alone = asyncio.get_running_loop().create_task(live(ready)), ready
        living, ready = self._alone
        await ready.wait()
        if living.done():
            living.result()  # raises the error that prevented the start

    async def aclose(self) -> None:
        """Stop an application that its first request started. Active turns have `grace` seconds to finish."""
        if self._active is not None and self._alone is not None:
            self._active.stopping.set()
            await self._alone[0]

    # -- requests

    def _routes(self) -> list[Route]:
        chat = "/api/chat/{id}"
        return [
            self._route("/api/chat", self._start_turn, "POST"),
            self._route("/api/chat", self._list, "GET"),
            self._route("/api/info", self._info, "GET"),
            *([self._route("/api/ag-ui", self._run_ag_ui, "POST")] if self._options.ag_ui else []),
            self._route(f"{chat}/stream", self._resume, "GET"),
            self._route(f"{chat}/stop", self._stop, "POST"),
            self._route(f"{chat}/answers", self._answer, "POST"),
            self._route(f"{chat}/messages", self._send, "POST"),
            self._route(f"{chat}/head", self._choose, "POST"),
            self._route(chat, self._show, "GET"),
            self._route(chat, self._rename, "PATCH"),
            self._route(chat, self._delete, "DELETE"),
            self._route("/{path:path}", self._page, "GET"),
        ]

    def _route(self, path: str, handle: Callable[[Request, str], Awaitable[Response]], method: str) -> Route:
        """Return a route whose handler receives the name of the user. The files of the page need no user."""

        async def endpoint(request: Request) -> Response:
            if path.startswith("/{"):
                return await handle(request, "")
            user: str | None = await refuse_foreign(_value_of(self._identify(request)))
            if not user:
                text = "the server does not know who you are. Sign in, or send the token."
                raise RefusedError(401, "identity", text)
            return await handle(request, user)

        return Route(path, endpoint, methods=[method])

    async def _load(self, user: str, action: Action, id_: str) -> Conversation:
        """Return the conversation if the user may do this. Refuse a missing conversation and one of another user."""
        if (known := await self._find(user, action, id_)) is None:
            raise unknown_conversation()
        return known

    async def _find(self, user: str, action: Action, id_: str) -> Conversation | None:
        """Return the conversation, like `_load`, or None if it does not exist."""
        owner = await self._find_owner(user, action, id_)
        return None if owner is None else cast("Conversation | None", await self._ask(self._conversations.load(id_)))

    async def _allow(self, user: str, action: Action, id_: str) -> None:
        """Refuse the request if the conversation does not exist, or if the user may not do this."""
        if await self._find_owner(user, action, id_) is None:
            raise unknown_conversation()

    async def _find_owner(self, user: str, action: Action, id_: str) -> str | None:
        """Return the owner, or None, if the user may do this. The user owns a conversation that does not exist."""
        if not is_id(id_):
            raise unknown_conversation()
        known: ConversationSummary | None = await self._ask(self._conversations.summary(id_))
        if not await self._is_allowed(Access(user, action, id_, user if known is None else known.owner)):
            raise unknown_conversation()
        return None if known is None else known.owner

    async def _is_allowed(self, access: Access) -> bool:
        return bool(await refuse_foreign(_value_of(self._authorize(access))))

    async def _ask(self, effect: AnyEffect) -> Any:
        """Return the value of an effect of a store. Log a failure, and hide it from the client."""
        end = await run_async_exit(effect)
        if isinstance(end, Failed):
            if end.cause.interrupted:
                raise end.cause.squash()
            error = end.cause.squash()
            _LOG.error("a request failed: %s", error, exc_info=error)
            raise RefusedError(500, "failed", "the request failed. The log of the server states the reason.")
        return end.value

    # -- turns

    async def _start_turn(self, request: Request, user: str) -> Response:
        limits = self._options.limits
        body = await read_json_body(request, limits.bytes, self._options.body_timeout)
        asked: ChatRequest = _require(ChatRequest.read(body, limits))
        accepting = partial(accept, asked, limits=limits, tools=self._tools)
        turn_id = await self._create_turn(asked.id, user, accepting, asked.body, self._options.stream)
        return self._events(asked.id, turn_id)

    async def _create_turn(
        self, id_: str, user: str, accept: Accept, body: Mapping[str, Any], options: StreamOptions
    ) -> str:
        """Start a turn and return its id, if the user may write to the conversation."""
        active = await self._start()
        owner = await self._find_owner(user, "write", id_)
        running = sum(one == user for one in active.jobs.values())
        if running >= self._options.running_turns or len(active.jobs) >= self._options.all_turns:
            text = "too many answers are in progress. Wait for one to finish, or stop it."
            raise RefusedError(429, "running", text, retry_after=5.0)
        self._rate.take(user)
        job = ChatJob(
            id_,
            user,
            owner,
            accept,
            body,
            self._answerer,
            self._conversations,
            self._streams,
            options=options,
            on_leave=self._options.on_leave,
            pages=self.pages,
        )
        active.jobs[job.turn_id] = user
        active.group.start_soon(self._work, active, job)
        await job.begun.wait()
        if job.refused is not None:
            raise job.refused
        return job.turn_id

    async def _run_ag_ui(self, request: Request, user: str) -> Response:
        """Answer an AG-UI client. A request without a message reads the conversation and the active turn."""
        limits = self._options.limits
        body = await read_json_body(request, limits.bytes, self._options.body_timeout)
        asked: RunInput = _require(RunInput.read(body, limits))
        known = await self._find(user, "read", asked.id)
        if not asked.asks(known):
            active: str | None = await self._ask(self._streams.active(asked.id))
            state, to_data = None if known is None else known.state(), self._options.stream.state
            data = msgspec.UNSET if state is None or to_data is None else to_data(state)
            return self._ag_ui_events(
                asked, active, AgUiEncoder(asked.id, asked.run_id, prefix=active, known=known, state=data)
            )
        options = msgspec.structs.replace(self._options.stream, version=7)
        accepting = partial(asked.accept, limits=limits, tools=self._tools)
        turn_id = await self._create_turn(asked.id, user, accepting, asked.body, options)
        return self._ag_ui_events(asked, turn_id, AgUiEncoder(asked.id, asked.run_id, prefix=turn_id))

    def _ag_ui_events(self, asked: RunInput, turn_id: str | None, encoder: AgUiEncoder) -> Response:
        events = StreamOf.make(NOTHING) if turn_id is None else self._streams.read(asked.id, turn_id)
        return EventStream(translate_stream(encoder, events), EVENT_HEADERS, self._options.heartbeat)

    async def _work(self, active: _Active, job: ChatJob) -> None:
        try:
            await refuse_foreign(job.run(active.services))
        except Exception as error:
            _LOG.error("turn %s failed: %s", job.turn_id, error, exc_info=error)
        finally:
            active.jobs.pop(job.turn_id, None)
            if active.is_closing and not active.jobs:
                active.idle.set()

    def _events(self, id_: str, turn_id: str, after: int = 0) -> Response:
        return EventStream(self._streams.read(id_, turn_id, after=after), HEADERS, self._options.heartbeat)

    async def _resume(self, request: Request, user: str) -> Response:
        id_, after = request.path_params["id"], _number(request, "after", 0)
        await self._start()
        owner = await self._find_owner(user, "read", id_)
        active = None if owner is None else await self._ask(self._streams.active(id_))
        return Response(status_code=204) if active is None else self._events(id_, active, after)

    async def _stop(self, request: Request, user: str) -> Response:
        id_ = request.path_params["id"]
        await self._allow(user, "stop", id_)
        return JSONResponse({"stopped": await self._ask(self._streams.signal(id_, Stop()))})

    async def _answer(self, request: Request, user: str) -> Response:
        id_ = request.path_params["id"]
        await self._allow(user, "write", id_)
        body = await self._small_body(request)
        try:
            reply = UserReply(body["questionId"], body["action"], body.get("content"))
            msgspec.convert(msgspec.to_builtins(reply), UserReply)
        except (KeyError, msgspec.ValidationError) as error:
            raise RefusedError(400, "invalid", f"expected questionId, action, and content: {error}") from None
        return JSONResponse({"taken": await self._ask(self._streams.signal(id_, reply))})

    async def _send(self, request: Request, user: str) -> Response:
        """Send a user message to the run of the active turn."""
        id_, limits = request.path_params["id"], self._options.limits
        await self._allow(user, "write", id_)
        message = _require(read_sent(await read_json_body(request, limits.bytes, self._options.body_timeout), limits))
        self._rate.take(user)
        return JSONResponse({"taken": await self._ask(self._streams.signal(id_, message))})

    async def _small_body(self, request: Request) -> dict[str, Any]:
        parsed = parse_json(await read_json_body(request, _SMALL, self._options.body_timeout))
        data = parsed.unwrap() if isinstance(parsed, Success) else None
        if not is_object(data):
            raise RefusedError(400, "invalid", "expected a JSON object")
        return data

    # -- conversations

    async def _list(self, request: Request, user: str) -> Response:
        limit, before = _number(request, "limit", 50), request.query_params.get("before")
        most = max(1, min(limit, _MOST_LISTED))
        try:
            until = None if before is None else float(before)
        except ValueError:
            raise RefusedError(400, "invalid", "before: expected a number of seconds") from None
        found = await self._ask(self._conversations.list(user, limit=most, before=until))
        listed = [
            {
                "id": one.id,
                "title": one.title,
                "created": one.created,
                "changed": one.changed,
                "running": await self._ask(self._streams.active(one.id)) is not None,
            }
            for one in found
            if await self._is_allowed(Access(user, "read", one.id, one.owner))
        ]
        return JSONResponse({"conversations": listed})

    async def _show(self, request: Request, user: str) -> Response:
        conversation = await self._load(user, "read", request.path_params["id"])
        active = await self._ask(self._streams.active(conversation.id))
        return JSONResponse(conversation.describe(is_running=active is not None))

    async def _choose(self, request: Request, user: str) -> Response:
        conversation = await self._load(user, "write", request.path_params["id"])
        turn = (await self._small_body(request)).get("turn")
        if not isinstance(turn, str) or conversation.turn(turn) is None:
            raise RefusedError(400, "invalid", "turn: expected the id of a turn of the conversation")
        if await self._ask(self._streams.active(conversation.id)) is not None:
            raise RefusedError(409, "busy", "an answer is in progress. Wait for its end, or stop it.")
        await self._ask(self._conversations.choose(conversation.id, conversation.leaf(turn)))
        return await self._show(request, user)

    async def _rename(self, request: Request, user: str) -> Response:
        id_ = request.path_params["id"]
        await self._allow(user, "write", id_)
        title = (await self._small_body(request)).get("title")
        if not isinstance(title, str) or not title.strip():
            raise RefusedError(400, "invalid", "title: expected a string")
        await self._ask(self._conversations.rename(id_, title.strip()))
        return Response(status_code=204)

    async def _delete(self, request: Request, user: str) -> Response:
        id_ = request.path_params["id"]
        await self._allow(user, "delete", id_)
        if await self._ask(self._streams.signal(id_, Stop())):
            await self._ask(self._streams.read(id_).drain().timeout(_STOPPING).exit())
        await self._ask(self._conversations.delete(id_))
        await self._ask(self._streams.remove(id_))
        return Response(status_code=204)

    # -- information and the page

    async def _info(self, _: Request, __: str) -> Response:
        name = self._answerer.name if isinstance(self._answerer, Agent | StatefulPrompt) else ""
        listed = [
            {"name": tool.name, "title": tool.get(Title) or "", "description": tool.description or ""}
            for tool in self._tools
        ]
        examples = (example.request for tool in self._tools for example in tool.input_examples[:2])
        limits = self._options.limits
        supplied = (await (await self._start()).services.run(fx.context())).find(LanguageModel)
        model = None if supplied is None else supplied.info
        return JSONResponse(
            {
                "name": name,
                "title": self._options.title or name or "Chat",
                "version": self._options.stream.version,
                "model": "" if model is None else model.model,
                "tools": listed,
                "suggestions": list(self._options.suggestions or filter(None, examples)),
                "files": {"count": limits.files, "bytes": limits.bytes * 3 // 4, "types": list(limits.media_types)},
            }
        )

    async def _page(self, request: Request, _: str) -> Response:
        found = page_file(request.path_params["path"], request.headers) if self._options.page else None
        if found is None:
            raise RefusedError(404, "unknown", "no page exists at this address")
        return found

    @override
    def __repr__(self) -> str:
        return f"chat_app({self._answerer!r})"


def _require(read: Result[_A, Refusal]) -> _A:
    if isinstance(read, Failure):
        refusal = read.failure()
        raise RefusedError(refusal.status, refusal.code, str(refusal))
    return read.unwrap()


def _number(request: Request, name: str, default: int) -> int:
    text = request.query_params.get(name)
    if text is None:
        return default
    if not (text.isascii() and text.isdecimal()) or len(text) > 9:
        raise RefusedError(400, "invalid", f"{name}: expected a whole number")
    return int(text)


async def _value_of(given: Any) -> Any:
    """Return the result of a user's hook. If the result is awaitable, await it."""
    return await given if isawaitable(given) else given


def _refusal(refused: RefusedError) -> Response:
    headers = {"x-fxai-error": refused.code, "x-content-type-options": "nosniff"}
    if refused.retry_after is not None:
        headers["retry-after"] = str(max(1, round(refused.retry_after)))
    if refused.status == 401:
        headers["www-authenticate"] = "Bearer"
    return PlainTextResponse(refused.message, refused.status, headers)


# -- other web applications


def mount(host: Starlette, chat: ChatApp, path: str = "/chat") -> None:
    """Mount a chat application in a Starlette or FastAPI application, which then also starts and stops it.

    Args:
        host: The application. Hosts do not run the lifespan of mounted applications, so `mount` adds it to theirs.
        chat: The chat application.
        path: The path of the chat application. Its routes are `PATH/api/chat` and so on.

    Raises:
        ValueError: If the path is invalid.
    """
    host.mount(_path(path), chat)
    before = host.router.lifespan_context

    @asynccontextmanager
    async def lifespan(app: Any) -> AsyncGenerator[Any]:
        async with chat.lifespan(), before(app) as state:
            yield state

    host.router.lifespan_context = lifespan


def dispatch(apps: Mapping[str, ChatApp], default: ASGIApp) -> ASGIApp:
    """Return an ASGI application that sends requests to chat applications by path, and all others to `default`.

    Args:
        apps: The chat applications, by path.
        default: The application for all other paths, such as a Django application. It does not need a lifespan,
            because the returned application runs the lifespan of the chat applications.

    Raises:
        ValueError: If a path is invalid.
    """
    by_path = {_path(path): apps[path] for path in sorted(apps, key=len, reverse=True)}

    @asynccontextmanager
    async def lifespan(_: Any) -> AsyncGenerator[None]:
        async with AsyncExitStack() as stack:
            for app in by_path.values():
                await stack.enter_async_context(app.lifespan())
            yield

    async def serve(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await Starlette(lifespan=lifespan)(scope, receive, send)
            return
        path, root = scope.get("path", ""), scope.get("root_path", "")
        within = path.removeprefix(root) if root and path.startswith(root) else path
        for prefix, app in by_path.items():
            if scope["type"] == "http" and (within == prefix or within.startswith(f"{prefix}/")):
                await app({**scope, "root_path": root + prefix}, receive, send)
                return
        await default(scope, receive, send)

    return serve


def _path(path: str) -> str:
    if not path.startswith("/") or path.endswith("/"):
        raise ValueError(f"path must start with a slash and not end with a slash, got {path!r}")
    return path


# -- the page: its sources are in the directory `page` of the repository, and the built files in `fxai/ui/static`

_TYPES: Final = {
    "html": "text/html; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "css": "text/css; charset=utf-8",
    "svg": "image/svg+xml",
}
_POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data: blob:; "
    "media-src data: blob:; form-action 'none'; base-uri 'none'; frame-ancestors 'none'; "
    "require-trusted-types-for 'script'; trusted-types 'none'"
)


@cache
def _files() -> dict[str, tuple[bytes, str, str]]:
    """Return the content, the media type, and the ETag of each file, by name."""
    found: dict[str, tuple[bytes, str, str]] = {}
    for file in files("fxai.ui").joinpath("static").iterdir():
        kind = file.name.rpartition(".")[2]
        if kind in _TYPES:
            content = file.read_bytes()
            found[file.name] = content, _TYPES[kind], f'"{sha256(content).hexdigest()[:20]}"'
    return found


def page_file(path: str, headers: Headers) -> Response | None:
    """Return the response for a file, or None for an unknown file. The empty path is the page itself."""
    found = _files().get(path.removeprefix("assets/") if path.startswith("assets/") else path or "index.html")
    if found is None or path == "index.html":
        return None
    content, type_, tag = found
    answered = {
        "content-security-policy": _POLICY,
        "etag": tag,
        "cache-control": "no-cache",
        "cross-origin-opener-policy": "same-origin",
    }
    if headers.get("if-none-match") == tag:
        return Response(status_code=304, headers=answered)
    return Response(content, headers={**answered, "content-type": type_})
