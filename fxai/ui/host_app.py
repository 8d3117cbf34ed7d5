"""Mounting: a chat application inside of another application, started and stopped with it.

>>> from starlette.applications import Starlette
>>> from fxai import Agent
>>> from fxai.testing import ScriptedModel, text
>>> from fxai.ui.app import chat_app
>>> host = Starlette()
>>> mount(host, chat_app(Agent.make("greeter"), layer=ScriptedModel.make([text("Hello.")]).layer), "/chat")
>>> [route.path for route in host.routes]
['/chat']
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any, final

from starlette.applications import Starlette
from starlette.types import ASGIApp, Receive, Scope, Send

from fxai.ui.app import ChatApp


def mount(host: Starlette, chat: ChatApp, path: str = "/chat") -> None:
    """Mounts a chat application in a Starlette or FastAPI application, and has it started and stopped with that.

    Args:
        host: the application. Hosts do not run the lifespan of what is mounted in them; this adds it to theirs.
        chat: the chat application.
        path: where it is mounted; its routes are `PATH/api/chat` and so on.

    Raises:
        ValueError: the path is no path.
    """
    host.mount(_path(path), chat)
    before = host.router.lifespan_context

    @asynccontextmanager
    async def lifespan(app: Any) -> AsyncGenerator[Any]:
        async with chat.lifespan(), before(app) as state:
            yield state

    host.router.lifespan_context = lifespan


def dispatch(apps: Mapping[str, ChatApp], default: ASGIApp) -> ASGIApp:
    """An ASGI application of chat applications by their paths, and of another one for all else, such as Django's.

    Args:
        apps: the chat applications by the paths that they are mounted at.
        default: the application for all other paths. It need not know of a lifespan: this runs that of the chats.

    Raises:
        ValueError: a path is no path.
    """
    return _Dispatch({_path(path): app for path, app in apps.items()}, default)


def _path(path: str) -> str:
    if not path.startswith("/") or path.endswith("/"):
        raise ValueError(f"{path!r} is no path to mount at: it begins with a slash and does not end with one")
    return path


@final
class _Dispatch:
    def __init__(self, apps: Mapping[str, ChatApp], default: ASGIApp) -> None:
        self._apps = dict(sorted(apps.items(), key=lambda item: -len(item[0])))
        self._default = default

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await Starlette(lifespan=lambda _: self._lifespan())(scope, receive, send)
            return
        path, root = scope.get("path", ""), scope.get("root_path", "")
        within = path.removeprefix(root) if root and path.startswith(root) else path
        for prefix, app in self._apps.items():
            if scope["type"] == "http" and (within == prefix or within.startswith(f"{prefix}/")):
                await app({**scope, "root_path": root + prefix}, receive, send)
                return
        await self._default(scope, receive, send)

    @asynccontextmanager
    async def _lifespan(self) -> AsyncGenerator[None]:
        async with AsyncExitStack() as stack:
            for app in self._apps.values():
                await stack.enter_async_context(app.lifespan())
            yield
