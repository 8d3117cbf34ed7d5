"""The engine of local models. Use it to complete or embed strings with one loaded model, for several concurrent runs.

llama.cpp runs through the package `xllamacpp`. Only this module imports it, and only to load a model. The engine waits
in worker threads, so it supports asyncio and trio. A cancelled run stops between two tokens or between two pieces of
its prompt. Each failure is a `LocalError` with a reason.

>>> Completion("Once upon a time", most=16).temperature
0.0
"""

from __future__ import annotations

import os
import re
import secrets
import shutil
import socket
import sys
import tempfile
import threading
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from http.client import HTTPConnection, HTTPException
from importlib import import_module
from itertools import pairwise
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias, final

import anyio
import msgspec
from anyio import from_thread

from fxai.effects.cancellation import shield
from fxai.effects.thread import in_thread
from fxai.effects.waker import Home
from fxai.messages.part import Usage
from fxai.messages.reason import (
    ContextOverflowError,
    InternalProviderError,
    InvalidRequestError,
    ModelUnavailableError,
    Reason,
    UnsupportedSchemaError,
)
from fxai.providers.local.weights import Description, LocalError, OnProgress, Progress, read_description
from fxai.schema.data import JSON_ERRORS

_BATCH: Final = 128
_PROMPT_CACHE_MIB: Final = 256
_LONGEST_SOCKET: Final = 100
_COUNT_TIME: Final = 60.0  # maximum seconds to count tokens

Pooling: TypeAlias = Literal["mean", "cls", "last"]
"""The vector of a string: the mean of its tokens' vectors, the first token's vector, or the last token's vector."""

OnText: TypeAlias = "Callable[[str], None]"
"""A function that receives each piece of the text immediately, in the event loop."""


@final
class Setting(msgspec.Struct, frozen=True):
    """The settings of a model: context tokens of a run, threads, concurrent runs, log on stderr, and chat template.

    With ``embedding``, the model only embeds strings. ``pooling`` computes the vector of a string from the vectors of
    its tokens. By default it is the method of the file, otherwise the mean.
    """

    context: int = 4096
    threads: int | None = None
    parallel: int = 1
    verbose: bool = False
    chat_template: str | None = None
    embedding: bool = False
    pooling: Pooling | None = None


Prompt: TypeAlias = str | tuple[tuple[str, str], ...]
"""A string, or the messages of a chat (role and content) for the model's template."""


@final
class Completion(msgspec.Struct, frozen=True):
    """A prompt to complete.

    ``prompt`` is a string, or the messages of a chat for the model's template. The model writes at most ``most``
    tokens. It follows ``grammar`` if it is set, and stops at any string of ``stop``. With ``once``, the completion ends
    before it repeats itself.
    """

    prompt: Prompt
    most: int
    grammar: str | None = None
    stop: tuple[str, ...] = ()
    temperature: float = 0.0
    seed: int | None = None
    once: bool = False


@final
class Completed(msgspec.Struct, frozen=True):
    """A completion: its text, its end (normal, or by the token limit), and its usage."""

    text: str
    ended: Literal["stop", "length"]
    usage: Usage


_NAME: Final = "a local model that is loaded"


