"""The files of the chat page of fxai, with the headers that protect the page. Use `page_file` to serve them.

The sources of the page are in the directory `page` of the repository. The built files are in `fxai/ui/static`.
"""

from __future__ import annotations

from functools import cache
from hashlib import sha256
from importlib.resources import files
from typing import Final

from starlette.datastructures import Headers
from starlette.responses import Response

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
