"""Services and layers of local models. A layer loads a language or embedding model until its scope ends.

In a turn, `LocalTurn` chooses a tool, fills its parameters, or answers, and streams the parts.

>>> local, embedding = layer("tiny.gguf", context=1024), embedding_layer("tiny.gguf", context=512)
>>> type(local).__name__, type(embedding).__name__
('LayerOf', 'LayerOf')
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from functools import lru_cache
from pathlib import Path
from typing import Any, Final, TypeAlias, final

import msgspec
from returns.result import Failure, Result
from typing_extensions import override

from fxai.effects import fx
from fxai.effects.effect import Effect, Gen
from fxai.effects.layer import Layer
from fxai.effects.pull import Channel
from fxai.effects.scope import Scope
from fxai.effects.stream import Stream, StreamOf
from fxai.effects.thread import in_thread
from fxai.messages.errors import AiError
from fxai.messages.part import (
    Finish,
    FinishReason,
    Part,
    ResponseMetadata,
    StreamPart,
    TextDelta,
    TextEnd,
    TextStart,
    ToolCall,
    ToolParamsDelta,
    ToolParamsEnd,
    ToolParamsStart,
    Usage,
    WarningPart,
)
from fxai.messages.reason import (
    ContextOverflowError,
    InvalidOutputError,
    InvalidRequestError,
    InvalidUserInputError,
    StructuredOutputError,
    UnsupportedSchemaError,
)
from fxai.messages.response import Response
from fxai.models.embedding_model import EmbeddingModel, Embeddings
from fxai.models.history_form import mend_request
from fxai.models.language_model import LanguageModel
from fxai.models.model_info import ModelInfo
from fxai.models.model_request import ModelRequest, ToolChoice, ToolChoices
from fxai.models.token_count import TokenCount
from fxai.providers.local import recipe
from fxai.providers.local.engine import Completed, Completion, Engine, OnText, Pooling, Prompt, Setting
from fxai.providers.local.grammar import Bounds, Grammar, GrammarFailure, choice_grammar, grammar
from fxai.providers.local.recipe import Candidate, ModelInput, clauses, conversation, narrow
from fxai.providers.local.weights import LocalError, OnProgress, assemble, check_file
from fxai.schema.json_schema import JsonSchema
from fxai.tools.tool import AnyTool, Tool

Emit: TypeAlias = "Callable[[StreamPart], None]"
"""A function that receives each part, in the event loop."""

_ONE_LINE: Final = r'root ::= " " [^ \n] [^\n]{0,400} "\n"'
_TEMPERATURES: Final = (None, 0.7, 1.0)
_CHARACTERS_A_TOKEN: Final = 3


@final
class Wanted(msgspec.Struct, frozen=True):
    """The tools that a turn can call, and whether it must call a tool."""

    names: tuple[str, ...]
    forced: bool = False

    @staticmethod
    def of(names: tuple[str, ...], choice: ToolChoices) -> Wanted:
        """Return the names that ``choice`` permits. Raises `LocalError` if it requires an unknown tool."""
        if choice == "none":
            return Wanted(())
        if choice == "auto":
            return Wanted(names)

        asked, mode = (choice.names, choice.mode) if isinstance(choice, ToolChoice) else (names, "required")
        unknown = [name for name in asked if name not in names]
        if unknown or not asked:
            problem = (
                f"must be a tool of the request ({', '.join(names) or 'none'}), got {', '.join(unknown) or 'none'}"
            )
            raise LocalError(InvalidRequestError(parameter="tool_choice", constraint=problem))
        return Wanted(asked, forced=mode != "auto")


@final
class LocalTurn:
    """A turn of a request. It passes the parts of the answer to `emit`."""

    def __init__(
        self, engine: Engine, request: ModelRequest, emit: Emit, bounds: Bounds, *, quotes_results: bool = False
    ) -> None:
        self.engine = engine
        self.quotes_results = quotes_results
        self.request: ModelRequest
        self.mended: tuple[WarningPart, ...]
        self.request, self.mended = mend_request(request)
        self.emit = emit
        self.bounds = bounds
        self.usage: Usage = Usage()
        self.talk: ModelInput = conversation(self.request.prompt.messages)
        self.tools: dict[str, AnyTool] = {
            tool.name: tool for tool in request.tools if not Tool.is_provider_defined(tool)
        }
        self.schemas: dict[str, dict[str, Any]] = {name: tool.json_schema() for name, tool in self.tools.items()}

    async def run(self) -> None:
        """Run the turn. Raises `LocalError`. The parts that the turn emitted before the error remain valid."""
        _refuse_files(self.talk)
        wanted = Wanted.of(tuple(self.tools), self.request.tool_choice)
        grammars = {name: self._grammar(f"tool {name!r}", self.schemas[name]) for name in wanted.names}
        answer = self.request.response_schema
        shape = None if answer is None else self._grammar("response schema", answer.to_dict())

        for warning in (*self.mended, *warnings_of(self.request, self.talk.noted)):
            self.emit(warning)
        self.emit(ResponseMetadata(secrets.token_hex(8), self.engine.name, datetime.now(UTC)))
        chosen, problem = await self._choose(wanted)
        if chosen is not None:
            reason = await self._call(chosen, problem, grammars[chosen.name])
        elif shape is not None and answer is not None:
            speaking = _Speaking(self.emit)
            done, value = await self._json(recipe.structuring(self.talk), shape, answer.to_dict(), speaking)
            speaking.end()
            if isinstance(value, _Wrong) and done.ended != "length":
                raise LocalError(StructuredOutputError(done.text.strip(), value.pointer, value.problem))
            reason = done.ended
        elif self.quotes_results and self.talk.current.calls:
            speaking = _Speaking(self.emit)
            speaking("\n".join(call.result for call in self.talk.current.calls if call.result))
            speaking.end()
            reason = "stop"
        else:
            reason = await self._answer()
        self.emit(Finish(reason, self.usage))

    def _grammar(self, what: str, schema: Mapping[str, Any] | bool) -> Grammar:
        compiled = _cached_grammar(json.dumps(schema), self.bounds)
        if isinstance(compiled, Failure):
            wrong = compiled.failure()
            problem = f"{what}: {wrong.why}"
            raise LocalError(UnsupportedSchemaError(problem, pointer=wrong.pointer, keyword=wrong.keyword))
        return compiled.unwrap()

    # -- choosing

    async def _choose(self, wanted: Wanted) -> tuple[Candidate | None, str]:
        """Return the tool to call, or None, and the part of the request for this tool.

        The model reads the parts of a request one by one. After a result, the turn can call only a tool without an
        earlier call, and only if the request has another part. Without this rule, a model that repeats itself would
        never answer.
        """
        request, calls = self.talk.current.request, self.talk.current.calls
        candidates = [_candidate(self.tools[name]) for name in wanted.names]
        if not candidates:
            return None, request
        if wanted.forced:
            return (
                candidates[0] if len(candidates) == 1 else await self._choose_among(candidates, request, ())
            ), request
        called = {call.name for call in calls}
        parts = clauses(request) or (request,)
        if called.issuperset(wanted.names) or (calls and len(parts) <= len(called)):
            return None, request
        for problem in parts:
            chosen = await self._choose_among(candidates, problem, (recipe.no_tool(candidates),))
            if chosen is not None and chosen.name not in called:
                return chosen, problem if calls else request
        return None, request

    async def _choose_among(
        self, candidates: Sequence[Candidate], problem: str, others: tuple[str, ...]
    ) -> Candidate | None:
        names = (*(emit.name for emit in candidates), *others)
        prompt = recipe.choosing(candidates, problem, self.talk.past)
        task = Completion(prompt, most=256, grammar=choice_grammar(names).text)
        done = await self._complete(task)
        return next((emit for emit in candidates if emit.name == done.text.strip()), None)

    # -- calling

    async def _call(self, chosen: Candidate, problem: str, held: Grammar) -> FinishReason:
        id_, dynamic = f"call_{secrets.token_hex(8)}", Tool.is_dynamic(self.tools[chosen.name])
        schema = self.schemas[chosen.name]
        self.emit(ToolParamsStart(id_, chosen.name, dynamic=dynamic))
        prompt = recipe.filling(chosen, problem, schema, self.talk.past)
        if not self.engine.speaks_chat:  # the examples and the request can permit fewer values
            held = grammar(narrow(schema, problem, chosen.requests), self.bounds).value_or(held)
        done, params = await self._json(prompt, held, schema, lambda delta: self.emit(ToolParamsDelta(id_, delta)))
        self.emit(ToolParamsEnd(id_))
        if done.ended == "length":
            return "length"
        if isinstance(params, _Wrong):
            raise LocalError(InvalidOutputError(f"parameters of {chosen.name!r}: {params.problem}", params.pointer))
        self.emit(ToolCall(id_, chosen.name, params, dynamic=dynamic))
        return "tool-calls"

    async def _json(
        self, prompt: str, held: Grammar, schema: Mapping[str, Any] | bool, on_text: OnText
    ) -> tuple[Completed, Any]:
        """Generate JSON and return its value. If the grammar is loose, emit the text only after validation."""
        done = Completed("", "length", Usage())
        value: Any = None
        for temperature in _TEMPERATURES if held.loose else (None,):
            done = await self._complete(
                Completion(
                    prompt,
                    most=self._most(),
                    grammar=held.after(" ").text,
                    temperature=self.request.temperature or 0.0 if temperature is None else temperature,
                    seed=None if temperature is None else 7,
                ),
                None if held.loose else _without_leading_blank(on_text),
            )
            value = None if done.ended == "length" else json.loads(done.text)
            faults = () if done.ended == "length" else JsonSchema.of(schema).validate(value)
            if faults:
                value = _Wrong(faults[0].pointer, "; ".join(map(str, faults)))
            if not isinstance(value, _Wrong):
                break
        if held.loose and not isinstance(value, _Wrong):
            on_text(done.text.strip())
        return done, value

    # -- answering

    async def _answer(self) -> FinishReason:
        speaking = _Speaking(self.emit)
        most, temperature = self._most(), self.request.temperature or 0.0
        while True:
            self._fit()
            prompt = _prompt_of(self.talk, speaks_chat=self.engine.speaks_chat)
            if self.engine.speaks_chat:
                task = Completion(prompt, most, None, self.request.stop, temperature)
            else:
                task = Completion(prompt, most, _ONE_LINE, ("\n", *self.request.stop), temperature, once=True)
            try:
                return (await self._complete(task, _without_leading_blank(speaking))).ended
            except LocalError as failure:
                shorter = self.talk.shorter()
                if not isinstance(failure.reason, ContextOverflowError) or shorter is None or speaking.began:
                    raise
                self.talk = shorter
            finally:
                speaking.end()

    def _fit(self) -> None:
        """Drop the oldest exchanges until the conversation and an answer probably fit the context."""
        space = (self.engine.setting.context * 3 // 4) * _CHARACTERS_A_TOKEN
        while sum(len(text) for _, text in recipe.prose(self.talk)) > space:
            shorter = self.talk.shorter()
            if shorter is None:
                return
            self.talk = shorter

    def _most(self) -> int:
        """Return the maximum number of tokens that this turn can write."""
        asked = self.request.max_tokens
        return self.engine.setting.context if asked is None else asked

    async def _complete(self, task: Completion, on_text: OnText | None = None) -> Completed:
        done = await self.engine.complete(task, on_text)
        self.usage = self.usage + done.usage
        return done


def _refuse_files(talk: ModelInput) -> None:
    if talk.left_out:
        problem = f"this model reads only text, and the prompt contains files: {', '.join(talk.left_out)}. Remove them."
        raise LocalError(InvalidUserInputError(problem))


def _prompt_of(talk: ModelInput, *, speaks_chat: bool) -> Prompt:
    """Return the prompt that the model continues to answer in prose."""
    if speaks_chat:
        return recipe.prose(talk)
    return recipe.answering(talk) if talk.current.calls else recipe.talking(talk)


def reading(request: ModelRequest, *, speaks_chat: bool) -> list[Prompt]:
    """Return the prompts of a turn that ends with an answer: the prompts to choose a tool, and the answer's prompt.

    Raises `LocalError` if the prompt contains files or if the tool choice requires an unknown tool.
    """
    talk = conversation(mend_request(request)[0].prompt.messages)
    _refuse_files(talk)
    tools = {tool.name: tool for tool in request.tools if not Tool.is_provider_defined(tool)}
    wanted = Wanted.of(tuple(tools), request.tool_choice)
    candidates = [_candidate(tools[name]) for name in wanted.names]
    prompts: list[Prompt] = []
    if len(candidates) > wanted.forced:  # a single required tool needs no choice
        prompts += [
            recipe.choosing(candidates, problem, talk.past) for problem in clauses(talk.current.request) or ("",)
        ]
    structured = request.response_schema is not None
    return [*prompts, recipe.structuring(talk) if structured else _prompt_of(talk, speaks_chat=speaks_chat)]


@final
class _Wrong(msgspec.Struct, frozen=True):
    """The location of a validation error in a value, and its message."""

    pointer: str
    problem: str


class _Speaking:
    """A text part that starts with its first piece."""

    def __init__(self, emit: Emit) -> None:
        self.emit = emit
        self.id = secrets.token_hex(8)
        self.began = False

    def __call__(self, delta: str) -> None:
        if not self.began:
            self.began = True
            self.emit(TextStart(self.id))
        self.emit(TextDelta(self.id, delta))

    def end(self) -> None:
        """End the part if it started."""
        if self.began:
            self.emit(TextEnd(self.id))


def _without_leading_blank(on_text: OnText) -> OnText:
    """Return a function that removes the leading blank of a completion and calls ``on_text``."""
    begun: list[bool] = []

    def hear(text: str) -> None:
        piece = text if begun else text.lstrip()
        if piece:
            begun.append(True)
            on_text(piece)

    return hear


@lru_cache(maxsize=256)
def _cached_grammar(schema: str, bounds: Bounds) -> Result[Grammar, GrammarFailure]:
    return grammar(json.loads(schema), bounds)


def _candidate(tool: AnyTool) -> Candidate:
    examples = tuple((example.request, example.parameters) for example in tool.input_examples)
    return Candidate(tool.name, tool.description or "", examples)


def warnings_of(request: ModelRequest, files: tuple[str, ...] = ()) -> list[WarningPart]:
    """Return warnings for the unsupported options of a request and for the media types of files in results."""
    found: list[WarningPart] = []
    if request.reasoning not in (None, "none"):
        found.append(_option_warning("reasoning", "this model does not reason before it answers"))
    if request.parallel_tool_calls:
        found.append(_option_warning("parallel_tool_calls", "this model calls one tool a turn"))
    if request.compact_at is not None:
        found.append(_option_warning("compact_at", "this model does not compact conversations"))
    for tool in request.tools:
        if Tool.is_provider_defined(tool):
            problem = f"tool {tool.name!r} was omitted: another provider runs it"
            found.append(WarningPart(problem, kind="unsupported-tool", subject=tool.name))
    reason = "in a tool result was omitted: this model reads only text"
    return [*found, *(WarningPart(f"a file ({kind}) {reason}") for kind in dict.fromkeys(files))]


def _option_warning(option: str, why: str) -> WarningPart:
    return WarningPart(f"{option} was ignored: {why}", kind="unsupported-option", subject=option)


# -- services and layers

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
