"""Recording and replaying: what is kept, what is not, what answers what, and what is said when nothing does."""

from __future__ import annotations

import gzip
import json
import os
import stat
import sys
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import httpx2
import pytest
from hypothesis import given
from hypothesis import strategies as st
from typing_extensions import override

from fxai.effects import Backend, Effect, fx
from fxai.messages import AiError, AuthenticationError, NetworkError, RateLimitError
from fxai.models import LanguageModel
from fxai.providers.anthropic import layer as anthropic_layer
from fxai.providers.http import Client, Event, Secret, open_client
from fxai.storage.secret_filter import REMOVED
from fxai.testing.recording import CassetteError, Content, Mode, Redaction, cassette, record, replay
from tests.kit.every import every
from tests.kit.http_peer import Step, answer, events, peer

KEY = "sk-proj-0123456789abcdef"
STREAM = b'event: a\ndata: {"n": 1}\n\ndata: [DONE]\n\n'

Respond = Callable[[httpx2.Request], httpx2.Response]


def _asked(use: Callable[[Client], Effect[Any, AiError]]) -> Effect[Any, AiError]:
    opened = open_client(
        base_url="https://api.example.com/v1", headers={"authorization": Secret(f"Bearer {KEY}")}, retry=None
    )
    return fx.scoped(opened.flat_map(use))


def _post(body: object = "hi", path: str = "/replies") -> Callable[[Client], Effect[Any, AiError]]:
    return lambda client: client.post(path, json.dumps(body).encode()).map(lambda answer: json.loads(answer.body))


def _events(client: Client) -> Effect[list[Event], AiError]:
    return client.events("/stream", b'{"stream": true}').collect()


def _recorded(
    path: Path,
    use: Callable[[Client], Effect[Any, AiError]],
    respond: Respond,
    mode: Mode = "record",
    backend: Backend = "asyncio",
) -> Any:
    layer = cassette(path, mode, live=httpx2.MockTransport(respond))
    return fx.run_result(_asked(use).provide(layer), backend=backend)


def _json(data: object, status: int = 200, **headers: str) -> Respond:
    return lambda _: httpx2.Response(status, json=data, headers=headers)


def test_what_is_recorded_is_replayed(tmp_path: Path, backend: Backend) -> None:
    """A whole answer comes again from the file, with nothing to send it, on either event loop."""
    path = tmp_path / "deep" / "a.json"
    first = _recorded(path, _post(), _json({"text": "größe"}), backend=backend)

    again = fx.run_result(_asked(_post()).provide(replay(path)), backend=backend)

    assert first == again
    assert again.unwrap() == {"text": "größe"}


def test_a_stream_is_recorded_and_replayed(tmp_path: Path, backend: Backend) -> None:
    """Events come again as they were, and the file shows each of them."""
    path = tmp_path / "a.json"

    def respond(_: httpx2.Request) -> httpx2.Response:
        return httpx2.Response(200, content=STREAM, headers={"content-type": "text/event-stream"})

    first = _recorded(path, _events, respond, backend=backend).unwrap()
    again = fx.run(_asked(_events).provide(replay(path)), backend=backend)

    assert first == again == [Event("a", '{"n": 1}'), Event("message", "[DONE]")]
    (exchange,) = json.loads(path.read_text(encoding="utf-8"))["exchanges"]
    assert exchange["answer"]["body"] == {"events": ['event: a\ndata: {"n": 1}\n\n', "data: [DONE]\n\n"]}


def test_the_file_is_for_people(tmp_path: Path) -> None:
    """The file holds verb, path, harmless headers, and bodies as plain JSON."""
    path = tmp_path / "a.json"
    _recorded(path, _post({"input": "Hi"}), _json({"text": "Hello."}, x_request_id="r1"))

    assert json.loads(path.read_text(encoding="utf-8")) == {
        "version": 1,
        "exchanges": [
            {
                "request": {
                    "method": "POST",
                    "path": "/v1/replies",
                    "headers": {"accept": "application/json", "content-type": "application/json"},
                    "body": {"json": {"input": "Hi"}},
                },
                "answer": {
                    "status": 200,
                    "headers": {"content-type": "application/json"},
                    "body": {"json": {"text": "Hello."}},
                },
            }
        ],
    }


