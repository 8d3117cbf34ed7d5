"""The engine: one loaded model that completes texts, in this process, for several runs at once.

llama.cpp runs through the package `xllamacpp`, which is imported only here and only when a model is loaded. The engine
waits in worker threads, so it serves asyncio and trio alike; a run that is cancelled stops between two tokens, or
between two pieces of its prompt. Failures are a `LocalError` with its reason.

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
from typing_extensions import override

from fxai.effects.cancellation import shield
from fxai.effects.thread import in_thread
from fxai.effects.waker import Home
from fxai.messages.part import Usage
from fxai.messages.reason import ContextOverflowError, InternalProviderError, InvalidRequestError, ModelUnavailableError
from fxai.providers.local.failure import LocalError, embedding_reason, reason_of
from fxai.providers.local.weights import Description, OnProgress, Progress, read_description
from fxai.schema.data import JSON_ERRORS

_BATCH: Final = 128
_PROMPT_CACHE_MIB: Final = 256
_LONGEST_SOCKET: Final = 100
_COUNT_TIME: Final = 60.0  # seconds that counting may take

Pooling: TypeAlias = Literal["mean", "cls", "last"]
"""Which vector stands for a text: the mean of its tokens', the first one's, or the last one's."""

OnText: TypeAlias = "Callable[[str], None]"
"""Called with each piece of the text as it comes, in the event loop."""


@final
class Setting(msgspec.Struct, frozen=True):
    """How a model is loaded: tokens of context for each run, threads, runs at once, log on stderr, chat template.

    With ``embedding`` it only embeds texts; ``pooling`` is how the vectors of a text's tokens become one:
    None for the file's own, else their mean.
    """

    context: int = 4096
    threads: int | None = None
    parallel: int = 1
    verbose: bool = False
    chat_template: str | None = None
    embedding: bool = False
    pooling: Pooling | None = None


Prompt: TypeAlias = str | tuple[tuple[str, str], ...]
"""A text, or the messages of a chat, role and content, for the model's own template."""


