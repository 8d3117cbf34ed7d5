"""Functions that add a chat application to another web application. Use `mount` for Starlette or FastAPI.

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
from typing import Any

from starlette.applications import Starlette
from starlette.types import ASGIApp, Receive, Scope, Send

from fxai.ui.app import ChatApp


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
