"""What the checkers infer of dynamic tools and schemas."""

from __future__ import annotations

from typing import Any, Never, assert_type

from returns.result import Failure, Result, Success

from fxai import BoundToolkit, DecodeFailure, HandlerOf, Layer, Schema, Tool, Toolkit, bind, fx
from fxai.effects import EffectOf, Gen, LayerOf, Service
from fxai.tools import CallContext
from tests.typing.desk import Query


class Files(Service):
    """A service of handlers."""

    def read(self, path: str) -> str:
        return path


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


def on_raw(params: object) -> Result[int, Never]:
    return Success(1)


def on_raw_in_context(params: object, context: CallContext) -> Result[int, Never]:
    return Success(len(context.call_id))


def on_raw_with_files(params: object) -> Gen[int, Never, Files]:
    files = yield from Files
    return len(files.read("a"))


listed = Toolkit.of(Tool.dynamic(name, parameters={"type": "object"}, success=int) for name in ("a", "b"))
handlers = listed.to_layer_by_name({"a": on_raw, "b": on_raw_in_context})
fx.run(listed.call("a", {}).provide(handlers))
needing = listed.to_layer_by_name({"a": on_raw_with_files, "b": on_raw_with_files})
fx.run(listed.call("a", {}).provide(needing).provide(Layer.succeed(Files, Files())))
assert_type(bind(raw, on_raw), BoundToolkit[HandlerOf[object, int, Never], Never, None])
assert_type(bind(raw, on_raw_in_context), BoundToolkit[HandlerOf[object, int, Never], Never, None])
assert_type(bind(raw, on_raw_with_files), BoundToolkit[HandlerOf[object, int, Never], Never, Files | None])