@final
class Engine:
    """A loaded model. Create it with `load` and release it with `close`."""

    def __init__(
        self, server: Any, path: Path, setting: Setting, description: Description, folder: Path | None, key: str = ""
    ) -> None:
        self.path = path
        self.setting = setting
        self.description = description
        self._held: list[Any] = [server]  # the only reference: clearing the list releases the model
        self._folder = folder
        self._key = key
        self._limiter = anyio.CapacityLimiter(setting.parallel)
        self._home = Home(_NAME)
        self._idle = threading.Condition()
        self._running = 0
        self.closed: bool = False

    @staticmethod
    async def load(path: Path, setting: Setting, on_progress: OnProgress | None = None) -> Engine:
        """Load the model of the GGUF file at ``path`` in a worker thread.

        Raises `LocalError` if xllamacpp is not installed or if the file cannot be loaded.
        """
        loaded: list[Engine] = []

        def work() -> None:
            key = secrets.token_hex(32)
            server, description, folder = _load(path, setting, on_progress, key)
            loaded.append(Engine(server, path, setting, description, folder, key))

        try:
            await in_thread(work)
        except anyio.get_cancelled_exc_class():
            for engine in loaded:  # cancelled during loading: no other code would release the model
                await engine.close()
            raise
        loaded[0]._home = Home(_NAME)  # the worker thread that created the engine has no event loop
        return loaded[0]

    @property
    def name(self) -> str:
        """The name of the model from its file. By default the name of the file."""
        return self.description.name or self.path.stem

    @property
    def speaks_chat(self) -> bool:
        """True if the model has a chat template, in its file or in its settings."""
        return (self.setting.chat_template or self.description.chat_template) is not None

    async def complete(self, task: Completion, on_text: OnText | None = None) -> Completed:
        """Complete a prompt. ``on_text`` receives each piece of the text immediately.

        If the maximum number of concurrent runs is active, the new run stays pending. Raises `LocalError` if the
        context fills before or during the completion, or if llama.cpp rejects the prompt or fails.
        """

        def work() -> Completed:
            listener = _Listener(self, on_text, Unrepeated() if task.once else None)
            with self._at_work():
                if isinstance(task.prompt, str):
                    self._held[0].handle_completions({"prompt": task.prompt, **_options(task)}, listener)
                else:
                    messages = [{"role": role, "content": content} for role, content in task.prompt]
                    self._held[0].handle_chat_completions({"messages": messages, **_options(task)}, listener)
                from_thread.check_cancelled()
                return listener.result(task, self.setting.context)

        self._home.require()
        return await in_thread(work, limiter=self._limiter)

    async def embed(self, texts: Sequence[str]) -> tuple[list[list[float]], Usage]:
        """Return the vectors of the strings, of length 1, and the tokens that they used. The engine must embed.

        The call can stay pending like `complete`. Raises `LocalError` if a string exceeds the context, or if llama.cpp
        fails.
        """

        def work() -> tuple[list[list[float]], Usage]:
            vectors: list[list[float]] = []
            usage = Usage(input_tokens=0)
            with self._at_work():
                for text in texts:  # a single string per request, so that a cancelled run can stop after each string
                    from_thread.check_cancelled()
                    answered: dict[str, Any] = self._held[0].handle_embeddings({"input": [text]})
                    if self.closed:
                        raise LocalError(InternalProviderError(description="the model was released during the call"))
                    if "error" in answered:
                        raise LocalError(_reason_of(answered["error"], self.setting.context))
                    vectors.append(answered["data"][0]["embedding"])
                    usage += Usage(input_tokens=answered["usage"]["prompt_tokens"])
            return vectors, usage

        self._home.require()
        return await in_thread(work, limiter=self._limiter)

    async def count(self, prompts: Sequence[Prompt]) -> int:
        """Count the tokens that completions of these prompts would read together. The model computes nothing.

        Raises `LocalError` if llama.cpp rejects a prompt or fails.
        """

        def work() -> int:
            tokens = 0
            with self._at_work():
                for prompt in prompts:
                    from_thread.check_cancelled()
                    text = prompt
                    if not isinstance(text, str):
                        messages = [{"role": role, "content": content} for role, content in text]
                        text = self._tell("/apply-template", {"messages": messages})["prompt"]
                    marks = {"add_special": True, "parse_special": True}
                    tokens += len(self._tell("/tokenize", {"content": text, **marks})["tokens"])
            return tokens

        return await in_thread(work)

    async def close(self) -> None:
        """Release the memory, threads, and socket of the model. This stops active runs. You can call it repeatedly."""

        def work() -> None:
            with self._idle:
                self.closed = True
                self._idle.wait_for(lambda: self._running == 0)
                self._held.clear()
            if self._folder is not None:
                shutil.rmtree(self._folder, ignore_errors=True)

        await shield(in_thread(work))

    def _tell(self, target: str, body: Mapping[str, Any]) -> dict[str, Any]:
        """Send a request to llama.cpp's server through its socket. Its Python object has no tokenizer."""
        headers = {"authorization": f"Bearer {self._key}", "content-type": "application/json"}
        address = str(self._held[0].listening_address)
        path = address.removeprefix("unix://")
        line = HTTPConnection("localhost" if path != address else address.rpartition("/")[2], timeout=_COUNT_TIME)
        try:
            if path != address:
                line.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
                line.sock.settimeout(_COUNT_TIME)
                line.sock.connect(path)
            line.request("POST", target, msgspec.json.encode(body), headers)
            answer = line.getresponse()
            reply: Any = msgspec.json.decode(answer.read())
        except (OSError, HTTPException, *JSON_ERRORS) as wrong:
            raise LocalError(InternalProviderError(description=f"llama.cpp cannot count tokens: {wrong}")) from wrong
        finally:
            line.close()
        if answer.status != 200:
            raise LocalError(_reason_of(reply.get("error", {})))
        return dict(reply)

    @contextmanager
    def _at_work(self) -> Generator[None]:
        """Count a run as active. `close` waits until all runs end."""
        with self._idle:
            if self.closed:
                raise LocalError(InvalidRequestError(description="the model was released because its scope ended"))
            self._running += 1
        try:
            yield
        finally:
            with self._idle:
                self._running -= 1
                self._idle.notify_all()


