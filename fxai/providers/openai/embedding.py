"""OpenAI's embeddings as a service: texts as vectors, by the API `/embeddings`, which most compatible servers have too.

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
from fxai.providers.http.client import Answer, Client
from fxai.providers.openai.model import MODULE, AccountOptions, open_account
from fxai.providers.openai.reply import ReplyError, failure_of, form_error
from fxai.schema.data import JSON_ERRORS

MOST_TEXTS: Final = 2048
"""The most texts that OpenAI takes in one request."""


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
    """What is sent for these texts: a pure function.

    Args:
        texts: The texts; OpenAI takes none that is empty or has more than 8,192 tokens, and 300,000 tokens in all.
        model: The model's name.
        dimensions: How many the vectors are to have; None: as many as the model gives.
        user: The end user on whose behalf it asks, for OpenAI's watch on abuse.
    """
    fields = {"model": model, "input": list(texts), "dimensions": dimensions, "user": user}
    return {name: value for name, value in fields.items() if value is not None}


def read_embeddings(reply: bytes) -> Embeddings:
    """The vectors of an answer, in the order of the texts, whatever order they came in.

    Raises:
        ReplyError: It is not what the API answers, or it is an error.
    """
    try:
        answer = msgspec.json.decode(reply, type=_Reply)
    except JSON_ERRORS as error:
        raise form_error(f"the answer is no list of embeddings: {error}") from None
    if answer.error:
        raise failure_of(answer.error)
    places = [at if item.index is None else item.index for at, item in enumerate(answer.data)]
    if sorted(places) != list(range(len(places))):
        raise form_error(f"the embeddings are not numbered from 0 on, each once: {places[:20]}", "/data")

    in_order = sorted(zip(places, answer.data, strict=True), key=lambda pair: pair[0])
    usage = Usage(input_tokens=answer.usage.prompt_tokens) if answer.usage is not None else Usage()
    return Embeddings(tuple(_vector(at, item.embedding) for at, item in in_order), usage)


def _vector(at: int, vector: Vector | str) -> Vector:
    """The vector as numbers, also where a server writes it as 32-bit floats in base64."""
    if not isinstance(vector, str):
        return vector
    try:
        data = b64decode(vector, validate=True)
        return struct.unpack(f"<{len(data) // 4}f", data)
    except (ValueError, struct.error) as error:
        raise form_error(
            f"the embedding is neither numbers nor base64 of them: {error}", f"/data/{at}/embedding"
        ) from None


@final
class OpenAIEmbeddingModel(EmbeddingModel):
    """A model of OpenAI's, or of a compatible server, that embeds texts; `embedding_layer` makes one.

    Args:
        client: What sends its requests.
        name: The model's name there.
        dimensions: How many its vectors are to have.
        user: The end user on whose behalf it asks.
        most: The most texts of one request.
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
        """The model's name."""

    @property
    @override
    def info(self) -> ModelInfo:
        """Its name, and the server that it is asked of."""
        return ModelInfo("openai", self.name, *self._client.server)

    @property
    @override
    def most(self) -> int:
        return self._most

    @override
    def ask(self, texts: tuple[str, ...]) -> Effect[Embeddings, AiError]:
        """The vectors of these texts, in one request.

        Fails with:
            AiError: The provider refuses it or cannot be reached, or its answer is none.
        """
        fields = prepare_embedding(texts, model=self.name, dimensions=self._dimensions, user=self._user)

        def read(answer: Answer) -> Effect[Embeddings, AiError]:
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
    """The layer of a model of OpenAI's that embeds, or of a server that has the same API. Needs the extra `openai`.

    Args:
        model: The model's name, such as `"text-embedding-3-small"`.
        dimensions: How many the vectors are to have, from `text-embedding-3` on; None: as many as the model gives.
        user: The end user on whose behalf it asks, for OpenAI's watch on abuse.
        most: The most texts of one request; take fewer where long texts would pass 300,000 tokens together.
        connection: The key, the address, the timeouts and the like; see `AccountOptions`.

    Fails with:
        AiError: `AuthenticationError("MissingKey")`; `ModelUnavailableError`: no model is named, or the extra is not
            installed; `NetworkError("InvalidUrlError")`.

    Raises:
        ValueError: `most` is less than 1.
    """
    if most < 1:
        raise ValueError(f"most is {most}: a request has at least 1 text")
    account = open_account(**connection)

    def make(client: Client) -> EmbeddingModel:
        return OpenAIEmbeddingModel(client, model or "", dimensions=dimensions, user=user, most=most)

    nameless = ModelUnavailableError("(unnamed)", "unknown-model", 'say which, as in "openai:text-embedding-3-small"')
    failure = fx.fail(AiError(MODULE, "embedding_layer", nameless))
    return Layer.scoped(EmbeddingModel, account.map(make) if model else failure)