def test_no_secret_reaches_the_file(tmp_path: Path) -> None:
    """Keys in headers, addresses, members and texts of requests, answers and errors are taken out."""
    path = tmp_path / "a.json"
    mine = "correct horse battery"

    def respond(request: httpx2.Request) -> httpx2.Response:
        if "stream" in request.url.path:
            echoed = f'data: {{"api_key": "short", "said": "{KEY}"}}\n\n'
            return httpx2.Response(200, text=echoed, headers={"content-type": "text/event-stream"})
        headers = {"set-cookie": "session=0123456789", "x-request-id": f"of-{KEY}", "openai-organization": "org-acme"}
        return httpx2.Response(200, json={"echo": dict(request.headers), "words": f"{mine} {KEY}"}, headers=headers)

    body = {
        "mcp": {"authorization": "tok", "headers": {"X-Api-Key": "abc"}},
        "note": "Bearer zzzzzzzzzzzz",
        "say": mine,
    }

    def both(client: Client) -> Effect[Any, AiError]:
        return _post(body, "/replies?key=AIza-query&limit=2")(client).and_then(_events(client))

    layer = cassette(path, "record", secrets=[mine], live=httpx2.MockTransport(respond))
    got = fx.run(_asked(both).provide(layer))
    text = path.read_text(encoding="utf-8")

    assert got[0].data == f'{{"api_key": "short", "said": "{KEY}"}}'
    for secret in (KEY, 'tok"', "abc", "zzzz", mine, "AIza-query", "0123456789", "org-acme", "short"):
        assert secret not in text
    assert json.loads(text)["exchanges"][0]["request"]["path"] == "/v1/replies?key=(secret)&limit=2"
    assert REMOVED in text


def test_a_request_is_matched_without_its_secrets(tmp_path: Path) -> None:
    """Another key in the header, in the query and in the body finds the same exchange."""
    path = tmp_path / "a.json"

    def use(key: str) -> Callable[[Client], Effect[Any, AiError]]:
        return _post({"password": key, "n": 1}, f"/replies?api_key={key}")

    _recorded(path, use("first-key-0"), _json("ok"))

    assert fx.run(_asked(use("other-key-1")).provide(replay(path))) == "ok"


def test_a_body_is_matched_by_its_meaning(tmp_path: Path) -> None:
    """The order of members and the space between them do not matter; values do, and so does their type."""
    path = tmp_path / "a.json"
    _recorded(path, _post({"a": 1, "b": [1, 2]}), _json("ok"))

    spaced = _asked(lambda client: client.post("/replies", b'{ "b": [1,2],\n "a": 1 }'))
    assert fx.run(spaced.provide(replay(path))).status == 200
    for other in ({"a": 1.0, "b": [1, 2]}, {"a": 1, "b": [2, 1]}, {"a": True, "b": [1, 2]}):
        with pytest.raises(CassetteError):
            fx.run(_asked(_post(other)).provide(replay(path)))


def test_equal_requests_get_their_answers_in_order(tmp_path: Path) -> None:
    """What was asked three times is answered three times, in order, and not a fourth time."""
    path = tmp_path / "a.json"
    numbers = iter(range(9))

    def times(number: int) -> Callable[[Client], Effect[Any, AiError]]:
        return lambda client: fx.for_each(range(number), lambda _: _post()(client))

    _recorded(path, times(3), lambda _: httpx2.Response(200, json=next(numbers)))

    assert fx.run(_asked(times(3)).provide(replay(path))) == [0, 1, 2]
    with pytest.raises(CassetteError, match="left: recorded 3 times, requested 4 times"):
        fx.run(_asked(times(4)).provide(replay(path)))


