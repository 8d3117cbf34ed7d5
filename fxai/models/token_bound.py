"""Token bounds: compute the maximum number of tokens in a request and its answer. `limit` uses this module.

>>> from fxai.messages.message import FilePart
>>> from fxai.messages.prompt import Prompt
>>> bound = BytesBound()(ModelRequest(Prompt.make("How are you today?")))
>>> bound.tokens > len("How are you today?"), bound.gap
(True, None)
>>> picture = FilePart.of_url("image/png", "https://example.org/cat.png")
>>> BytesBound()(ModelRequest(Prompt.make([{"role": "user", "content": [picture]}]))).gap
'a file (image/png), whose tokens depend on its contents'
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final, Literal, TypeAlias, final

import msgspec

from fxai.effects import fx
from fxai.effects.effect import Effect
from fxai.messages.errors import AiError
from fxai.messages.message import FilePart, Message
from fxai.messages.prompt import Prompt
from fxai.messages.reason import InvalidRequestError, InvalidUserInputError
from fxai.messages.wire import MessageError
from fxai.models.language_model import LanguageModel
from fxai.models.model_request import ModelRequest
from fxai.models.prepared_tools import contents_of
from fxai.models.request_cache import RequestCache
from fxai.models.token_count import TokenCount
from fxai.models.usage_limit import Extent
from fxai.tools.tool import Tool

_PER_MESSAGE: Final = 64  # tokens that a provider can add to a message or a tool
_PER_REQUEST: Final = 256
_FOR_TOOLS: Final = 1024  # instructions of providers for tool calls or a schema, which have up to 800 tokens
_PER_FILE: Final = 5000  # more than large providers count for an image
_MARGIN: Final = 50  # a count can be wrong by 1 of 50 tokens
_SURPLUS: Final = 64  # and by this number of tokens

_TEXTS: Final = ("text/", "application/json", "application/xml")


Estimate: TypeAlias = Callable[[ModelRequest], int] | Literal["bytes", "count"]
"""The maximum number of input tokens of a request.

