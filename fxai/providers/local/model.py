"""Local models as services: layers that load a language or embedding model in this process until their scope ends.

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
from fxai.providers.local.failure import LocalError
from fxai.providers.local.grammar import Bounds
from fxai.providers.local.turn import Turn, reading, warnings_of
from fxai.providers.local.weights import OnProgress, assemble, check_file

_MODULE: Final = "local"


@final
class LocalModel(LanguageModel):
    """A model in this process that answers turn by turn; `layer` makes one."""

    def __init__(self, engine: Engine, bounds: Bounds) -> None:
        self._engine = engine
        self._bounds = bounds

    @property
    def name(self) -> str:
        """The model's name: what its file says, else the file's name."""
        return self._engine.name

    @property
    @override
    def info(self) -> ModelInfo:
        """Its name; no server is asked."""
        return ModelInfo("local", self.name)

    @override
    def ask(self, request: ModelRequest) -> Effect[tuple[Part, ...], AiError]:
        """The model's turn, whole: one tool call, or an answer.

        Fails with:
            AiError: The request cannot be kept (its schema, its files, its tool choice), or the context is full.
        """
        return self._parts(request, "ask").collect().map(lambda parts: Response.from_stream(parts).content)

    @override
    def ask_stream(self, request: ModelRequest) -> Stream[StreamPart, AiError]:
        """The same turn, part by part; a reader that stops early stops the model between two tokens. Fails as `ask`."""
        return self._parts(request, "ask_stream")

    @override
    def count(self, request: ModelRequest) -> Effect[TokenCount, AiError]:
        """The tokens that a turn reads which answers in words, by the model's own tokenizer; nothing is generated.

        They are those of the prompt of the answer and, where there are tools, of the choice among them. A turn that
        calls a tool reads the prompt for its parameters instead of the answer's.

        Fails with:
            AiError: The tool choice names a tool that there is none of; llama.cpp failed.
        """

        async def count() -> TokenCount:
            tokens = await self._engine.count(reading(request, speaks_chat=self._engine.speaks_chat))
            return TokenCount(tokens, "tokenizer", tuple(warnings_of(request)))

        return fx.attempt_async(count, lambda error: to_ai_error(error, "count"))

    def _parts(self, request: ModelRequest, method: str) -> Stream[StreamPart, AiError]:
        def body(channel: Channel[StreamPart]) -> Effect[None, AiError]:
            turn = Turn(self._engine, request, channel.offer, self._bounds)
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
    verbose: bool = False,
) -> Layer[LanguageModel, AiError]:
    """The layer of a language model that runs in this process, with no network and no key. Needs the extra `local`.

    It is loaded when the layer is built and released with its scope; runs share it. Nothing is imported or read before.

    Args:
        model: The path of a GGUF file, also as ``local:/path``; None for the default weights, which are assembled
            into the user's cache the first time (about 250 MB; `FXAI_CACHE` names another place).
        sha256: What the file must have as its SHA-256, in hex; the default weights have theirs in the code.
        context: Tokens that prompt and answer of one run have room for.
        threads: Threads that compute; by default half of the processors that this process may use, 1 to 8.
        parallel: Runs that are served at once; others wait. Each has the whole context.
        progress: Hears how far assembling, checking and loading are, in bytes. Called from a worker thread.
        bounds: Where replies end although their schema would let them go on.
        chat_template: A Jinja template for plain answers in place of the file's own.
        verbose: Whether llama.cpp writes its log to stderr.

    Fails with:
        AiError: `ModelUnavailableError`: a package or the file is missing, has another checksum or cannot be loaded.
    """
    setting = Setting(context, threads, parallel, verbose, chat_template)

    @fx.gen
    def load_model() -> Gen[LanguageModel, AiError, Scope]:
        engine = yield from open_engine(model, setting, sha256, progress, "layer")
        return LocalModel(engine, bounds or Bounds())

    return Layer.scoped(LanguageModel, load_model())


def open_engine(
    model: str | Path | None, setting: Setting, sha256: str | None, progress: OnProgress | None, method: str
) -> Effect[Engine, AiError, Scope]:
    """The loaded model of a layer, released with the scope; arguments and failures as `layer`."""

    async def load() -> Engine:
        path = await in_thread(lambda: _find_file(model, sha256, progress))
        return await Engine.load(path, setting, progress)

    loading = fx.attempt_async(load, lambda error: to_ai_error(error, method))
    return fx.acquire_release(loading, lambda held: fx.wait(held.close))


def _find_file(model: str | Path | None, sha256: str | None, on_progress: OnProgress | None) -> Path:
    if model is None or str(model) in ("", "local:"):
        return assemble(on_progress=on_progress)
    return check_file(Path(str(model).removeprefix("local:")).expanduser(), sha256=sha256, on_progress=on_progress)


def to_ai_error(error: Any, method: str) -> AiError | None:
    """The typed failure of an exception; None for a defect."""
    return AiError(_MODULE, method, error.reason) if isinstance(error, LocalError) else None


@final
class LocalEmbeddingModel(EmbeddingModel):
    """A model in this process that embeds texts, one after another; `embedding_layer` makes one."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    @property
    def name(self) -> str:
        """The model's name: what its file says, else the file's name."""
        return self._engine.name

    @override
    def ask(self, texts: tuple[str, ...]) -> Effect[Embeddings, AiError]:
        """The vectors of these texts, each of length 1. A run that is cancelled stops between two texts.

        Fails with:
            AiError: `ContextOverflowError`: a text is longer than the context; `InternalProviderError`.
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
    """The layer of a model that embeds in this process, with no network and no key. Needs the extra `local`.

    The default weights are those of the default language model. llama.cpp embeds in a context of its own, so beside a
    `layer` of the same file it loads once more; but it maps the file, whose pages in memory are then the same, so that
    this takes about 85 MB and not the file's 250 again. They were made to write and not to embed: near texts do come
    out nearer than far ones, which is enough to try a program. For retrieval that people rely on, give the file of a
    model that was made for it.

    Args:
        model: The path of a GGUF file, also as ``local:/path``; None for the default weights, as of `layer`.
        sha256: What the file must have as its SHA-256, in hex.
        context: The tokens that a text may have. Memory grows with it: about 1 MB for each with the default weights.
        threads: Threads that compute; by default half of the processors that this process may use, 1 to 8.
        pooling: Which vector stands for a text; None: as the file says, else the mean of its tokens'.
        progress: Hears how far assembling, checking and loading are, in bytes. Called from a worker thread.
        verbose: Whether llama.cpp writes its log to stderr.

    Fails with:
        AiError: `ModelUnavailableError`: a package or the file is missing, has another checksum or cannot be loaded.
    """
    setting = Setting(context, threads, verbose=verbose, embedding=True, pooling=pooling)

    @fx.gen
    def load_model() -> Gen[EmbeddingModel, AiError, Scope]:
        return LocalEmbeddingModel((yield from open_engine(model, setting, sha256, progress, "embedding_layer")))

    return Layer.scoped(EmbeddingModel, load_model())
