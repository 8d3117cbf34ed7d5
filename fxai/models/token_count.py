"""Token counts: count the tokens in a request with a provider or a tokenizer, or estimate them.

>>> from fxai.messages.prompt import Prompt
>>> estimated_tokens(Prompt.make("How are you today?"))
9
>>> count = estimate_request(ModelRequest(Prompt.make("How are you today?")))
>>> count.tokens, count.is_estimate
(9, True)
"""

from __future__ import annotations

from typing import Any, Literal, TypeAlias, final

import msgspec

from fxai.messages.message import Content
from fxai.messages.part import WarningPart
from fxai.messages.prompt import Prompt
from fxai.models.model_request import ModelRequest
from fxai.schema.data import JSON_ERRORS, is_object
from fxai.tools.tool import AnyTool, Tool

CountMethod: TypeAlias = Literal["provider", "tokenizer", "estimate"]
"""The method of a token count: the provider, the model's own tokenizer in this process, or an estimate from the length
of the text."""

_BYTES_OF_TOKEN = 4
_OF_MESSAGE = 4  # tokens for the role of a message
_OF_PICTURE = 1500  # tokens for an image; large providers count this number for a megapixel
_OF_TOOL = 8  # tokens around the definition of a tool


@final
class TokenCount(msgspec.Struct, frozen=True):
    """The number of input tokens of a request: its messages, its tools, and the schema of its answer."""

    tokens: int
    """The number of tokens."""
    method: CountMethod
    """The method of the count."""
    warnings: tuple[WarningPart, ...] = ()
    """Warnings about parts without a count, or about the reason of an estimate."""

    @property
    def is_estimate(self) -> bool:
        """True if the number is an estimate. Its error can be 50 %, or more for other languages and for code."""
        return self.method == "estimate"


def estimate_request(request: ModelRequest, why: str | None = None) -> TokenCount:
    """Return the estimate for a whole request, with its tools and the schema of its answer. It sends no request.

    With `why`, the reason why no count exists, the estimate contains a warning.
    """
    tokens = estimated_tokens(request.prompt) + sum(map(_of_tool, request.tools))
    if request.response_schema is not None:
        tokens += _of_data(request.response_schema.to_dict())
    warnings = () if why is None else (WarningPart(why, subject="count_tokens"),)
    return TokenCount(tokens, "estimate", warnings)


def read_count(body: bytes) -> int | None:
    """Return the number of tokens in the response of a server, or None if it contains no number.

    >>> read_count(b'{"object": "response.input_tokens", "input_tokens": 11}'), read_count(b"<html>")
    (11, None)
    """
    try:
        count: Any = msgspec.json.decode(body)
    except JSON_ERRORS:
        return None
    tokens = count.get("input_tokens") if is_object(count) else None
    return tokens if isinstance(tokens, int) and not isinstance(tokens, bool) and tokens >= 0 else None


def estimated_tokens(messages: Prompt) -> int:
    """Return an estimate of the number of tokens of messages, for English text and without a tokenizer.

    It counts 1 token for 4 bytes of UTF-8 in text, names, parameters, and results. It adds 4 tokens for each message,
    and 1,500 for each image and each file with an address. Other languages and code can need twice this number.

    >>> estimated_tokens(Prompt.make("How are you today?"))
    9
    """
    tokens = 0
    for one in messages:
        tokens += _OF_MESSAGE
        tokens += _of_text(one.content) if one.role == "system" else sum(map(_of_part, one.content))
    return tokens


def _of_part(part: Content) -> int:
    match part.type:
        case "text" | "reasoning":
            return _of_text(part.text)
        case "file" if isinstance(part.data, bytes) and not part.media_type.startswith("image/"):
            return _of_bytes(len(part.data))
        case "file":
            return _OF_PICTURE
        case "tool-call":
            return _of_data([part.name, part.params])
        case "tool-result":
            return _of_data([part.name, part.result])
        case "tool-approval-request" | "tool-approval-response":
            return _OF_MESSAGE


def _of_tool(tool: AnyTool) -> int:
    schema = None if Tool.is_provider_defined(tool) else tool.json_schema()
    return _OF_TOOL + _of_data([tool.name, tool.description, schema])


def _of_text(text: str) -> int:
    return _of_bytes(len(text.encode("utf-8", "surrogatepass")))


def _of_data(data: object) -> int:
    try:
        return _of_bytes(len(msgspec.json.encode(data, enc_hook=repr)))
    except UnicodeEncodeError:  # half of a surrogate pair, which a model can write
        return _of_text(repr(data))


def _of_bytes(count: int) -> int:
    return -(-count // _BYTES_OF_TOKEN)
