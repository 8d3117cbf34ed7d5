"""Large results: the model receives a preview and a handle, and reads the rest with a tool. Use them for long results.

A store contains the whole result. The history, journals, pages, and traces contain the preview and the handle. The
program still gets the whole value from `step.results_of(tool)`.

The model reads a stored result with the tool `read_result`: a page of it, a part by a JSON pointer, or the places of a
text. It can read only handles of its own conversation.

>>> from returns.result import Success
>>> from fxai import Agent, Tool, fx
>>> from fxai.agents import LargeResults
>>> from fxai.storage import ResultStore
>>> from fxai.testing import ScriptedModel, call, text
>>> search = Tool.make("search", success=list[str])
>>> found = search.handler(lambda _: Success([f"dragon {number}" for number in range(1000)]))
>>> agent = Agent.make("reader", toolkit=search, large_results=LargeResults(ResultStore.in_process(), max_tokens=100))
>>> model = ScriptedModel.make([call("search", {}), text("There are 1,000.")])
>>> answer = fx.run(agent.execute("Dragons?").provide(found).provide(model.layer))
>>> len(answer.steps[0].results_of(search)[0].unwrap()), answer.steps[0].results[0].encoded_result["items"]
(1000, 1000)
"""

from __future__ import annotations

from base64 import b64decode
from binascii import Error as NotBase64
from collections.abc import Callable, Iterable, Iterator
from typing import Annotated, Any, Final, cast, final

import msgspec
from returns.pipeline import is_successful
from returns.result import Failure, Result, Success

from fxai.effects.constructor import attempt_work, fail
from fxai.effects.context import AnyContext
from fxai.effects.effect import EffectOf, Succeed
from fxai.messages.media_type import media_type_of
from fxai.messages.message import handles_of
from fxai.messages.prompt import Prompt
from fxai.schema.data import JsonObject, is_array, is_object
from fxai.schema.fault import DecodeError, pointer_to, pointer_tokens
from fxai.schema.location import MISSING, value_at
from fxai.storage.result_store import ResultStore
from fxai.tools.annotation import MaxResultTokens, Readonly
from fxai.tools.call import Outcome, model_output
from fxai.tools.handler import handler_of
from fxai.tools.tool import Tool
from fxai.tools.tool_info import ToolInfo
from fxai.tools.toolkit import AnyToolkit, Toolkit

_BYTES_OF_TOKEN: Final = 4
_LEAST: Final = 200  # minimum number of characters of a page
_MOST_MATCHES: Final = 20
_AROUND: Final = 80  # characters on each side of a match
_BINARY: Final = 128  # minimum number of characters of base64 data
_LARGE: Final = 2**18  # bytes of a result that a thread reads, so that the event loop continues
_NAME: Final = "read_result"
_BROKEN: Final = "the result could not be stored: %s. The model receives only a preview."


@final
class LargeResults(msgspec.Struct, frozen=True):
    """The rule for large results of tools: results with more than `max_tokens` go to the store.

    A tool can have its own maximum with the annotation `MaxResultTokens`.
    """

    store: ResultStore
    """The store of whole results."""
    max_tokens: int = 4_000
    """Maximum number of tokens of a result in the conversation, and of a page of `read_result`, by an estimate of 4
    bytes for each token. Default: 4,000."""

    def __post_init__(self) -> None:
        if not isinstance(cast(object, self.store), ResultStore):
            raise TypeError(f"store must be a ResultStore, got {self.store!r}. Pass ResultStore.in_process().")
        if self.max_tokens < 1:
            raise ValueError(f"max_tokens must be at least 1, got {self.max_tokens}")

    def remove(self, history: Prompt) -> EffectOf[None, OSError]:
        """Return an effect that removes the stored results of a conversation.

        A memory, a chat store, or a store of conversations with `results=` removes them with the conversation.

        Fails with:
            OSError: If the store refuses.
        """
        store = self.store
        return attempt_work(lambda: store.remove(handles_of(history)), OSError, in_thread=store.blocks)