@final
class Completion(msgspec.Struct, frozen=True):
    """A text to complete.

    ``prompt`` is a text, or the messages of a chat for the model's own template. ``most`` tokens at most are written,
    within ``grammar`` if there is one, until one of ``stop``. With ``once`` it ends, by itself, before it repeats
    itself.
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
    """The completion of a text, why it ended (by itself, or at its most tokens), and its usage."""

    text: str
    ended: Literal["stop", "length"]
    usage: Usage


_NAME: Final = "a local model that is loaded"


@final
class Engine:
    """A loaded model. Make one by `load`, and `close` it."""

    def __init__(
        self, server: Any, path: Path, setting: Setting, description: Description, folder: Path | None, key: str = ""
    ) -> None:
        self.path = path
        self.setting = setting
        self.description = description
        self._held: list[Any] = [server]  # the only reference, not even a frame has one: it ends when this drops it
        self._folder = folder
        self._key = key
        self._limiter = anyio.CapacityLimiter(setting.parallel)
        self._home = Home(_NAME)
        self._idle = threading.Condition()
        self._running = 0
        self.closed: bool = False

    @staticmethod
    async def load(path: Path, setting: Setting, on_progress: OnProgress | None = None) -> Engine:
        """The model of the GGUF file at ``path``, loaded in a worker thread.

        Raises `LocalError`: xllamacpp is not installed, or the file cannot be loaded.
        """
        loaded: list[Engine] = []

        def work() -> None:
            key = secrets.token_hex(32)
            server, description, folder = _load(path, setting, on_progress, key)
            loaded.append(Engine(server, path, setting, description, folder, key))

        try:
            await in_thread(work)
        except anyio.get_cancelled_exc_class():
            for engine in loaded:  # a model dropped while it loads would never be released
                await engine.close()
            raise
        loaded[0]._home = Home(_NAME)  # it was made in a thread without an event loop
        return loaded[0]

    @property
    def name(self) -> str:
        """The model's name: from its file, else the file's name."""
        return self.description.name or self.path.stem

    @property
    def speaks_chat(self) -> bool:
        """Whether the model has a chat template, its own or the one that was given."""
        return (self.setting.chat_template or self.description.chat_template) is not None

    async def complete(self, task: Completion, on_text: OnText | None = None) -> Completed:
        """How the model goes on; ``on_text`` hears each piece of it as it comes.

        Waits while as many runs as the engine serves at once are under way. Raises `LocalError`: the
        context is full before or while the text is written, or llama.cpp refused or failed.
        """
        self._home.require()
        return await in_thread(lambda: self._complete(task, on_text), limiter=self._limiter)

    async def embed(self, texts: Sequence[str]) -> tuple[list[list[float]], Usage]:
        """The vectors of the texts, of length 1, and the tokens they took; for an engine that is set to embed.

        Waits as `complete` does. Raises `LocalError`: a text does not fit the context, or llama.cpp failed.
        """
        self._home.require()
        return await in_thread(lambda: self._embed(texts), limiter=self._limiter)

    async def count(self, prompts: Sequence[Prompt]) -> int:
        """The tokens of these prompts together, as a completion of each would read them. Nothing is computed of them.

        Raises `LocalError`: llama.cpp refused or failed.
        """
        return await in_thread(lambda: self._count(prompts))

    async def close(self) -> None:
        """Releases the model: its memory, threads and socket. Runs under way are stopped. May be called again."""
        await shield(in_thread(self._close))

    def _close(self) -> None:
        with self._idle:
            self.closed = True
            self._idle.wait_for(lambda: self._running == 0)
            self._held.clear()
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)

    def _complete(self, task: Completion, on_text: OnText | None) -> Completed:
        listener = _Listener(self, on_text, Unrepeated() if task.once else None)
        with self._at_work():
            if isinstance(task.prompt, str):
                self._held[0].handle_completions({"prompt": task.prompt, **_options(task)}, listener)
            else:
                messages = [{"role": role, "content": content} for role, content in task.prompt]
                self._held[0].handle_chat_completions({"messages": messages, **_options(task)}, listener)
            from_thread.check_cancelled()
            return listener.result(task, self.setting.context)

    def _count(self, prompts: Sequence[Prompt]) -> int:
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

    def _tell(self, path: str, body: Mapping[str, Any]) -> dict[str, Any]:
        """What llama.cpp's server answers over its own socket: its Python object has no tokenizer."""
        headers = {"authorization": f"Bearer {self._key}", "content-type": "application/json"}
        line = _connect(str(self._held[0].listening_address))
        try:
            line.request("POST", path, msgspec.json.encode(body), headers)
            answer = line.getresponse()
            told: Any = msgspec.json.decode(answer.read())
        except (OSError, HTTPException, *JSON_ERRORS) as wrong:
            raise LocalError(InternalProviderError(description=f"llama.cpp counts no tokens: {wrong}")) from wrong
        finally:
            line.close()
        if answer.status != 200:
            raise LocalError(reason_of(told.get("error", {})))
        return dict(told)

    def _embed(self, texts: Sequence[str]) -> tuple[list[list[float]], Usage]:
        vectors: list[list[float]] = []
        usage = Usage(input_tokens=0)
        with self._at_work():
            for text in texts:  # one by one: a run that is cancelled stops between two of them
                from_thread.check_cancelled()
                said: dict[str, Any] = self._held[0].handle_embeddings({"input": [text]})
                if self.closed:
                    raise LocalError(InternalProviderError(description="the model was released meanwhile"))
                if "error" in said:
                    raise LocalError(embedding_reason(said["error"], self.setting.context))
                vectors.append(said["data"][0]["embedding"])
                usage += Usage(input_tokens=said["usage"]["prompt_tokens"])
        return vectors, usage

    @contextmanager
    def _at_work(self) -> Generator[None]:
        """Counts a run, which `close` waits for."""
        with self._idle:
            if self.closed:
                raise LocalError(InvalidRequestError(description="the model was released: its scope has ended"))
            self._running += 1
        try:
            yield
        finally:
            with self._idle:
                self._running -= 1
                self._idle.notify_all()


class _Listener:
    """The callback of llama.cpp for each piece of a reply; it must not raise, and stops the reply by returning True."""

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
            self._say(text if self.new is None else self.new.take(text))
        if self.new is not None and self.new.ended and self.ended is None:
            self.last, self.ended = {"usage": _usage_of(chunk["timings"])}, "stop"
            return True
        return "error" in chunk

    def _say(self, text: str) -> None:
        if text:
            self.texts.append(text)
            if self.on_text is not None:
                from_thread.run_sync(self.on_text, text)

    def result(self, task: Completion, context: int) -> Completed:
        """The whole reply, with the text that was held back. Raises `LocalError` where it is incomplete."""
        if "error" in self.last:
            raise LocalError(reason_of(self.last["error"]))
        told = self.last.get("usage")
        if self.engine.closed or told is None or self.ended is None:
            raise LocalError(InternalProviderError(description="the model broke off in the middle of its answer"))

        details: dict[str, Any] = told.get("prompt_tokens_details") or {}
        usage = Usage(told["prompt_tokens"], told["completion_tokens"], details.get("cached_tokens"))
        if self.ended == "length" and told["completion_tokens"] < task.most:
            said = "it filled while the answer was written; allow a larger context, or ask for less"
            raise LocalError(ContextOverflowError(tokens=told["total_tokens"], limit=context, description=said))
        self._say("" if self.new is None else self.new.rest())
        return Completed("".join(self.texts), "length" if self.ended == "length" else "stop", usage)


class _SocketConnection(HTTPConnection):
    """HTTP over the socket at a path."""

    def __init__(self, path: str) -> None:
        super().__init__("localhost", timeout=_COUNT_TIME)
        self._path = path

    @override
    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self._path)


