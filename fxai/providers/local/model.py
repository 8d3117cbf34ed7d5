"""Services and layers of local models. A layer loads a language or embedding model until its scope ends.

>>> local, embedding = layer("tiny.gguf", context=1024), embedding_layer("tiny.gguf", context=512)
>>> type(local).__name__, type(embedding).__name__
('LayerOf', 'LayerOf')
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final, final

from typing_extensions import override

from fxai.effects import fx
from fxai.effects.effect import Effect, Gen
from fxai.effects.layer import Layer
from fxai.effects.pull import Channel
from fxai.effects.scope import Scope
from fxai.effects.stream import Stream, StreamOf
from fxai.effects.thread import in_thread
from fxai.messages.errors import AiError
from fxai.messages.part import Part, StreamPart
from fxai.messages.response import Response
from fxai.models.embedding_model import EmbeddingModel, Embeddings
from fxai.models.language_model import LanguageModel
from fxai.models.model_info import ModelInfo
from fxai.models.model_request import ModelRequest
from fxai.models.token_count import TokenCount
from fxai.providers.local.engine import Engine, Pooling, Setting
from fxai.providers.local.grammar import Bounds
from fxai.providers.local.turn import LocalTurn, reading, warnings_of
from fxai.providers.local.weights import LocalError, OnProgress, assemble, check_file

_MODULE: Final = "local"


@final
class LocalModel(LanguageModel):
    """A model in this process that answers one turn at a time. Create it with `layer`."""

    def __init__(self, engine: Engine, bounds: Bounds, *, quotes_results: bool = False) -> None:
        self._engine = engine
        self._bounds = bounds
        self._quotes_results = quotes_results

    @property
    def name(self) -> str:
        """The name of the model from its file. By default the name of the file."""
        return self._engine.name

    @property
    @override
    def info(self) -> ModelInfo:
        """The name of the model. fxai needs no request to read it."""
        return ModelInfo("local", self.name)

    @override
    def ask(self, request: ModelRequest) -> Effect[tuple[Part, ...], AiError]:
        """Run one turn and return it whole: a tool call or an answer.

        Fails with:
            AiError: If the model cannot support the schema, the files, or the tool choice, or if the context is full.
        """
        return self._parts(request, "ask").collect().map(lambda parts: Response.from_stream(parts).content)

    @override
    def ask_stream(self, request: ModelRequest) -> Stream[StreamPart, AiError]:
        """Stream the parts of a turn. If the reader stops early, the model stops after a token. Fails like `ask`."""
        return self._parts(request, "ask_stream")

    @override
    def count(self, request: ModelRequest) -> Effect[TokenCount, AiError]:
        """Count the tokens that a turn with an answer reads, with the tokenizer of the model.

        The count includes the prompt of the answer. If the request has tools, it also includes the prompt to choose a
        tool. A turn that calls a tool reads the prompt for the tool's parameters instead of the answer's prompt.

        Fails with:
            AiError: If the tool choice names an unknown tool, or if llama.cpp failed.
        """

        async def count() -> TokenCount:
            tokens = await self._engine.count(reading(request, speaks_chat=self._engine.speaks_chat))
            return TokenCount(tokens, "tokenizer", tuple(warnings_of(request)))

        return fx.attempt_async(count, lambda error: to_ai_error(error, "count"))

    def _parts(self, request: ModelRequest, method: str) -> Stream[StreamPart, AiError]:
        def body(channel: Channel[StreamPart]) -> Effect[None, AiError]:
            turn = LocalTurn(self._engine, request, channel.offer, self._bounds, quotes_results=self._quotes_results)
            return fx.attempt_async(turn.run, lambda error: to_ai_error(error, method))

        return StreamOf.from_channel(body)


def layer(
    model: str | Path | None = None,
    *,
    sha256: str | None = None,
    context: int = 4096,
    threads: int | None = None,
    parallel: int = 1,
    progress: OnProgress | None = None,
    bounds: Bounds | None = None,
    chat_template: str | None = None,
    quotes_results: bool = False,
    verbose: bool = False,
) -> Layer[LanguageModel, AiError]:
    """Return the layer of a language model that runs in this process. It requires the extra `local`.

    The model needs no network and no key. fxai loads it when it builds the layer and releases it with the scope. Runs
    share the model. Before that, fxai imports nothing and reads nothing.

    Args:
        model: The path of a GGUF file, also as ``local:/path``. By default the default weights. The first use
            assembles them in the user's cache (about 250 MB). `FXAI_CACHE` sets another directory.
        sha256: The expected SHA-256 of the file, in hex. The code contains the checksum of the default weights.
        context: The maximum number of tokens of a run's prompt and answer together.
        threads: The number of computing threads. By default half of the processors available to the process, 1 to 8.
        parallel: The number of runs that the model serves concurrently. Other runs wait. Each run has the full context.
        progress: A function that receives the progress of assembling, checking, and loading, in bytes. fxai calls it
            from a worker thread.
        bounds: The limits of replies if the schema sets no limit.
        chat_template: A Jinja template for plain answers. It replaces the template of the file.
        quotes_results: True if an answer after tool calls consists of their results, unchanged. The model then only
            selects the tools and writes their arguments. A small model can misquote a result. Default: False.
        verbose: True if llama.cpp writes its log to stderr.

    Fails with:
        AiError: `ModelUnavailableError` if a package or the file is missing, if its checksum differs, or if the file
            cannot be loaded.
    """
    setting = Setting(context, threads, parallel, verbose, chat_template)

    @fx.gen
    def load_model() -> Gen[LanguageModel, AiError, Scope]:
        engine = yield from open_engine(model, setting, sha256, progress, "layer")
        return LocalModel(engine, bounds or Bounds(), quotes_results=quotes_results)

    return Layer.scoped(LanguageModel, load_model())


def open_engine(
    model: str | Path | None, setting: Setting, sha256: str | None, progress: OnProgress | None, method: str
) -> Effect[Engine, AiError, Scope]:
    """Load the model of a layer. The scope releases it. `layer` documents the arguments and failures."""

    async def load() -> Engine:
        name = str(model or "").removeprefix("local:")
        path = await in_thread(
            lambda: (
                check_file(Path(name).expanduser(), sha256=sha256, on_progress=progress)
                if name
                else assemble(on_progress=progress)
            )
        )
        return await Engine.load(path, setting, progress)

    loading = fx.attempt_async(load, lambda error: to_ai_error(error, method))
    return fx.acquire_release(loading, lambda held: fx.wait(held.close))


def to_ai_error(error: Any, method: str) -> AiError | None:
    """Return the typed failure of an exception, or None for a defect."""
    return AiError(_MODULE, method, error.reason) if isinstance(error, LocalError) else None


@final
class LocalEmbeddingModel(EmbeddingModel):
    """A model in this process that embeds strings, one after another. Create it with `embedding_layer`."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    @property
    def name(self) -> str:
        """The name of the model from its file. By default the name of the file."""
        return self._engine.name

    @override
    def ask(self, texts: tuple[str, ...]) -> Effect[Embeddings, AiError]:
        """Return the vectors of these strings, each of length 1. A cancelled run stops between two strings.

        Fails with:
            AiError: `ContextOverflowError` if a string is longer than the context. `InternalProviderError`.
        """

        async def embed() -> Embeddings:
            vectors, usage = await self._engine.embed(texts)
            return Embeddings(tuple(tuple(vector) for vector in vectors), usage)

        return fx.attempt_async(embed, lambda error: to_ai_error(error, "embed"))


