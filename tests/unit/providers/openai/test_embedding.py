"""OpenAI's embeddings: what is sent over HTTP, and what comes of the answers."""

from __future__ import annotations

import json
import struct
from base64 import b64encode
from typing import Any

import httpx2
import pytest

from fxai.effects import Backend, fx
from fxai.messages import (
    AiError,
    AuthenticationError,
    InvalidOutputError,
    InvalidRequestError,
    ModelUnavailableError,
    Reason,
    Usage,
)
from fxai.models import EmbeddingModel, Embeddings
from fxai.providers import embedding_from_name
from fxai.providers.openai import ReplyError, embedding_layer, read_embeddings
from tests.kit.every import every

MODEL = "text-embedding-3-small"


def _reply(*vectors: Any, **more: Any) -> dict[str, Any]:
    data = [{"object": "embedding", "index": at, "embedding": vector} for at, vector in enumerate(vectors)]
    return {"object": "list", "data": data, "usage": {"prompt_tokens": 5, "total_tokens": 5}, **more}


class Peer:
    """A server that gives these answers in turn, and keeps what it was asked."""

    def __init__(self, *answers: Any, status: int = 200) -> None:
        self.requests: list[httpx2.Request] = []
        self._answers = list(answers)
        self._status = status

    @property
    def bodies(self) -> list[Any]:
        """What it was asked, parsed."""
        return [json.loads(request.content) for request in self.requests]

    def answer(self, request: httpx2.Request) -> httpx2.Response:
        """The next answer."""
        self.requests.append(request)
        return httpx2.Response(self._status, json=self._answers.pop(0))

    def layer(self, model: str | None = MODEL, **given: Any) -> Any:
        """A layer that speaks to it."""
        options: dict[str, Any] = {"api_key": "sk-1", "retry": None, **given}
        return embedding_layer(model, transport=httpx2.MockTransport(self.answer), **options)


def _reason(effect: Any, backend: Backend = "asyncio") -> Reason:
    error: AiError = fx.run_result(effect, backend=backend).failure()
    return error.reason


def test_texts_are_sent_and_vectors_come(backend: Backend) -> None:
    """The path, the key and the body are the API's; of a field that was not given, nothing is sent."""
    peer = Peer(_reply([1, 0.5], [0, -1]))
    found = fx.run(EmbeddingModel.embed_many(["a", "b"]).provide(peer.layer()), backend=backend)

    assert found == Embeddings(((1.0, 0.5), (0.0, -1.0)), Usage(input_tokens=5))
    assert str(peer.requests[0].url) == "https://api.openai.com/v1/embeddings"
    assert peer.requests[0].headers["authorization"] == "Bearer sk-1"
    assert peer.bodies == [{"model": MODEL, "input": ["a", "b"]}]


def test_options_are_sent() -> None:
    """Dimensions and user are the API's fields; the address may be another server's, which needs no key."""
    peer = Peer(_reply([1.0]))
    layer = peer.layer(dimensions=1, user="ann", api_key="", base_url="http://127.0.0.1:9/v1")
    fx.run(EmbeddingModel.embed("a").provide(layer))

    assert peer.bodies == [{"model": MODEL, "input": ["a"], "dimensions": 1, "user": "ann"}]
    assert str(peer.requests[0].url) == "http://127.0.0.1:9/v1/embeddings"
    assert "authorization" not in peer.requests[0].headers


def test_a_request_has_as_many_texts_as_allowed() -> None:
    """More are sent in several requests; the tokens are added."""
    peer = Peer(_reply([1.0], [2.0]), _reply([3.0]))
    found = fx.run(EmbeddingModel.embed_many("abc").provide(peer.layer(most=2)))

    assert found == Embeddings(((1.0,), (2.0,), (3.0,)), Usage(input_tokens=10))
    assert [body["input"] for body in peer.bodies] == [["a", "b"], ["c"]]


def test_a_request_needs_room_for_a_text() -> None:
    """A limit of nothing is a mistake of the program."""
    with pytest.raises(ValueError, match="at least 1"):
        embedding_layer(MODEL, most=0)


def test_a_request_may_have_one_text() -> None:
    """The least that a limit may say: each text is a request of its own."""
    peer = Peer(_reply([1.0]), _reply([2.0]))
    found = fx.run(EmbeddingModel.embed_many("ab").provide(peer.layer(most=1)))

    assert found.vectors == ((1.0,), (2.0,))
    assert [body["input"] for body in peer.bodies] == [["a"], ["b"]]


