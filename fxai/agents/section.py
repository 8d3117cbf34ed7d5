r"""Sections: the parts of a system prompt that a render defines, each between a tag of its name.

Text cannot close its section, nor open another: in the text of a system every `<` is escaped but those of references
to tools, which are no sections; in data every one.

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
from typing_extensions import override

from fxai.agents.state import RenderError
from fxai.schema.codec import Schema
from fxai.schema.fault import DecodeError, SchemaError

Kind: TypeAlias = Literal["tool", "system", "data"]
"""What a name is the name of."""

_WRAPPER: Final = "data"
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]{0,63}")
_TAG = re.compile(r"<[^<>]*>|<")
_MENTION = re.compile(r"<[\w.:-]+>")
_PLAIN_KEY = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*")
_WORDS = frozenset({"true", "false", "null", "yes", "no", "on", "off", "y", "n"})  # no strings in YAML, in any case
_DEEPEST = 128  # levels of data


@lru_cache(1024)  # the names of tools, in each step
def reference_to(name: str) -> str:
    """A name as texts mention it.

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
    """The text of a system; the value of data."""

    @override
    def __hash__(self) -> int:
        return hash((self.kind, self.name))  # the value may be plain data

    def check(self) -> Section:
        """Itself.

        Raises:
            RenderError: it cannot be called so, or the text of a system is no string.
        """
        if not isinstance(cast(object, self.name), str) or not _NAME.fullmatch(self.name) or self.name == _WRAPPER:
            taken = f"; {_WRAPPER!r} is what stands around all data" if self.name == _WRAPPER else ""
            raise RenderError(
                "name",
                f"no section can be called {self.name!r}: give a letter or _, then letters, digits, _, - and ., at "
                f"most 64 in all{taken}",
            )
        if self.kind == "system" and not isinstance(self.value, str):
            raise RenderError("value", f"the text of the system {self.name!r} is a string, not {self.value!r}")
        return self

    def text(self, references: frozenset[str] = frozenset()) -> str:
        """The section with its tags; `references` are the texts that may stand in that of a system as they are.

        Raises:
            RenderError: data is nothing that JSON can hold, or too deep.
        """
        if self.kind == "system":
            inside = _escape(self.value, references)
        elif isinstance(self.value, str):
            inside = _escape(self.value, frozenset())
        else:
            inside = "\n".join(_lines(self.value, self.name, 0))
        return f"<{self.name}>\n{inside}\n</{self.name}>"


@final
class SectionWriter:
    """Writes the sections of each step of a run as a system prompt. Data that stays is written once.

    >>> writer = SectionWriter()
    >>> print(writer.write([Section("data", "sizes", [7, 8]), Section("system", "role", "You add.")]))
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

    __slots__ = ("_written",)

    def __init__(self) -> None:
        self._written: dict[str, tuple[bytes, str]] = {}  # of the last step, by name: the data as bytes, and its text

    def write(self, sections: Iterable[Section], references: frozenset[str] = frozenset()) -> str:
        """The systems in order, then all data; empty where there are none.

        Raises:
            RenderError: data is nothing that JSON can hold, or too deep.
        """
        return join_sections(self.texts(sections, references))

    def texts(self, sections: Iterable[Section], references: frozenset[str] = frozenset()) -> dict[str, SectionText]:
        """Return the text of each section with its tags, by name: the systems in order, then all data.

        Raises:
            RenderError: If data is nothing that JSON can contain, or too deep.
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
    """A section as it is written."""

    kind: Literal["system", "data"]
    text: str
    """The text with its tags."""


def join_sections(texts: Mapping[str, SectionText]) -> str:
    """Return the system prompt of sections, all data between one pair of tags."""
    systems = [one.text for one in texts.values() if one.kind == "system"]
    data = [one.text for one in texts.values() if one.kind == "data"]
    if data:
        systems.append("\n".join((f"<{_WRAPPER}>", *data, f"</{_WRAPPER}>")))
    return "\n".join(systems)


def _mentions(references: frozenset[str], sections: tuple[Section, ...]) -> frozenset[str]:
    """The references that no tag of a section looks like: servers call their tools as they like."""
    tags = {_WRAPPER, *(section.name.lower() for section in sections)}
    return frozenset(one for one in references if _MENTION.fullmatch(one) and one[1:-1].lower() not in tags)


def _image(value: Any) -> bytes | None:
    """What is the same for data that is written alike, and soon made; None where there is no such thing."""
    try:
        image = msgspec.json.encode(value)
        # What is no number is null in JSON, and not in what is written.
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
        raise RenderError("value", f"the data {name!r} is more than {_DEEPEST} levels deep, or holds itself")
    plain = _plain(value, name)
    if not plain or isinstance(plain, str | int | float):
        yield _scalar(plain)
    elif isinstance(plain, Mapping):
        for key, each in cast(Any, plain).items():
            inside = list(_lines(each, name, depth + 1))
            is_block = _is_block(each, name)
            yield f"{_key(key)}:" if is_block else f"{_key(key)}: {inside[0]}"
            if is_block:
                yield from (f"  {line}" for line in inside)
    else:
        for each in plain:
            first, *rest = _lines(each, name, depth + 1)
            yield f"- {first}"
            yield from (f"  {line}" for line in rest)


def _is_block(value: Any, name: str) -> bool:
    plain = _plain(value, name)
    return bool(plain) and isinstance(plain, Mapping | list)


def _plain(value: Any, name: str) -> Any:
    """An object, a list or a scalar; what is in it may be anything yet."""
    if value is None or isinstance(value, str | int | float | list | Mapping):
        return cast(Any, value)
    if isinstance(value, tuple):
        return list(cast(Any, value))
    try:
        return msgspec.to_builtins(value, order="deterministic", str_keys=True)
    except (TypeError, ValueError, RecursionError) as error:
        return _encode(value, name, error)


def _encode(value: Any, name: str, refused: Exception) -> Any:
    """Return the JSON data of a value that `msgspec` refused, such as a model, by the schema of its type."""
    tp = cast(object, value).__class__
    try:
        return Schema[Any].of(tp).encode_unsafe(value)
    except (SchemaError, NameError, DecodeError) as error:
        why = error if isinstance(error, DecodeError) else refused
        raise RenderError("value", f"the data {name!r} holds what JSON cannot: {why}") from None


def _key(key: Any) -> str:
    text = key if isinstance(key, str) else str(key)
    return text if _PLAIN_KEY.fullmatch(text) and text.lower() not in _WORDS else _scalar(text)


def _scalar(value: Any) -> str:
    if isinstance(value, float) and value - value != 0:  # NaN and the infinities
        return ".nan" if value != value else (".inf" if value > 0 else "-.inf")
    text = json.dumps(value, ensure_ascii=False)
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")
