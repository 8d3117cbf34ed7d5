r"""Sections: write the parts of a system prompt between tags. Renders use this module for `system` and `data`.

The text of a section cannot close its section or open another section. fxai escapes each `<` in data. In the text of a
system section it escapes each `<` except in references to tools.

>>> print(Section("system", "role", "You use <search>.").text(frozenset({"<search>"})))
<role>
You use <search>.
</role>
>>> print(Section("data", "customer", {"name": "Ann </customer>", "orders": [7, 8]}).text())
<customer>
name: "Ann \u003c/customer\u003e"
orders:
  - 7
  - 8
</customer>
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from typing import Any, Final, Literal, NamedTuple, TypeAlias, cast, final

import msgspec

from fxai.agents.state import RenderError
from fxai.schema.codec import Schema
from fxai.schema.fault import DecodeError, SchemaError

Kind: TypeAlias = Literal["tool", "system", "data"]
"""The kind of a definition."""

_WRAPPER: Final = "data"
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]{0,63}")
_TAG = re.compile(r"<[^<>]*>|<")
_MENTION = re.compile(r"<[\w.:-]+>")
_PLAIN_KEY = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*")
_WORDS = frozenset({"true", "false", "null", "yes", "no", "on", "off", "y", "n"})  # not strings in YAML, in any case
_DEEPEST = 128  # maximum depth of data


@lru_cache(1024)  # each step needs the names of its tools
def reference_to(name: str) -> str:
    """Return the reference to a name in prose.

    >>> reference_to("search"), reference_to("a<b")
    ('<search>', '<a&lt;b>')
    """
    return f"<{name.replace('<', '&lt;').replace('>', '&gt;')}>"


@final
class Section(msgspec.Struct, frozen=True):
    """A part of the system prompt."""

    kind: Literal["system", "data"]
    name: str
    value: Any
    """The text of a system section, or the value of a data section."""

    def check(self) -> Section:
        """Return the section itself if it is valid.

        Raises:
            RenderError: If the name is invalid, or the text of a system section is not a string.
        """
        if not isinstance(cast(object, self.name), str) or not _NAME.fullmatch(self.name) or self.name == _WRAPPER:
            taken = f" {_WRAPPER!r} is the tag around all data." if self.name == _WRAPPER else ""
            raise RenderError(
                "name",
                f"section name must be a letter or _, then letters, digits, _, - or ., at most 64 in all, "
                f"got {self.name!r}.{taken}",
            )
        if self.kind == "system" and not isinstance(self.value, str):
            raise RenderError("value", f"text of system {self.name!r} must be a string, got {self.value!r}")
        return self

    def text(self, references: frozenset[str] = frozenset()) -> str:
        """Return the section with its tags. `references` are the strings that stay unescaped in a system section.

        Raises:
            RenderError: If data is not a JSON value, or too deep.
        """
        if self.kind == "system":
            inside = _escape(self.value, references)
        elif isinstance(self.value, str):
            inside = _escape(self.value, frozenset())
        else:
            inside = "\n".join(_lines(self.value, self.name, 0))
        return f"<{self.name}>\n{inside}\n</{self.name}>"


@final
class SectionWriter(msgspec.Struct, eq=False):
    """A writer of the sections in each step as a system prompt. It writes unchanged data only once.

    >>> sections = [Section("data", "sizes", [7, 8]), Section("system", "role", "You add.")]
    >>> print(join_sections(SectionWriter().texts(sections)))
    <role>
    You add.
    </role>
    <data>
    <sizes>
    - 7
    - 8
    </sizes>
    </data>
    """

    _written: dict[str, tuple[bytes, str]] = {}  # data of the last step by name: its bytes, and its text

    def texts(self, sections: Iterable[Section], references: frozenset[str] = frozenset()) -> dict[str, SectionText]:
        """Return the text of each section with its tags, by name: first the system sections, then all data.

        Raises:
            RenderError: If data is not a JSON value, or too deep.
        """
        texts: dict[str, SectionText] = {}
        data: dict[str, SectionText] = {}
        written: dict[str, tuple[bytes, str]] = {}
        given = tuple(sections)
        mentions = _mentions(references, given)
        for section in given:
            if section.kind == "system":
                texts[section.name] = SectionText("system", section.text(mentions))
                continue
            image = _image(section.value)
            there = self._written.get(section.name)
            text = there[1] if there is not None and there[0] == image else section.text()
            data[section.name] = SectionText("data", text)
            if image is not None:
                written[section.name] = (image, text)
        self._written = written
        return texts | data


class SectionText(NamedTuple):
    """A section in its written form."""

    kind: Literal["system", "data"]
    text: str
    """The text with its tags."""


def join_sections(texts: Mapping[str, SectionText]) -> str:
    """Return the system prompt of sections, with all data between one pair of tags."""
    systems = [one.text for one in texts.values() if one.kind == "system"]
    data = [one.text for one in texts.values() if one.kind == "data"]
    if data:
        systems.append("\n".join((f"<{_WRAPPER}>", *data, f"</{_WRAPPER}>")))
    return "\n".join(systems)


def _mentions(references: frozenset[str], sections: tuple[Section, ...]) -> frozenset[str]:
    """Return the references that do not look like the tag of a section, because servers choose the tool names."""
    tags = {_WRAPPER, *(section.name.lower() for section in sections)}
    return frozenset(one for one in references if _MENTION.fullmatch(one) and one[1:-1].lower() not in tags)


def _image(value: Any) -> bytes | None:
    """Return bytes that are equal for data with equal text, or None if fxai cannot encode the data."""
    try:
        image = msgspec.json.encode(value)
        # JSON has null for NaN and infinities, but the text distinguishes them
        return image if b"null" not in image else image + msgspec.msgpack.encode(value)
    except (TypeError, ValueError, OverflowError, RecursionError):
        return None


def _escape(text: str, references: frozenset[str]) -> str:
    if "<" not in text:
        return text
    return _TAG.sub(lambda tag: tag[0] if tag[0] in references else f"&lt;{tag[0][1:]}", text)


# -- data as YAML in block style


def _lines(value: Any, name: str, depth: int) -> Iterator[str]:
    if depth > _DEEPEST:
        raise RenderError("value", f"data {name!r} is more than {_DEEPEST} levels deep, or contains itself")
    plain = _plain(value, name)
    if not plain or isinstance(plain, str | int | float):
        yield _scalar(plain)
    elif isinstance(plain, Mapping):
        for key, each in cast(Any, plain).items():
            inside = list(_lines(each, name, depth + 1))
            plain_each = _plain(each, name)
            is_block = bool(plain_each) and isinstance(plain_each, Mapping | list)
            yield f"{_key(key)}:" if is_block else f"{_key(key)}: {inside[0]}"
            if is_block:
                yield from (f"  {line}" for line in inside)
    else:
        for each in plain:
            first, *rest = _lines(each, name, depth + 1)
            yield f"- {first}"
            yield from (f"  {line}" for line in rest)


def _plain(value: Any, name: str) -> Any:
    """Return an object, a list, or a scalar. The values inside can have any type."""
    if value is None or isinstance(value, str | int | float | list | Mapping):
        return cast(Any, value)
    if isinstance(value, tuple):
        return list(cast(Any, value))
    try:
        return msgspec.to_builtins(value, order="deterministic", str_keys=True)
    except (TypeError, ValueError, RecursionError) as error:
        return _encode(value, name, error)


def _encode(value: Any, name: str, refused: Exception) -> Any:
    """Return the JSON value of a value that `msgspec` refused, such as a model, by the schema for its type."""
    tp = cast(object, value).__class__
    try:
        return Schema[Any].of(tp).encode_unsafe(value)
    except (SchemaError, NameError, DecodeError) as error:
        why = error if isinstance(error, DecodeError) else refused
        raise RenderError("value", f"data {name!r} contains a value without a JSON form: {why}") from None


def _key(key: Any) -> str:
    text = key if isinstance(key, str) else str(key)
    return text if _PLAIN_KEY.fullmatch(text) and text.lower() not in _WORDS else _scalar(text)


def _scalar(value: Any) -> str:
    if isinstance(value, float) and value - value != 0:  # NaN and the infinities
        return ".nan" if value != value else (".inf" if value > 0 else "-.inf")
    text = json.dumps(value, ensure_ascii=False)
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")