def test_a_request_that_nothing_answers_is_shown_beside_the_nearest(tmp_path: Path) -> None:
    """The error names file and request, shows what differs from the nearest one, and says what to do."""
    path = tmp_path / "a.json"

    def both(client: Client) -> Effect[Any, AiError]:
        return _post({"far": "away"})(client).and_then(_post({"input": "Hi", "model": "m-1", "n": 1})(client))

    _recorded(path, both, _json("ok"))
    with pytest.raises(CassetteError) as raised:
        fx.run(_asked(_post({"input": "Hi", "model": "m-2", "n": 1})).provide(replay(path)))

    said = str(raised.value)
    assert f"cassette {path} has no exchange for POST /v1/replies. The most similar is number 2:" in said
    assert '-    "model": "m-1",' in said
    assert '+    "model": "m-2",' in said
    assert "far" not in said
    assert said.endswith("Record it again with mode 'record', or add missing exchanges with mode 'auto'.")


def test_a_missing_exchange_is_no_failure_of_the_model(tmp_path: Path) -> None:
    """The error passes whatever handles failures: a program cannot take it for an outage and go on."""
    path = tmp_path / "a.json"
    _recorded(path, _post(), _json("ok"))

    with pytest.raises(CassetteError):
        fx.run(_asked(_post("other")).catch_all(lambda _: fx.succeed("fallback")).provide(replay(path)))


@every(
    ("text", "said"),
    [
        (None, "not found"),
        ("{", "is not a cassette"),
        ("[" * 100_000, "is not a cassette"),
        ("[]", "is not a cassette"),
        ('{"version": 1, "exchanges": [{"requests": 1}]}', "is not a cassette"),
        ('{"version": 7, "exchanges": []}', "must have the version 1, got 7"),
    ],
)
def test_a_file_that_is_no_cassette_is_told(tmp_path: Path, text: str | None, said: str) -> None:
    """A missing or a broken file is an error that says how to make one."""
    path = tmp_path / "a.json"
    if text is not None:
        path.write_text(text)

    with pytest.raises(CassetteError, match=said) as raised:
        fx.run(_asked(_post()).provide(replay(path)))

    assert "Record it" in str(raised.value)


def test_recording_begins_anew(tmp_path: Path) -> None:
    """Mode "record" asks for everything and keeps nothing of what was there."""
    path = tmp_path / "a.json"
    _recorded(path, _post("old"), _json("old"))
    _recorded(path, _post("new"), _json("new"))

    assert [one["answer"]["body"] for one in json.loads(path.read_text())["exchanges"]] == [{"json": "new"}]


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no such modes")
def test_a_recording_is_its_owners_alone(tmp_path: Path) -> None:
    """It holds what was said; also where it is put in the place of one that others may read."""
    path = tmp_path / "cassettes" / "hello.json"
    modes: list[int] = []
    before = os.umask(0)
    try:
        for _ in range(2):
            _recorded(path, _post(), _json("hi"))
            modes.append(stat.S_IMODE(path.stat().st_mode))
            path.chmod(0o644)
    finally:
        os.umask(before)

    assert modes == [0o600, 0o600]
    assert list(path.parent.iterdir()) == [path]


def test_auto_adds_what_is_missing(tmp_path: Path) -> None:
    """Mode "auto" sends only what the file does not answer, and adds it; without a file it records."""
    path = tmp_path / "a.json"
    sent: list[str] = []

    def respond(request: httpx2.Request) -> httpx2.Response:
        sent.append(request.content.decode())
        return httpx2.Response(200, json="ok")

    def both(client: Client) -> Effect[Any, AiError]:
        return _post("a")(client).and_then(_post("b")(client))

    for use in (_post("a"), both, both):
        assert _recorded(path, use, respond, "auto").unwrap() == "ok"

    assert sent == ['"a"', '"b"']
    assert fx.run(_asked(both).provide(replay(path))) == "ok"


