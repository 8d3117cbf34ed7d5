"""Descriptions: the rules of a schema in words, where a provider has no keyword for them; the model reads them.

>>> described({"type": "integer"}, [], ["The page"], ["a value between 1 and 9"])
{'type': 'integer', 'description': 'The page; a value between 1 and 9'}
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any, Final

from fxai.schema.strict.location import Site

__all__ = ["described", "length_words", "null_words", "number_words", "said_of", "told_keyword"]

_LONGEST: Final = 400


def described(
    schema: dict[str, Any], first: Sequence[str], words: Sequence[str], checks: Sequence[str]
) -> dict[str, Any]:
    """The schema with a description: of the rewritten form, of the original, and of what is checked afterwards."""
    parts = [*first, *words, " and ".join(checks)]
    text = ""
    for part in filter(None, dict.fromkeys(parts)):
        link = "" if not text else " " if text.rstrip().endswith((".", "!", "?", ":")) else "; "
        text += link + part
    if not text:
        return schema
    kind = {"type": schema["type"]} if "type" in schema else {}
    return {**kind, "description": text, **{keyword: said for keyword, said in schema.items() if keyword != "type"}}


def said_of(sites: Sequence[Site]) -> tuple[str | None, list[str]]:
    """The title, and the sentences that schemas say of their value beside what they hold it to."""
    titles = [site.get("title") for site in sites if isinstance(site.get("title"), str)]
    words = [text for site in sites if isinstance(text := site.get("description"), str) and text]
    for site in sites:
        words += _beside(site)
    return (titles[0] if titles else None), words


def _beside(site: Site) -> Iterator[str]:
    if site.get("default") is not None:
        yield f"default: {_json(site.get('default'))}"
    if site.get("examples"):
        yield f"examples: {', '.join(map(_json, site.get('examples')))}"
    if site.get("deprecated") is True:
        yield "deprecated"


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def length_words(least: int | None, most: int | None) -> Iterator[str]:
    """The words for bounds of a length."""
    if least:
        yield f"a value with a length of at least {least}"
    if most is not None:
        yield f"a value with a length of at most {most}"


def number_words(low: Any, above: Any, high: Any, below: Any, steps: Sequence[Any]) -> Iterator[str]:
    """The words for bounds of a number: at least, above, at most, below, and multiples."""
    if low is not None and high is not None:
        yield f"a value between {low} and {high}"
    elif low is not None:
        yield f"a value greater than or equal to {low}"
    elif high is not None:
        yield f"a value less than or equal to {high}"
    if above is not None:
        yield f"a value greater than {above}"
    if below is not None:
        yield f"a value less than {below}"
    for step in steps:
        yield f"a value that is a multiple of {step}"


def null_words(mark: str) -> str:
    """The words for null at a property that may be left out; `mark` names what stands for a null of its own."""
    if not mark:
        return "null is taken as left out, not as a null"
    return f'null is taken as left out, {{"{mark}": true}} as a null'


def told_keyword(keyword: str, said: Any) -> str:
    """The words for any other keyword: itself, where it is short enough to be read."""
    if keyword == "uniqueItems":
        return "no two items alike"
    text = f"JSON Schema {keyword}: {_json(said)}"
    return text if len(text) <= _LONGEST else ""