class _Listener:
    """A callback for each piece of a reply. It must not raise. It returns True to stop llama.cpp."""

    def __init__(self, engine: Engine, on_text: OnText | None, new: Unrepeated | None) -> None:
        self.engine = engine
        self.on_text = on_text
        self.new = new
        self.texts: list[str] = []
        self.last: Mapping[str, Any] = {}
        self.ended: str | None = None

    def __call__(self, chunk: Mapping[str, Any]) -> bool:
        try:
            from_thread.check_cancelled()
            return self.engine.closed or self._take(chunk)
        except BaseException:  # the run was cancelled; check_cancelled raises again after the call
            return True

    def _take(self, chunk: Mapping[str, Any]) -> bool:
        if "error" in chunk or "usage" in chunk:
            self.last = chunk
        for choice in chunk.get("choices", ()):
            delta: dict[str, Any] = choice.get("delta") or {}
            text: str = choice.get("text") or delta.get("content") or ""
            self.ended = choice.get("finish_reason") or self.ended
            self._emit_text(text if self.new is None else self.new.take(text))
        if self.new is not None and self.new.ended and self.ended is None:
            timings = chunk["timings"]  # llama.cpp did not report the usage yet
            read, wrote = timings["prompt_n"] + timings["cache_n"], timings["predicted_n"]
            usage = {"prompt_tokens": read, "completion_tokens": wrote, "total_tokens": read + wrote}
            details = {"prompt_tokens_details": {"cached_tokens": timings["cache_n"]}}
            self.last, self.ended = {"usage": {**usage, **details}}, "stop"
            return True
        return "error" in chunk

    def _emit_text(self, text: str) -> None:
        if text:
            self.texts.append(text)
            if self.on_text is not None:
                from_thread.run_sync(self.on_text, text)

    def result(self, task: Completion, context: int) -> Completed:
        """Return the whole reply, including the delayed text. Raises `LocalError` if the reply is incomplete."""
        if "error" in self.last:
            raise LocalError(_reason_of(self.last["error"]))
        reply = self.last.get("usage")
        if self.engine.closed or reply is None or self.ended is None:
            raise LocalError(InternalProviderError(description="the model stopped in the middle of its answer"))

        details: dict[str, Any] = reply.get("prompt_tokens_details") or {}
        usage = Usage(reply["prompt_tokens"], reply["completion_tokens"], details.get("cached_tokens"))
        if self.ended == "length" and reply["completion_tokens"] < task.most:
            answered = "the answer filled the context. Set a larger context or request a shorter answer."
            raise LocalError(ContextOverflowError(tokens=reply["total_tokens"], limit=context, description=answered))
        self._emit_text("" if self.new is None else self.new.rest())
        return Completed("".join(self.texts), "length" if self.ended == "length" else "stop", usage)