def _log(message: str, *about: object) -> None:
    import logging  # few stores break

    logging.getLogger("fxai.agents").error(message, *about)


class _Record(msgspec.Struct, omit_defaults=True):
    """A stored result."""

    value: Any
    """The encoded value for the program."""
    shown: Any = msgspec.UNSET
    """The value for the model if the tool has `to_model_output`."""


# -- the tool that reads


class ReadResult(msgspec.Struct, frozen=True):
    """The part of a stored result to read."""

    handle: Annotated[str, msgspec.Meta(description="The handle of the result.")]
    pointer: Annotated[str, msgspec.Meta(description="JSON pointer to a part, such as /3/name. Empty for all.")] = ""
    search: Annotated[str, msgspec.Meta(description="Text to find in the part. Returns the places.")] = ""
    offset: Annotated[int, msgspec.Meta(description="First character, item, or match to return.", ge=0)] = 0


READER: Final = Tool.make(
    _NAME,
    description="Read a stored large result by its handle: a page, a part by a JSON pointer, or the places of a text.",
    parameters=ReadResult,
    success=Any,
    failure=str,
    failure_mode="return",
    annotations={Readonly: True},
)


@final
class Keeping:
    """The large results of a run, and the handles of its conversation."""

    def __init__(self, rule: LargeResults, history: Prompt) -> None:
        self._rule = rule
        self._handles = set(handles_of(history))
        self._last: tuple[AnyToolkit, AnyToolkit] | None = None

    def with_reader(self, toolkit: AnyToolkit) -> AnyToolkit:
        """Return the toolkit with the tool that reads. The same toolkit returns the same toolkit."""
        if self._last is None or self._last[0] is not toolkit:
            self._last = toolkit, toolkit.merge(Toolkit.make(READER))
        return self._last[1]

    def add_handler(self, context: AnyContext) -> AnyContext:
        """Return the context with the handler of the tool that reads."""
        return context.put(READER.identity, handler_of(self._read, context))

    # -- results

    def keep(self, tool: ToolInfo | None, outcome: Outcome) -> EffectOf[Outcome]:
        """Return the outcome itself, or the outcome with a preview and the handle of its stored result."""
        if tool is None or tool.identity == READER.identity:
            return Succeed(outcome)
        own = tool.get(MaxResultTokens)
        most = (self._rule.max_tokens if own is None else own) * _BYTES_OF_TOKEN
        is_formed = tool.to_model_output is not None and not outcome.is_failure
        shown = model_output(tool, outcome.result) if is_formed else outcome.encoded_result
        if (isinstance(shown, str | bytes) and len(shown) * 4 <= most) or len(msgspec.json.encode(shown)) <= most:
            return Succeed(outcome)
        record = _Record(outcome.encoded_result, shown if is_formed else msgspec.UNSET)

        def mark(handle: str) -> Outcome:
            self._handles.add(handle)
            return outcome.with_preview(_preview(shown, handle, most // 2), handle)

        def explain(error: OSError) -> EffectOf[Outcome]:
            _log(_BROKEN, error)
            return Succeed(outcome.with_preview(_preview(shown, None, most), "-"))

        return self._work(lambda: self._rule.store.put(msgspec.json.encode(record))).map(mark).catch_all(explain)

    def restore(self, tool: ToolInfo, outcome: Outcome) -> EffectOf[Outcome]:
        """Return an outcome from a journal with the value of its stored result.

        If the store no longer contains the result, the value is the preview.
        """
        self._handles.add(outcome.handle)
        schema: Any = tool.failure if outcome.is_failure else tool.success

        def read(data: bytes | None) -> Outcome:
            result = outcome.encoded_result
            if data is not None:
                try:
                    result = schema.decode_unsafe(msgspec.json.decode(data, type=_Record).value)
                except (DecodeError, msgspec.DecodeError) as error:
                    _log("stored result of %r is invalid: %s", tool.name, error)
            return msgspec.structs.replace(outcome, result=result)

        def explain(error: OSError) -> EffectOf[Outcome]:
            _log("stored result of %r could not be read: %s", tool.name, error)
            return Succeed(read(None))

        return self._work(lambda: self._rule.store.get(outcome.handle)).map(read).catch_all(explain)

    def _work(self, f: Callable[[], Any]) -> EffectOf[Any, OSError]:
        return attempt_work(f, OSError, in_thread=self._rule.store.blocks)

    # -- the tool that reads

    def _read(self, asked: ReadResult) -> EffectOf[Any, str]:
        if asked.handle not in self._handles:
            known = ", ".join(sorted(self._handles)) or "none"
            return fail(f"unknown handle {asked.handle[:80]!r}. The handles of this conversation: {known}")

        def select(data: bytes) -> Result[Any, str]:
            record = msgspec.json.decode(data, type=_Record)
            shown = record.value if record.shown is msgspec.UNSET else record.shown
            return _select(shown, asked, max(self._rule.max_tokens * _BYTES_OF_TOKEN, _LEAST))

        def read(data: bytes | None) -> EffectOf[Any, str]:
            if data is None:
                return fail("the store no longer contains this result. Call its tool again.")
            selecting: EffectOf[Result[Any, str]] = attempt_work(
                lambda: select(data), lambda _: None, in_thread=len(data) > _LARGE
            )
            return selecting.flat_map(lambda one: Succeed(one.unwrap()) if is_successful(one) else fail(one.failure()))

        got = self._work(lambda: self._rule.store.get(asked.handle))
        return got.map_error(lambda error: f"the result could not be read: {error}").flat_map(read)


# -- previews


def _preview(shown: Any, handle: str | None, most: int) -> JsonObject:
    """Return the form of a large result for the model and the history."""
    text = _text(shown)
    made: JsonObject = {"preview": text[: max(most - _LEAST, _LEAST)], "bytes": len(text.encode(errors="replace"))}
    if is_array(shown) or is_object(shown):
        made["items"] = len(shown)
    note = f"This is the start of a large result. Read the rest with {_NAME}."
    if handle is None:
        return {**made, "note": "This is the start of a large result. The rest could not be stored."}
    return {"handle": handle, **made, "note": note}


def _text(value: Any) -> str:
    """Return a value as text, with a description instead of binary data."""
    plain = _plain(value)
    return plain if isinstance(plain, str) else msgspec.json.encode(plain).decode()


def _plain(value: Any) -> Any:
    """Return a value with descriptions instead of binary data, or the value itself if it is too deep."""
    try:
        return _describe_binary(value)
    except RecursionError:
        return value


def _describe_binary(value: Any) -> Any:
    if isinstance(value, str):
        found = _binary(value)
        return value if found is None else f"({found[0]}, {len(found[1])} bytes)"
    if is_array(value):
        return [_describe_binary(one) for one in value]
    if is_object(value):
        return {key: _describe_binary(one) for key, one in value.items()}
    return value


def _binary(text: str) -> tuple[str, bytes] | None:
    """Return the media type and the bytes of base64 data of a known type, or None."""
    try:
        if len(text) < _BINARY or media_type_of(b64decode(text[:_BINARY], validate=True), "") == "":
            return None
        data = b64decode(text, validate=True)
    except (NotBase64, ValueError):
        return None
    return media_type_of(data, ""), data


# -- parts of a result


def _select(shown: Any, asked: ReadResult, most: int) -> Result[Any, str]:
    if asked.pointer and not asked.pointer.startswith("/"):
        return Failure(f"pointer must be empty or start with '/', got {asked.pointer[:80]!r}")
    found = value_at(shown, pointer_tokens(asked.pointer))
    if found is MISSING:
        return Failure(f"nothing is at the pointer {asked.pointer[:80]!r}")
    if asked.search:
        return Success(_matches(found, asked, most))
    file = _file(found)
    if isinstance(file, list):
        return Success(file)
    return Success(_page(found if file is None else file, asked, most))


def _file(value: Any) -> list[Any] | str | None:
    """Return the text of a text file, the contents of another file, or None for another value."""
    label, data = "", value
    if is_object(value) and value.get("type") == "file":
        label, data = str(value.get("media_type", "")), value.get("data")
    if not isinstance(data, str):
        return None
    if label.startswith("text/") or label in ("application/json", "application/xml"):
        try:
            return b64decode(data, validate=True).decode()
        except (NotBase64, ValueError):
            return None
    if label:
        return [value]
    found = _binary(data)
    return None if found is None else [{"type": "file", "media_type": found[0], "data": data}]


def _page(value: Any, asked: ReadResult, most: int) -> JsonObject:
    """Return a page of text, items, or members that has at most `most` bytes, or a single cut item."""
    if not (is_array(value) or is_object(value)):
        text = value if isinstance(value, str) else _text(value)
        part = text[asked.offset : asked.offset + most // _BYTES_OF_TOKEN]
        return _with_next({"text": part}, asked.offset, len(part), len(text))
    entries = [*value.items()] if is_object(value) else [*enumerate(value)]
    page: JsonObject = {}
    size = 0
    for key, one in entries[asked.offset :]:
        entry = _short(one, asked.pointer, key, most)
        size += len(msgspec.json.encode([str(key), entry]))
        if page and size > most:
            break
        page[str(key)] = entry
    return _with_next({"items": page}, asked.offset, len(page), len(entries))


def _short(value: Any, pointer: str, key: str | int, most: int) -> Any:
    """Return an entry of a page. A large entry is a preview with its pointer."""
    plain = _plain(value)
    text = msgspec.json.encode(plain)
    if len(text) <= most // 2:
        return plain
    return {"preview": text[:_LEAST].decode(errors="ignore"), "bytes": len(text), "pointer": pointer_to(pointer, key)}


def _with_next(page: JsonObject, offset: int, count: int, total: int) -> JsonObject:
    more = {"next_offset": offset + count} if offset + count < total else {}
    return {**page, "offset": offset, "total": total, **more}


def _matches(value: Any, asked: ReadResult, most: int) -> JsonObject:
    """Return the places of a text, without a distinction of capital letters, at most 20 at a time."""
    wanted = asked.search.casefold()
    found: list[JsonObject] = []
    size = count = 0
    for pointer, text, at in _locations(value, asked.pointer, wanted):
        count += 1
        if count <= asked.offset or len(found) == _MOST_MATCHES or size > most:
            continue
        part = text[max(at - _AROUND, 0) : at + len(wanted) + _AROUND]
        size += len(part) + len(pointer)
        found.append({"pointer": pointer, "offset": at, "text": part})
    return _with_next({"matches": found}, asked.offset, len(found), count)


def _locations(value: Any, pointer: str, wanted: str) -> Iterator[tuple[str, str, int]]:
    waiting: list[tuple[str, Any]] = [(pointer, value)]
    while waiting:
        location, one = waiting.pop()
        if is_object(one):
            entries: Iterable[tuple[Any, Any]] = one.items()
            for key, _ in entries:
                if wanted in str(key).casefold():
                    yield pointer_to(location, str(key)), str(key), 0
            waiting += [(pointer_to(location, str(key)), inner) for key, inner in reversed([*one.items()])]
        elif is_array(one):
            waiting += [(pointer_to(location, index), one[index]) for index in range(len(one) - 1, -1, -1)]
        else:
            text = one if isinstance(one, str) else msgspec.json.encode(one).decode()
            folded, at = text.casefold(), 0
            while (at := folded.find(wanted, at)) >= 0:
                yield location, text, at
                at += len(wanted)