def test_an_error_status_is_replayed(tmp_path: Path) -> None:
    """A refusal comes again with its words and with what `retry-after` said; the file is written although it failed."""
    path = tmp_path / "a.json"

    def respond(_: httpx2.Request) -> httpx2.Response:
        return httpx2.Response(429, json={"error": {"message": "slow down"}}, headers={"retry-after": "3"})

    first = _recorded(path, _post(), respond)
    again = fx.run_result(_asked(_post()).provide(replay(path)))

    assert first == again
    assert again.failure().reason == RateLimitError("slow down", retry_after=3.0)


class _Cut(httpx2.AsyncByteStream):
    """A stream that breaks behind its first event."""

    @override
    async def __aiter__(self) -> AsyncIterator[bytes]:
        yield b"data: 1\n\n"
        raise httpx2.ReadError("connection lost")


def test_a_broken_connection_is_replayed(tmp_path: Path, backend: Backend) -> None:
    """A fault before the answer and one in the middle of a stream come again, behind what came."""

    def refused(_: httpx2.Request) -> httpx2.Response:
        raise httpx2.ConnectError("connection refused")

    def cut(_: httpx2.Request) -> httpx2.Response:
        return httpx2.Response(200, stream=_Cut(), headers={"content-type": "text/event-stream"})

    def kept(client: Client) -> Effect[Any, AiError]:
        came: list[Event] = []
        reading = client.events("/stream", b"").for_each(lambda event: fx.sync(lambda: came.append(event)))
        return reading.match(lambda error: (came, error), lambda _: (came, None))

    pairs = [
        (
            _recorded(path, use, respond, backend=backend),
            fx.run_result(_asked(use).provide(replay(path)), backend=backend),
        )
        for path, use, respond in ((tmp_path / "a.json", _post(), refused), (tmp_path / "b.json", kept, cut))
    ]
    again = pairs[1][1]

    assert all(first == second for first, second in pairs)
    came, error = again.unwrap()
    assert came == [Event("message", "1")]
    assert isinstance(error.reason, NetworkError)


def test_a_reader_that_stopped_may_stop_again(tmp_path: Path, backend: Backend) -> None:
    """A stream that was left early is replayed as far as it was read; who reads on is told that no more is known."""
    path = tmp_path / "a.json"

    class Endless(httpx2.AsyncByteStream):
        @override
        async def __aiter__(self) -> AsyncIterator[bytes]:
            yield b"data: 1\n\n"
            yield b"data: 2\n\n"
            await fx.run_async(fx.never())

    def respond(_: httpx2.Request) -> httpx2.Response:
        return httpx2.Response(200, stream=Endless(), headers={"content-type": "text/event-stream"})

    def first(client: Client) -> Effect[Any, AiError]:
        return client.events("/stream", b'{"stream": true}').take(1).collect()

    recorded = _recorded(path, first, respond, backend=backend).unwrap()

    assert recorded == fx.run(_asked(first).provide(replay(path)), backend=backend) == [Event("message", "1")]
    with pytest.raises(CassetteError, match="ends here, because its reader stopped"):
        fx.run(_asked(_events).provide(replay(path)), backend=backend)


def test_a_compressed_answer_is_kept_in_the_clear(tmp_path: Path) -> None:
    """The file shows what was compressed, and it is replayed without compression."""
    path = tmp_path / "a.json"

    def respond(_: httpx2.Request) -> httpx2.Response:
        raw = httpx2.ByteStream(gzip.compress(b'{"n": 1}'))
        headers = {"content-encoding": "gzip", "content-type": "application/json"}
        return httpx2.Response(200, stream=raw, headers=headers)

    first = _recorded(path, _post(), respond)

    assert first.unwrap() == {"n": 1}
    assert fx.run(_asked(_post()).provide(replay(path))) == {"n": 1}
    assert json.loads(path.read_text())["exchanges"][0]["answer"]["body"] == {"json": {"n": 1}}


