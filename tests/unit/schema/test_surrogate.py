"""Half surrogate pairs: what is replaced, and what stays the same object."""

from __future__ import annotations

import dataclasses
from typing import Any, NamedTuple

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from fxai.schema.surrogate import is_whole_text, mend_data, mend_text
from tests.kit.every import every

HALF, WHOLE = "a\udce9", "a\ufffd"


class _Pair(NamedTuple):
    a: str
    b: int


class _Struct(msgspec.Struct, frozen=True):
    a: str
    b: list[str]


@dataclasses.dataclass(frozen=True)
class _Data:
    a: str


@every(
    ("value", "mended"),
    [
        (HALF, WHOLE),
        ({"k": [HALF, 1, None]}, {"k": [WHOLE, 1, None]}),
        ({HALF: 1}, {WHOLE: 1}),
        ({HALF: 1, WHOLE: 2}, {f"{WHOLE}_2": 1, WHOLE: 2}),
        ({HALF: 1, "a\udcea": 2}, {WHOLE: 1, f"{WHOLE}_2": 2}),
        ((HALF, {HALF}), (WHOLE, {WHOLE})),
        (_Pair(HALF, 1), _Pair(WHOLE, 1)),
        (_Struct(HALF, [HALF]), _Struct(WHOLE, [WHOLE])),
        (_Data(HALF), _Data(WHOLE)),
    ],
)
def test_each_half_is_replaced(value: Any, mended: Any) -> None:
    """At every place of a value, keys included; equal keys get a number, so no value is lost."""
    assert mend_data(value) == mended
    assert type(mend_data(value)) is type(value)


@every("value", [object(), {"a": object()}, [float("nan")], _Struct("a", ["b"]), {"a": [1, {"b": "é"}]}, b"a", 3])
def test_a_whole_value_is_itself(value: Any) -> None:
    """Also a value that JSON cannot carry for another reason."""
    assert mend_data(value) is value


def test_a_value_that_contains_itself_is_itself() -> None:
    """The writer of the value reports the problem."""
    loop: list[Any] = [HALF]
    loop.append(loop)

    assert mend_data(loop) is loop


@given(st.text(st.characters(exclude_categories=())))
def test_a_mended_text_is_whole(text: str) -> None:
    """UTF-8 has a form for it, and a whole text does not change."""
    mended = mend_text(text)

    assert mended.encode().decode() == mended
    assert is_whole_text(mended)
    assert mend_text(mended) is mended
    assert (mended is text) == is_whole_text(text)
