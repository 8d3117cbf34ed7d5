"""Level 1. Serve ASGI applications as effects. It requires uvicorn, which the extras `mcp` and `ui` install."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fxai.hosting.listening import CannotListen, open_socket, url_of

if TYPE_CHECKING:
    from fxai.hosting.asgi_server import serve_app

__all__ = ["CannotListen", "open_socket", "serve_app", "url_of"]

if not TYPE_CHECKING:  # otherwise type checkers would accept any name

    def __getattr__(name: str) -> object:
        if name != "serve_app":
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        from fxai.hosting import asgi_server  # imports uvicorn, which only servers need

        return asgi_server.serve_app