def _connect(address: str) -> HTTPConnection:
    if address.startswith("unix://"):
        return _SocketConnection(address.removeprefix("unix://"))
    return HTTPConnection(address.rpartition("/")[2], timeout=_COUNT_TIME)


def _usage_of(timings: Mapping[str, Any]) -> dict[str, Any]:
    """The usage of a reply that was stopped before llama.cpp reported it."""
    cached, wrote = timings["cache_n"], timings["predicted_n"]
    read = timings["prompt_n"] + cached
    return {
        "prompt_tokens": read,
        "completion_tokens": wrote,
        "total_tokens": read + wrote,
        "prompt_tokens_details": {"cached_tokens": cached},
    }


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
        said = f'the package xllamacpp ({missing}); pip install "fxai[local]" brings it'
        raise LocalError(ModelUnavailableError(model=str(path), problem="not-installed", description=said)) from None

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
        said = f"llama.cpp cannot load it ({wrong}); its log tells more: layer(…, verbose=True)"
        raise LocalError(ModelUnavailableError(model=str(path), problem="unreadable", description=said)) from wrong
    return server, description, folder


def _configure(params: Any, path: Path, setting: Setting, folder: Path | None, key: str) -> None:
    threads = setting.threads or _threads()
    params.model.path = str(path)
    params.n_parallel = setting.parallel
    params.n_ctx = setting.context * setting.parallel  # llama.cpp divides it among the runs
    params.n_batch = params.n_ubatch = _BATCH  # a run can be cancelled between batches of its prompt
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = threads
    params.cache_ram_mib = _PROMPT_CACHE_MIB
    params.warmup = False
    params.verbosity = 3 if setting.verbose else -1
    params.n_threads_http = 1
    params.ui = params.endpoint_slots = params.endpoint_props = False
    params.api_keys = [key]  # the server object listens; it shall answer no other client
    if folder is not None:
        params.hostnames = [str(folder / "x.sock")]
    if setting.chat_template is not None:
        params.chat_template = setting.chat_template
    if setting.embedding:
        params.embedding = True
        params.n_batch = params.n_ubatch = setting.context  # a text is embedded in one piece or not at all


def _threads() -> int:
    """Half of the processors that this process may use.

    With a thread on each, one busy neighbour makes llama.cpp several times slower: its threads wait for each other.
    """
    usable = len(os.sched_getaffinity(0)) if sys.platform == "linux" else os.cpu_count() or 1
    return max(1, min(8, usable // 2))


def _socket_folder() -> Path | None:
    """A directory of ours alone for the server's socket, so that no port is opened; None where that cannot be."""
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
    """A text that is read piece by piece, and ends before it repeats a sentence, or in a loop.

    A sentence is one of at least three words; upper case and blanks do not tell two apart. A loop is a few characters,
    a letter or digit among them, four times and more on 24 characters and more ("1000000…", "ha ha ha …"), or 24
    numbers that count. What may be either is held back until it is known to be another: a sentence that begins like one
    before, and a few characters from their fourth time; numbers that count are not.
    """

    def __init__(self) -> None:
        self.ended: bool = False
        self._sentences: list[str] = []
        self._sentence = ""
        self._waits = 0
        self._tail = ""

    def take(self, piece: str) -> str:
        """The text that may be passed on now; empty once it has ended."""
        if self.ended:
            return ""

        self._sentence += piece
        self._waits += len(piece)
        self._tail = (self._tail + piece)[-_WINDOW:]
        free = self._whole()
        looped = _loop_length(self._tail)
        self.ended = self.ended or looped >= _LONGEST_LOOP or _counts(self._tail)
        if not self.ended and looped < _SHORTEST_LOOP and not self._may_repeat():
            free += self._waiting()
        return free

    def rest(self) -> str:
        """The text that was held back when the reply ended by itself, unless it is a repetition."""
        return "" if self.ended or self._is_repeated(self._sentence) else self._waiting()

    def _whole(self) -> str:
        """The sentences that ended, as far as they are new."""
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

    def _may_repeat(self) -> bool:
        begun = _plain(self._sentence)
        return any(said.startswith(begun) and len(said.split()) >= _FEWEST_WORDS for said in self._sentences)


def _plain(sentence: str) -> str:
    return " ".join(sentence.casefold().split())


def _loop_length(tail: str) -> int:
    """On how many characters the text ends in a loop."""
    found = _LOOP.search(tail)
    return len(found[0]) if found and any(map(str.isalnum, found[1])) else 0


def _counts(tail: str) -> bool:
    numbers = [int(digits) for digits in re.findall(r"\d{1,9}(?=\D)", tail)][-_LONGEST_COUNT:]
    return len(numbers) == _LONGEST_COUNT and all(after == before + 1 for before, after in pairwise(numbers))
