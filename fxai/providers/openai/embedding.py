"""OpenAI's embeddings as a service. Use `embedding_layer` with OpenAI or a compatible server to embed strings.

>>> prepare_embedding(("Hello", "Good day"), model="text-embedding-3-small", dimensions=256)
{'model': 'text-embedding-3-small', 'input': ['Hello', 'Good day'], 'dimensions': 256}
>>> read_embeddings(b'{"data": [{"index": 1, "embedding": [0, 1]}, {"index": 0, "embedding": [1, 0]}]}').vectors
((1.0, 0.0), (0.0, 1.0))
"""

from __future__ import annotations

import struct
from base64 import b64decode
from typing import Any, Final, final

import msgspec
from typing_extensions import Unpack, override

from fxai.effects import fx
from fxai.effects.effect import Effect
from fxai.effects.layer import Layer
from fxai.messages.errors import AiError
from fxai.messages.part import Usage
from fxai.messages.reason import ModelUnavailableError
from fxai.models.embedding_model import EmbeddingModel, Embeddings, Vector
from fxai.models.model_info import ModelInfo
from fxai.providers.http.client import Client, HttpResponse
from fxai.providers.http.reply import ReplyError, failure_of, form_error
from fxai.providers.openai.account import MODULE, AccountOptions, open_account
from fxai.schema.data import JSON_ERRORS

MOST_TEXTS: Final = 2048
"""The maximum number of strings that OpenAI accepts in one request."""


class _Item(msgspec.Struct):
    embedding: Vector | str
    index: int | None = None


class _Tokens(msgspec.Struct):
    prompt_tokens: int | None = None


class _Reply(msgspec.Struct):
    data: list[_Item] = []
    usage: _Tokens | None = None
    error: Any = None


def prepare_embedding(
    texts: tuple[str, ...], *, model: str, dimensions: int | None = None, user: str | None = None
) -> dict[str, Any]:
    """Return the fields of a request for these strings. This function is pure.

    Args:
        texts: The strings. OpenAI rejects an empty string and a string with more than 8,192 tokens. All strings
            together can have 300,000 tokens.
        model: The name of the model.
        dimensions: The number of dimensions of the vectors. By default the number of the model.
        user: The end user of the request, for OpenAI's monitoring of abuse.
    """
    fields = {"model": model, "input": list(texts), "dimensions": dimensions, "user": user}
    return {name: value for name, value in fields.items() if value is not None}


def read_embeddings(reply: bytes) -> Embeddings:
    """Return the vectors of an answer in the order of the strings. The answer can have another order.

    Raises:
        ReplyError: If the body is not an answer of the API, or if it is an error.
    """
    try:
        answer = msgspec.json.decode(reply, type=_Reply)
    except JSON_ERRORS as error:
        raise form_error(f"the answer is not a list of embeddings: {error}") from None
    if answer.error:
        raise failure_of(answer.error)
    locations = [at if item.index is None else item.index for at, item in enumerate(answer.data)]
    if sorted(locations) != list(range(len(locations))):
        raise form_error(f"indices of the embeddings must be unique numbers from 0, got {locations[:20]}", "/data")

    in_order = sorted(zip(locations, answer.data, strict=True), key=lambda pair: pair[0])
    usage = Usage(input_tokens=answer.usage.prompt_tokens) if answer.usage is not None else Usage()
    vectors: list[Vector] = []
    for at, item in in_order:
        if not isinstance(item.embedding, str):
            vectors.append(item.embedding)
            continue
        try:  # some servers send 32-bit floats in base64
            data = b64decode(item.embedding, validate=True)
            vectors.append(struct.unpack(f"<{len(data) // 4}f", data))
        except (ValueError, struct.error) as error:
            problem = f"the embedding must be numbers or base64 of numbers: {error}"
            raise form_error(problem, f"/data/{at}/embedding") from None
    return Embeddings(tuple(vectors), usage)


@final
class OpenAIEmbeddingModel(EmbeddingModel):
    """An embedding model of OpenAI or of a compatible server. Create it with `embedding_layer`.

    Args:
        client: The client that sends the requests.
        name: The model's name on the server.
        dimensions: The number of dimensions of the vectors.
        user: The end user of the requests.
        most: The maximum number of strings in one request.
    """

    def __init__(
        self,
        client: Client,
        name: str,
        *,
        dimensions: int | None = None,
        user: str | None = None,
        most: int = MOST_TEXTS,
    ) -> None:
        self._client = client
        self._dimensions = dimensions
        self._user = user
        self._most = most
        self.name = name
        """The name of the model."""

    @property
    @override
    def info(self) -> ModelInfo:
        """The name of the model and its server."""
        return ModelInfo("openai", self.name, *self._client.server)

    @property
    @override
    def most(self) -> int:
        return self._most

    @override
    def ask(self, texts: tuple[str, ...]) -> Effect[Embeddings, AiError]:
        """Embed these strings with one request and return their vectors.

        Fails with:
            AiError: If the provider rejects the request or is unreachable, or if its answer is invalid.
        """
        fields = prepare_embedding(texts, model=self.name, dimensions=self._dimensions, user=self._user)

        def read(answer: HttpResponse) -> Effect[Embeddings, AiError]:
            try:
                return fx.succeed(read_embeddings(answer.body))
            except ReplyError as error:
                return fx.fail(self._client.redact(AiError(MODULE, "embed", error.reason)))

        return self._client.post("/embeddings", msgspec.json.encode(fields), method="embed").flat_map(read)


def embedding_layer(
    model: str | None = None,
    *,
    dimensions: int | None = None,
    user: str | None = None,
    most: int = MOST_TEXTS,
    **connection: Unpack[AccountOptions],
) -> Layer[EmbeddingModel, AiError]:
    """Return the layer of an embedding model of OpenAI or of a server with the same API.

    The layer requires the extra `openai`.

    Args:
        model: The name of the model, such as `"text-embedding-3-small"`.
        dimensions: The number of dimensions of the vectors, from `text-embedding-3` on. By default the number of the
            model.
        user: The end user of the requests, for OpenAI's monitoring of abuse.
        most: The maximum number of strings in one request. Decrease it if long strings exceed 300,000 tokens together.
        connection: The key, the address, the timeouts, and other settings. See `AccountOptions`.

    Fails with:
        AiError: `AuthenticationError("MissingKey")`. `NetworkError("InvalidUrlError")`. `ModelUnavailableError` if
            `model` is missing or the extra is not installed.

    Raises:
        ValueError: If `most` is less than 1.
    """
    if most < 1:
        raise ValueError(f"most must be at least 1, got {most}")
    account = open_account(**connection)

    def make(client: Client) -> EmbeddingModel:
        return OpenAIEmbeddingModel(client, model or "", dimensions=dimensions, user=user, most=most)

    nameless = ModelUnavailableError("(unnamed)", "unknown-model", 'Name a model: "openai:text-embedding-3-small".')
    failure = fx.fail(AiError(MODULE, "embedding_layer", nameless))
    return Layer.scoped(EmbeddingModel, account.map(make) if model else failure)