def test_the_network_is_recorded(tmp_path: Path, backend: Backend) -> None:
    """Without a stand-in the network answers: whole, and as a stream that is left early, whose connection is closed."""
    path = tmp_path / "a.json"
    streamed: list[bytes | Step] = [*events(b"data: 1\n\n", b"data: 2\n\n", whole=False), Step.HANG]

    def use(url: str) -> Effect[Any, AiError]:
        def both(client: Client) -> Effect[Any, AiError]:
            whole = client.post("/a", b"1").map(lambda got: got.body)
            first = client.events("/b", b"").take(1).collect()
            return whole.flat_map(lambda body: first.map(lambda came: (body, came)))

        return fx.scoped(open_client(base_url=url, retry=None).flat_map(both))

    with peer([answer(200, b'{"n":1}')], streamed) as server:
        first = fx.run(use(server.url).provide(record(path)), backend=backend)

        assert server.gone()
    assert first == fx.run(use("https://elsewhere.example").provide(replay(path)), backend=backend)
    assert first == (b'{"n":1}', [Event("message", "1")])


def test_a_bug_or_an_interruption_writes_nothing(tmp_path: Path) -> None:
    """A program that ended by a defect leaves the cassette as it was."""
    path = tmp_path / "a.json"
    _recorded(path, _post(), _json("good"))
    before = path.read_bytes()

    def broken(client: Client) -> Effect[Any, AiError]:
        return _post("other")(client).and_then(fx.die(ValueError("bug")))

    with pytest.raises(ValueError, match="bug"):
        _recorded(path, broken, _json("bad"))

    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


def test_a_model_is_replayed_without_a_key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A program with a provider's model is the same under a cassette; where it replays, no key is needed."""
    path = tmp_path / "a.json"
    content = [{"type": "text", "text": "Hello, Ann.", "citations": None}]
    usage = {"input_tokens": 3, "output_tokens": 4}
    reply = {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": "claude-sonnet-5",
        "content": content,
        "stop_reason": "end_turn",
        "stop_sequence": None,
        "usage": usage,
    }
    program = LanguageModel.generate_text("Hello").provide(anthropic_layer("claude-sonnet-5", max_tokens=100))

    monkeypatch.setenv("ANTHROPIC_API_KEY", KEY)
    first = fx.run(program.provide(cassette(path, "record", live=httpx2.MockTransport(_json(reply)))))
    monkeypatch.delenv("ANTHROPIC_API_KEY")
    again = fx.run(program.provide(replay(path)))
    keyless = fx.run_result(program).failure()

    assert first.text == again.text == "Hello, Ann."
    assert KEY not in path.read_text(encoding="utf-8")
    assert isinstance(keyless, AiError)
    assert isinstance(keyless.reason, AuthenticationError)


def test_a_cassette_feeds_the_layer_of_a_client(tmp_path: Path) -> None:
    """`record` and `replay` are the cassette in those modes; without a network, recording fails as the client would."""
    path = tmp_path / "a.json"
    unreachable = fx.scoped(open_client(base_url="http://127.0.0.1:9", retry=None).flat_map(_post()))

    first = fx.run_result(unreachable.provide(record(path)))
    again = fx.run_result(unreachable.provide(replay(path)))

    assert first == again
    assert isinstance(again.failure().reason, NetworkError)


@given(
    st.binary(max_size=60), st.sampled_from(["application/json", "text/event-stream", "application/octet-stream", ""])
)
def test_any_body_comes_back(body: bytes, kind: str) -> None:
    """The pieces of a kept body join to its bytes; JSON keeps its meaning."""
    content = Content.of(body, kind)
    back = b"".join(content.pieces())

    assert Content.of(back, kind) == content
    assert back == body or json.loads(back) == json.loads(body)


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(),
        lambda data: st.lists(data) | st.dictionaries(st.text(), data),
    )
)
def test_no_place_of_a_body_hides_a_secret(data: object) -> None:
    """Wherever a known secret stands in JSON data, it is taken out; taking out twice is taking out once."""
    redaction = Redaction([KEY])
    hidden = redaction.data({"at": data, KEY: [KEY, {"deep": f"<{KEY}>"}]})

    assert KEY not in json.dumps(hidden)
    assert redaction.data(hidden) == hidden
