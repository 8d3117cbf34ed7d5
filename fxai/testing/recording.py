"""Recording: what a program and its providers send each other over HTTP, kept in a file and answered from it.

`cassette` is a layer: under it every provider's client records or replays, unchanged. Keys never reach the file.

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
"""What a cassette does: answer from its file alone; send every request and write the file anew; answer from the file
and send what it does not hold, which is added."""


def cassette(
    path: str | Path,
    mode: Mode = "replay",
    *,
    secrets: Iterable[str | Secret] = (),
    live: AsyncBaseTransport | None = None,
) -> LayerOf[Transport, Never, None]:
    """The layer under which clients of providers record into a file, or are answered from it without a network.

    A request is answered by the first exchange of the same verb, path and body (JSON by its meaning) that was not
    given yet; the host does not matter. Faults of the connection are recorded and replayed too. The file is written
    when the layer is released, unless the program ended by a defect or an interruption.

    Only harmless headers are kept. Values of headers, members and arguments that are named like keys, what looks like
    a key, and every `secrets` are taken out wherever they stand, also before a request is compared.

    Replaying needs no key: where the environment has none, the provider's layer is built without.

    Args:
        path: The file, in JSON; folders that are not there are made.
        mode: "replay", "record" (the file is written anew) or "auto".
        secrets: Further texts that must not be stored; those of fewer than 8 characters are not looked for.
        live: What sends requests that are recorded; by default the network, as the client would use it.

    Raises:
        CassetteError: (a defect of the program) no exchange answers a request, and the message shows the nearest one;
            or the file is missing, or none of a cassette.
    """
    file, known = Path(path), tuple(secrets)

    def open_() -> Gen[Transport, Never, Scope]:
        tape = yield from fx.sync(lambda: _tape(file, mode))
        if mode != "replay":
            yield from fx.add_finalizer(lambda end: _write(tape, end))
        return _Cassette(tape, Redaction(known), mode, live)

    return LayerOf.scoped(Transport, fx.suspend(fx.gen(open_)))


def record(path: str | Path, *, secrets: Iterable[str | Secret] = ()) -> LayerOf[Transport, Never, None]:
    """`cassette(path, "record", secrets=secrets)`."""
    return cassette(path, "record", secrets=secrets)


def replay(path: str | Path, *, secrets: Iterable[str | Secret] = ()) -> LayerOf[Transport, Never, None]:
    """`cassette(path, "replay", secrets=secrets)`."""
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
