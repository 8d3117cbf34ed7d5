"""Recordings are HTTP exchanges with providers, stored in a file. Use a cassette to test a program without a network.

`cassette` returns a layer. With it, the client of every provider records or replays exchanges. Keys never reach the
file.
>>> import tempfile, httpx2
>>> from pathlib import Path
>>> from fxai.effects import fx
>>> from fxai.providers.http import Secret, open_client
>>> answers = httpx2.MockTransport(lambda request: httpx2.Response(200, json={"text": "Hello."}))
>>> opened = open_client(base_url="https://api.example.com/v1", headers={"x-api-key": Secret("sk-1234")})
>>> asked = fx.scoped(opened.flat_map(lambda client: client.post("/replies", b'{"input": "Hi"}')))
>>> with tempfile.TemporaryDirectory() as folder:
...     path = Path(folder, "hello.json")
...     fx.run(asked.provide(cassette(path, "record", live=answers))).body
...     fx.run(asked.provide(cassette(path))).body
...     "sk-1234" in path.read_text()
b'{"text":"Hello."}'
b'{"text":"Hello."}'
False
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Never, TypeAlias, final

from typing_extensions import override

from fxai.effects import fx
from fxai.effects.cause import Exit, Failed
from fxai.effects.effect import Effect, Gen
from fxai.effects.layer import LayerOf
from fxai.effects.scope import Scope
from fxai.providers.http.transport import Secret, Transport
from fxai.testing.tape import CassetteError, Redaction, Tape

if TYPE_CHECKING:
    from httpx2 import AsyncBaseTransport

__all__ = ["CassetteError", "Mode", "cassette", "record", "replay"]

Mode: TypeAlias = Literal["replay", "record", "auto"]
"""The mode of a cassette. `"replay"`: answer only from the file. `"record"`: send every request and write the file
again. `"auto"`: answer from the file, and send and add missing requests."""


def cassette(
    path: str | Path,
    mode: Mode = "replay",
    *,
    secrets: Iterable[str | Secret] = (),
    live: AsyncBaseTransport | None = None,
) -> LayerOf[Transport, Never, None]:
    """Return the layer with which clients of providers record to a file, or replay the file without a network.

    An exchange answers a request if verb, path, and body match (JSON by its meaning). The host does not matter. fxai
    uses each exchange once, in order. It also records and replays connection errors. It writes the file when the layer
    is released, unless the program ended with a defect or an interruption.

    fxai stores only harmless headers. Before it stores or compares a request, it removes these values from all parts:

    - headers, members, and arguments with the name of a key
    - strings that look like a key
    - every string in `secrets`

    Replaying needs no key. If the environment has no key, the provider's layer works without one.

    Args:
        path: JSON file. Missing directories are created.
        mode: "replay", "record" (writes the file again), or "auto". Default: "replay".
        secrets: Further strings that fxai must not store. fxai ignores strings of fewer than 8 characters.
        live: Transport for recorded requests. Default: the network, as the client would use it.

    Raises:
        CassetteError: As a defect of the program, if no exchange answers a request (the message shows the most similar
            exchange), or if the file is missing or invalid.
    """
    file, known = Path(path), tuple(secrets)

    def open_() -> Gen[Transport, Never, Scope]:
        tape = yield from fx.sync(lambda: _tape(file, mode))
        if mode != "replay":
            yield from fx.add_finalizer(lambda end: _write(tape, end))
        return _Cassette(tape, Redaction(known), mode, live)

    return LayerOf.scoped(Transport, fx.suspend(fx.gen(open_)))


def record(path: str | Path, *, secrets: Iterable[str | Secret] = ()) -> LayerOf[Transport, Never, None]:
    """Return `cassette(path, "record", secrets=secrets)`."""
    return cassette(path, "record", secrets=secrets)


def replay(path: str | Path, *, secrets: Iterable[str | Secret] = ()) -> LayerOf[Transport, Never, None]:
    """Return `cassette(path, "replay", secrets=secrets)`."""
    return cassette(path, "replay", secrets=secrets)


@final
class _Cassette(Transport):
    def __init__(self, tape: Tape, redaction: Redaction, mode: Mode, live: AsyncBaseTransport | None) -> None:
        self._tape = tape
        self._redaction = redaction
        self._mode = mode
        self._live = live

    @property
    @override
    def needs_keys(self) -> bool:
        return self._mode != "replay"

    @override
    def over(self, live: Callable[[], AsyncBaseTransport]) -> AsyncBaseTransport:
        from fxai.testing.recorder import Player, Recorder

        if self._mode == "replay":
            return Player(self._tape, self._redaction)
        recorder = Recorder(self._tape, self._redaction, self._live or live())
        return recorder if self._mode == "record" else Player(self._tape, self._redaction, recorder)


def _tape(path: Path, mode: Mode) -> Tape:
    fresh = mode == "record" or (mode == "auto" and not path.exists())
    return Tape(path, []) if fresh else Tape.read(path)


def _write(tape: Tape, end: Exit[Any, Any]) -> Effect[None]:
    if isinstance(end, Failed) and (end.cause.defects or end.cause.interrupted):
        return fx.succeed(None)
    return fx.sync(tape.write)
