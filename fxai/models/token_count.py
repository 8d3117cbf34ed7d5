"""Tokens that a request takes: what a provider or a tokenizer counts, and an estimate where neither can be asked.

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

from fxai.messages.message import Content, FilePart
from fxai.messages.part import WarningPart
from fxai.messages.prompt import Prompt
from fxai.models.model_request import ModelRequest
from fxai.schema.data import JSON_ERRORS, is_object
from fxai.tools.tool import Tool

CountMethod: TypeAlias = Literal["provider", "tokenizer", "estimate"]
"""How tokens were counted: by the provider that was asked, by the model's own tokenizer in this process, or not at all:
an estimate from the length of the texts."""

_BYTES_OF_TOKEN = 4
_OF_MESSAGE = 4  # tokens, for its role
_OF_PICTURE = 1500  # tokens; what the large providers count for a megapixel
_OF_TOOL = 8  # tokens, for what stands around a tool's definition


@final
class TokenCount(msgspec.Struct, frozen=True):
    """The tokens that a request takes before it is answered: its messages, its tools, the schema of its answer."""

    tokens: int
    """How many."""
    method: CountMethod
    """How they were counted."""
    warnings: tuple[WarningPart, ...] = ()
    """What of the request was not counted, or why there is an estimate where a provider was asked."""

    @property
    def is_estimate(self) -> bool:
        """Whether nothing counted them: the number may be off by half, and by more for other languages and for code."""
        return self.method == "estimate"


def estimate_request(request: ModelRequest, why: str | None = None) -> TokenCount:
    """The estimate for a whole request, with its tools and the schema of its answer; no one is asked.

    Args:
        request: what would be asked.
        why: why there is no count, as a warning of the estimate.
    """
    tokens = estimated_tokens(request.prompt) + sum(map(_of_tool, request.tools))
    if request.response_schema is not None:
        tokens += _of_data(request.response_schema.to_dict())
    warnings = () if why is None else (WarningPart(why, subject="count_tokens"),)
    return TokenCount(tokens, "estimate", warnings)


def read_count(body: bytes) -> int | None:
    """The number of tokens in the answer of a server that was asked to count them; None where there is none.

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
    """About how many tokens messages take: an estimate for English text, with no tokenizer asked.

    A token for 4 bytes of UTF-8 in texts, names, parameters and results, 4 for each message, 1,500 for each picture
    and each file that is named by its address. Other languages and code take up to twice as many.

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
        case "file":
            return _of_file(part)
        case "tool-call":
            return _of_data([part.name, part.params])
        case "tool-result":
            return _of_data([part.name, part.result])
        case "tool-approval-request" | "tool-approval-response":
            return _OF_MESSAGE


def _of_file(part: FilePart) -> int:
    if isinstance(part.data, bytes) and not part.media_type.startswith("image/"):
        return _of_bytes(len(part.data))
    return _OF_PICTURE


def _of_tool(tool: Tool[Any, Any, Any]) -> int:
    schema = None if Tool.is_provider_defined(tool) else tool.json_schema()
    return _OF_TOOL + _of_data([tool.name, tool.description, schema])


def _of_text(text: str) -> int:
    return _of_bytes(len(text.encode("utf-8", "surrogatepass")))


def _of_data(data: object) -> int:
    try:
        return _of_bytes(len(msgspec.json.encode(data, enc_hook=repr)))
    except UnicodeEncodeError:  # half of a surrogate pair, which a model may write
        return _of_text(repr(data))


def _of_bytes(count: int) -> int:
    return -(-count // _BYTES_OF_TOKEN)