@pytest.mark.parametrize("name", [None, ""])
def test_a_layer_without_a_name_says_who_needs_one(name: str | None) -> None:
    """The failure names the provider and what was being done, and nothing is asked."""
    peer = Peer()
    error: AiError = fx.run_result(EmbeddingModel.embed("a").provide(peer.layer(name))).failure()

    assert (error.module, error.method) == ("openai", "embedding_layer")
    assert error.reason == ModelUnavailableError(
        "(unnamed)", "unknown-model", 'Name a model: "openai:text-embedding-3-small".'
    )
    assert peer.requests == []


def test_the_tokens_are_those_that_the_provider_counts() -> None:
    """An answer that counts none has none."""
    assert read_embeddings(b'{"data": [{"embedding": [1]}]}').usage == Usage()
    assert read_embeddings(json.dumps(_reply([1])).encode()).usage == Usage(input_tokens=5)


def test_what_the_provider_refuses_is_a_reason(backend: Backend) -> None:
    """With the words of the body."""
    peer = Peer({"error": {"message": "too long", "param": "input"}}, status=400)
    reason = _reason(EmbeddingModel.embed("a").provide(peer.layer()), backend)

    assert isinstance(reason, InvalidRequestError)
    assert reason.description == "too long"


def test_a_broken_answer_is_a_reason(backend: Backend) -> None:
    """It is told as output that is invalid, and can be asked for again."""
    asked = EmbeddingModel.embed("a").provide(Peer({"data": [{"embedding": {}}]}).layer())
    failure: AiError = fx.run_result(asked, backend=backend).failure()
    reason = failure.reason

    assert (failure.module, failure.method) == ("openai", "embed")
    assert isinstance(reason, InvalidOutputError)
    assert reason.description.startswith("the answer is not a list of embeddings")


def test_no_name_and_no_key_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """When the layer is built, with what to do."""
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)
    nameless = _reason(EmbeddingModel.embed("a").provide(embedding_from_name("openai")))
    keyless = _reason(EmbeddingModel.embed("a").provide(embedding_from_name(f"openai:{MODEL}")))

    assert isinstance(nameless, ModelUnavailableError)
    assert "text-embedding-3-small" in nameless.description
    assert isinstance(keyless, AuthenticationError)
    assert (keyless.kind, "OPENAI_API_KEY" in keyless.description) == ("MissingKey", True)


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("nowhere:x", "unknown provider 'nowhere'. Use one of: local, openai"),
        ("anthropic:x", "provider 'anthropic' has no embedding models. Use one of: local, openai"),
    ],
)
def test_a_name_of_no_model_that_embeds_is_a_reason(name: str, said: str) -> None:
    """It says which providers have some."""
    assert _reason(EmbeddingModel.embed("a").provide(embedding_from_name(name))) == ModelUnavailableError(
        name, "unknown-model", said
    )


def test_vectors_stand_where_their_numbers_say() -> None:
    """Whatever order they came in; a server that numbers none gives them in order."""
    shuffled = {"data": [{"index": 1, "embedding": [2]}, {"index": 0, "embedding": [1]}]}
    plain = {"data": [{"embedding": [1]}, {"embedding": [2]}]}

    assert [read_embeddings(json.dumps(said).encode()).vectors for said in (shuffled, plain)] == [((1.0,), (2.0,))] * 2


def test_base64_is_read_as_numbers() -> None:
    """Some servers write 32-bit floats, little-endian, in base64."""
    text = b64encode(struct.pack("<3f", 1.0, -0.5, 0.25)).decode()

    assert read_embeddings(json.dumps(_reply(text)).encode()).vectors == ((1.0, -0.5, 0.25),)


@every(
    ("reply", "said"),
    [
        (b"no", "not a list of embeddings"),
        (b"\xff", "not a list of embeddings"),
        (b'{"data": [{"embedding": [1, null]}]}', "not a list of embeddings"),
        (b'{"data": [{"index": 1, "embedding": [1]}]}', "must be unique numbers from 0"),
        (
            b'{"data": [{"index": 0, "embedding": [1]}, {"index": 0, "embedding": [1]}]}',
            "must be unique numbers from 0",
        ),
        (b'{"data": [{"embedding": "?"}]}', "must be numbers or base64"),
        (b'{"data": [{"embedding": "AAA="}]}', "must be numbers or base64"),
        (b'{"error": {"message": "Slow down.", "code": "rate_limit_exceeded"}}', "Slow down."),
    ],
)
def test_what_is_no_answer_is_an_error(reply: bytes, said: str) -> None:
    """Text, holes, wrong numbers, and an error in place of an answer."""
    with pytest.raises(ReplyError, match=said):
        read_embeddings(reply)