def _reason_of(error: Mapping[str, Any], context: int | None = None) -> Reason:
    """Return the reason of an error that llama.cpp reports."""
    description = str(error.get("message", error))
    long = re.search(r"input \((\d+) tokens\) is too large", description)
    if long is not None:  # llama.cpp embeds a string only in a single batch
        return ContextOverflowError(int(long[1]), context, "Embed the string in pieces, or set a larger context.")
    if error.get("type") == "exceed_context_size_error":
        return ContextOverflowError(
            tokens=error.get("n_prompt_tokens"), limit=error.get("n_ctx"), description=description
        )
    if "grammar" in description:
        return UnsupportedSchemaError(description=f"llama.cpp rejected the grammar: {description}")
    if error.get("code") == 400:
        return InvalidRequestError(description=description)
    return InternalProviderError(description=description, status=error.get("code"))


def _options(task: Completion) -> dict[str, Any]:
    options: dict[str, Any] = {
        "max_tokens": task.most,
        "temperature": task.temperature,
        "stop": list(task.stop),
        "stream": True,
        "stream_options": {"include_usage": True},
        "return_progress": True,
        "cache_prompt": True,
        "timings_per_token": task.once,
    }
    if task.grammar is not None:
        options["grammar"] = task.grammar
    if task.seed is not None:
        options["seed"] = task.seed
    return options


def _load(
    path: Path, setting: Setting, on_progress: OnProgress | None, key: str
) -> tuple[Any, Description, Path | None]:
    try:
        xllamacpp: Any = import_module("xllamacpp")
    except ImportError as missing:
        answered = f'package xllamacpp is missing ({missing}). Run pip install "fxai[local]".'
        raise LocalError(
            ModelUnavailableError(model=str(path), problem="not-installed", description=answered)
        ) from None

    description = read_description(path)
    size = path.stat().st_size
    params, folder = xllamacpp.CommonParams(), _socket_folder()
    _configure(params, path, setting, folder, key)
    if setting.embedding and (setting.pooling or not description.pools):
        kinds: Any = xllamacpp.llama_pooling_type
        params.pooling_type = getattr(kinds, f"LLAMA_POOLING_TYPE_{(setting.pooling or 'mean').upper()}")
    try:
        if on_progress is not None:
            on_progress(Progress("loading", 0, size))
        server = xllamacpp.Server(params)
        if on_progress is not None:
            on_progress(Progress("loading", size, size))
    except Exception as wrong:
        if folder is not None:
            shutil.rmtree(folder, ignore_errors=True)
        answered = f"llama.cpp cannot load the file ({wrong}). Set verbose=True to see its log."
        raise LocalError(ModelUnavailableError(model=str(path), problem="unreadable", description=answered)) from wrong
    return server, description, folder


