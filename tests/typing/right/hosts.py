"""What the checkers infer of programs as models and as tools."""

from __future__ import annotations

from typing import assert_type

import msgspec

from fxai import ToolSource
from fxai.effects import Effect, Layer, fx
from fxai.messages import AiError, Response
from fxai.models import LanguageModel
from fxai.providers import host
from fxai.tools import HandlerOf, ToolError


class Sum(msgspec.Struct, frozen=True):
    a: int
    b: int


# --- a model's layer needs nothing, and a program with it can be run
model = host.model("./model", "--fast", format="json", takes=["tools"], params={"a": 1}, timeout=None)
assert_type(model, Layer[LanguageModel, AiError])
asked: Effect[Response, AiError | ToolError] = LanguageModel.generate_text("Hi").provide(model)
assert_type(fx.run(asked), Response)

# --- a tool is a source, typed in what goes in and what comes out
adding = host.tool("add", "./add", parameters=Sum, success=int, description="Adds.", lifetime="request")
assert_type(adding, ToolSource[HandlerOf[Sum, int, host.HostFailure], host.HostFailure])
anything = host.tool("add", "./add", parameters=Sum)
assert_type(anything, ToolSource[HandlerOf[Sum, object, host.HostFailure], host.HostFailure])
dynamic = host.tool("add", "./add", parameters={"type": "object"}, success=int)
assert_type(dynamic, ToolSource[HandlerOf[object, int, host.HostFailure], host.HostFailure])
