"""What the checkers infer of dynamic tools and schemas."""

from __future__ import annotations

from typing import Any, Never, assert_type

from returns.result import Failure, Result, Success

from fxai import DecodeFailure, HandlerOf, Schema, Tool
from fxai.effects import EffectOf, LayerOf
from tests.typing.desk import Query

raw = Tool.dynamic("raw", parameters={"type": "object"}, success=int)
assert_type(raw, Tool[object, int, Never])
assert_type(raw.handler(lambda _: Success(1)), LayerOf[HandlerOf[object, int, Never], Never, None])
assert_type(raw.call({"a": 1}), EffectOf[int, Never, HandlerOf[object, int, Never] | None])


def checked(given: Any) -> Result[Query, str]:
    return Success(Query(str(given))) if given else Failure("nothing")


typed = Tool.dynamic("typed", parameters={"type": "object"}, validation=checked)
assert_type(typed, Tool[Query, object, Never])
assert_type(Schema.of(Query).decode({}), Result[Query, DecodeFailure])
assert_type(Schema.of(int | None), Schema[int | None])
assert_type(Schema.of(list[Query]).encode_json_unsafe([]), bytes)