`"bytes"`: one token for each byte of its text. `"count"`: the count of the provider, which is a separate request, or of
the model's own tokenizer, plus 2 %; without a count, `"bytes"`. A function returns the number itself.
"""

Unbounded: TypeAlias = Literal["admit", "refuse"]
"""The treatment of a request with an unknown maximum: admit it with an estimate, or refuse it."""


@final
class InputBound(msgspec.Struct, frozen=True):
    """The maximum number of tokens in an input."""

    tokens: int
    gap: str | None = None
    """The part of the request that can exceed its share of `tokens`, or None."""


_Sum: TypeAlias = tuple[int, str | None]


@final
class BytesBound:
    """The maximum number of tokens in a request: a token for each byte of its text, and some for each message and tool.

    A token of any known tokenizer has at least one byte. Images, audio, documents, and data that the provider fetches
    are not text. They count as their bytes plus 5,000 tokens each, and the bound reports them as a gap.

    It does not count messages again that an earlier request contained.
    """

    def __init__(self) -> None:
        self._cache: RequestCache[_Sum, _Sum] = RequestCache()

    def __call__(self, request: ModelRequest) -> InputBound:
        """Return the bound of a request. Raise `MessageError` if a payload of a message is not a JSON value."""
        prompt = request.prompt
        sum_, known, weight = self._cache.take(prompt, self) or ((0, None), 0, 0.0)
        for at in range(known, len(prompt)):
            sum_ = _add(sum_, _of_message(prompt[at]))
        self._cache.keep(prompt, self, sum_, weight + 8 * (len(prompt) - known))
        if request.tools:
            sum_ = _add(sum_, self._cache.tools(request.tools, (), lambda: _of_tools(request.tools)))
        schema = request.response_schema
        if schema is not None:
            sum_ = _add(sum_, (_FOR_TOOLS + len(msgspec.json.encode(schema.to_dict())), None))
        if request.provider_options:
            size = len(msgspec.json.encode(dict(request.provider_options), enc_hook=repr))
            sum_ = _add(sum_, (size, "provider_options, which can contain anything"))
        return InputBound(sum_[0] + _PER_REQUEST, sum_[1])


def bytes_of_texts(texts: tuple[str, ...]) -> int:
    """Return the maximum number of tokens in strings for an embedding model."""
    return sum(len(text.encode("utf-8", "surrogatepass")) + _PER_MESSAGE for text in texts)


def _add(one: _Sum, other: _Sum) -> _Sum:
    return one[0] + other[0], one[1] or other[1]


def _of_message(message: Message) -> _Sum:
    size = len(Prompt((message,)).to_json().encode("utf-8", "surrogatepass")) + _PER_MESSAGE
    gap: str | None = None
    for file in _files(message):
        if not isinstance(file.data, bytes) or not file.media_type.startswith(_TEXTS):
            size += _PER_FILE
            gap = gap or f"a file ({file.media_type}), whose tokens depend on its contents"
    return size, gap


def _files(message: Message) -> Iterator[FilePart]:
    """Yield the files in a message and its results."""
    for part in () if message.role == "system" else message.content:
        if part.type == "file":
            yield part
        elif part.type == "tool-result":
            yield from (one for one in contents_of(part, "file") or () if one.type == "file")


def _of_tools(tools: tuple[Any, ...]) -> _Sum:
    size, gap = _FOR_TOOLS, None
    for tool in tools:
        own = Tool.is_provider_defined(tool)
        gap = gap or (f"the provider's own tool {tool.name!r}, whose results are input" if own else None)
        schema = None if own else tool.json_schema()
        size += len(msgspec.json.encode([tool.name, tool.description, schema], enc_hook=repr)) + _PER_MESSAGE
        size += _PER_FILE if own else 0
    return size, gap


@final
class RequestBounds:
    """The bounds of requests by the options of `limit`."""

    def __init__(self, estimate: Estimate, unbounded: Unbounded, max_tokens: int | None, *, is_needed: bool) -> None:
        self._estimate = estimate
        self._bytes = BytesBound()
        self._refuses = unbounded == "refuse"
        self._max_tokens = max_tokens
        self._is_needed = is_needed

    def of(self, request: ModelRequest, model: LanguageModel) -> Effect[Extent, AiError]:
        """Return the maximum number of tokens in a request and its answer.

        Fails with:
            AiError: If the maximum is unknown but required, or the provider fails to count.
        """
        if not self._is_needed:
            return fx.succeed(Extent(0, 0))
        answer = self._max_tokens if request.max_tokens is None else request.max_tokens
        if answer is None:
            problem = "is missing, but tokens or money are limited. Pass it to the request, or limit(…, max_tokens=…)"
            return fx.fail(AiError("limit", "ask", InvalidRequestError("max_tokens", problem)))
        if answer < 1:
            return fx.fail(
                AiError("limit", "ask", InvalidRequestError("max_tokens", f"must be at least 1, got {answer}"))
            )
        return self._input(request, model).flat_map(lambda bound: self._check(bound, answer))

    def _input(self, request: ModelRequest, model: LanguageModel) -> Effect[InputBound, AiError]:
        if not isinstance(self._estimate, str):
            return fx.succeed(InputBound(max(self._estimate(request), 0)))
        by_bytes = fx.attempt(lambda: self._bytes(request), MessageError).map_error(
            lambda error: AiError("limit", "ask", InvalidUserInputError(str(error)))
        )
        if self._estimate == "bytes":
            return by_bytes

        def read(count: TokenCount) -> Effect[InputBound, AiError]:
            if count.is_estimate:
                return by_bytes
            most = InputBound(count.tokens + count.tokens // _MARGIN + _SURPLUS)
            return by_bytes.map(lambda known: _of_count(most, known, request))

        return model.count(request).flat_map(read)

    def _check(self, bound: InputBound, answer: int) -> Effect[Extent, AiError]:
        if bound.gap is None or not self._refuses:
            return fx.succeed(Extent(bound.tokens, answer))
        remedy = "Pass a function as limit(…, estimate=…), or unbounded='admit' to count it afterwards"
        problem = f"contains {bound.gap}: the maximum number of its tokens is unknown. {remedy}"
        return fx.fail(AiError("limit", "ask", InvalidRequestError("prompt", problem)))


def _of_count(most: InputBound, by_bytes: InputBound, request: ModelRequest) -> InputBound:
    """Return the counted bound. Its gap is the data that a provider fetches later, which no count includes."""
    own = any(map(Tool.is_provider_defined, request.tools))
    gap = by_bytes.gap if own or request.provider_options else None
    return msgspec.structs.replace(most, gap=gap)