def _configure(params: Any, path: Path, setting: Setting, folder: Path | None, key: str) -> None:
    # With a thread on each processor, one other busy process makes llama.cpp several times slower, because its threads
    # wait for each other.
    usable = len(os.sched_getaffinity(0)) if sys.platform == "linux" else os.cpu_count() or 1
    threads = setting.threads or max(1, min(8, usable // 2))
    params.model.path = str(path)
    params.n_parallel = setting.parallel
    params.n_ctx = setting.context * setting.parallel  # llama.cpp divides it among the runs
    params.n_batch = params.n_ubatch = _BATCH  # a run can stop after each batch of its prompt
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = threads
    params.cache_ram_mib = _PROMPT_CACHE_MIB
    params.warmup = False
    params.verbosity = 3 if setting.verbose else -1
    params.n_threads_http = 1
    params.ui = params.endpoint_slots = params.endpoint_props = False
    params.api_keys = [key]  # the server listens on a socket and must reject all other clients
    if folder is not None:
        params.hostnames = [str(folder / "x.sock")]
    if setting.chat_template is not None:
        params.chat_template = setting.chat_template
    if setting.embedding:
        params.embedding = True
        params.n_batch = params.n_ubatch = setting.context  # llama.cpp embeds a string only in a single batch


def _socket_folder() -> Path | None:
    """Create a private directory for the server's socket, so that no port is open. Return None if it is impossible."""
    if sys.platform == "win32":
        return None
    folder = Path(tempfile.mkdtemp(prefix="fxai-"))
    if len(str(folder / "x.sock")) <= _LONGEST_SOCKET:
        return folder
    folder.rmdir()
    return None


_SENTENCE: Final = re.compile(r".*?[.!?][\"')\]]*(?=\s)", re.DOTALL)
_LOOP: Final = re.compile(r"(.{1,40}?)\1{3,}\Z", re.DOTALL)
_SHORTEST_LOOP: Final = 6
_FEWEST_WORDS: Final = 3
_LONGEST_LOOP: Final = 24
_LONGEST_COUNT: Final = 24
_WINDOW: Final = 200


@final
class Unrepeated:
    """A reader of text in pieces that ends before the text repeats a sentence, or when the text loops.

    A sentence has at least three words. The comparison ignores case and blanks. A loop is either a few characters,
    including a letter or digit, at least four times on at least 24 characters ("1000000…", "ha ha ha …"), or 24
    consecutive numbers. The reader delays text while it can become a repetition: a sentence that starts like an earlier
    sentence, and a few characters from their fourth time. It does not delay consecutive numbers.
    """

    def __init__(self) -> None:
        self.ended: bool = False
        self._sentences: list[str] = []
        self._sentence = ""
        self._waits = 0
        self._tail = ""

    def take(self, piece: str) -> str:
        """Add a piece and return the text that is not a repetition. Return "" after the end."""
        if self.ended:
            return ""

        self._sentence += piece
        self._waits += len(piece)
        self._tail = (self._tail + piece)[-_WINDOW:]
        free = self._whole()
        found = _LOOP.search(self._tail)
        looped = len(found[0]) if found and any(map(str.isalnum, found[1])) else 0
        numbers = [int(digits) for digits in re.findall(r"\d{1,9}(?=\D)", self._tail)][-_LONGEST_COUNT:]
        counts = len(numbers) == _LONGEST_COUNT and all(after == before + 1 for before, after in pairwise(numbers))
        self.ended = self.ended or looped >= _LONGEST_LOOP or counts
        begun = _plain(self._sentence)
        may_repeat = any(
            answered.startswith(begun) and len(answered.split()) >= _FEWEST_WORDS for answered in self._sentences
        )
        if not self.ended and looped < _SHORTEST_LOOP and not may_repeat:
            free += self._waiting()
        return free

    def rest(self) -> str:
        """Return the delayed text after the reply ended normally, unless the text is a repetition."""
        return "" if self.ended or self._is_repeated(self._sentence) else self._waiting()

    def _whole(self) -> str:
        """Return the text of finished sentences that are new."""
        free = ""
        while found := _SENTENCE.match(self._sentence):
            whole, after = found[0], self._sentence[found.end() :]
            if self._is_repeated(whole):
                self.ended = True
                return free
            self._sentences.append(_plain(whole))
            free += whole[max(0, len(self._sentence) - self._waits) :]
            self._sentence, self._waits = after, min(self._waits, len(after))
        return free

    def _waiting(self) -> str:
        waiting = self._sentence[len(self._sentence) - self._waits :]
        self._waits = 0
        return waiting

    def _is_repeated(self, sentence: str) -> bool:
        return len(sentence.split()) >= _FEWEST_WORDS and _plain(sentence) in self._sentences


def _plain(sentence: str) -> str:
    return " ".join(sentence.casefold().split())