def embedding_layer(
    model: str | Path | None = None,
    *,
    sha256: str | None = None,
    context: int = 512,
    threads: int | None = None,
    pooling: Pooling | None = None,
    progress: OnProgress | None = None,
    verbose: bool = False,
) -> Layer[EmbeddingModel, AiError]:
    """Return the layer of an embedding model that runs in this process. It requires the extra `local`.

    The model needs no network and no key. The default weights are the weights of the default language model. llama.cpp
    embeds in a separate context, so a `layer` and an `embedding_layer` of the same file load it twice. Both map the
    file and share its pages in memory. The second load therefore uses about 85 MB instead of 250 MB.

    The default model was trained to write, not to embed. Similar strings have closer vectors, which is enough to try a
    program. For reliable retrieval, use the file of an embedding model.

    Args:
        model: The path of a GGUF file, also as ``local:/path``. By default the default weights, as for `layer`.
        sha256: The expected SHA-256 of the file, in hex.
        context: The maximum number of tokens of a string. It determines the memory: about 1 MB for each token with the
            default weights.
        threads: The number of computing threads. By default half of the processors available to the process, 1 to 8.
        pooling: The method that computes the vector of a string. By default the method of the file, otherwise the mean
            of the tokens' vectors.
        progress: A function that receives the progress of assembling, checking, and loading, in bytes. fxai calls it
            from a worker thread.
        verbose: True if llama.cpp writes its log to stderr.

    Fails with:
        AiError: `ModelUnavailableError` if a package or the file is missing, if its checksum differs, or if the file
            cannot be loaded.
    """
    setting = Setting(context, threads, verbose=verbose, embedding=True, pooling=pooling)

    @fx.gen
    def load_model() -> Gen[EmbeddingModel, AiError, Scope]:
        return LocalEmbeddingModel((yield from open_engine(model, setting, sha256, progress, "embedding_layer")))

    return Layer.scoped(EmbeddingModel, load_model())
