"""Validation by a raw JSON Schema: good data, one fault, six faults, and 100 objects of 20 fields.

In the first rows, the contenders receive parsed data and report all errors with their locations. Only `fastjsonschema`
stops at the first error. In the rows of calls, the contenders receive JSON text and return JSON text. `pydantic-ai`
and the runner of `anthropic` do not validate the arguments of a raw tool, and their handlers run with wrong arguments.
The section omits contenders that are not installed.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Iterator, Mapping
from importlib import import_module
from importlib.util import find_spec
from typing import Any, Final, Never, cast

from returns.result import Result, Success

from fxai.effects import runtime
from fxai.schema import JsonSchema
from fxai.tools import Tool, Toolkit
from tests.benchmarks.measure import FXAI, Budget, Work
from tests.benchmarks.rivals.raw_inputs import WORKS

__all__ = ["works"]

Validate = Callable[[Any], object]

LIST_FILES, GOOD = WORKS["valid"]
ONE, SIX = WORKS["one fault"][1], WORKS["six faults"][1]
ITEMS, MANY = WORKS["100 objects"]
_OBJECTS: Final = cast(Any, MANY)["items"]
WRONG: Final = {"items": [{**item, "integer3": "x"} if at == 50 else item for at, item in enumerate(_OBJECTS)]}


def works() -> Iterator[Work]:
    """Return the rows of raw tools, with the budgets that their specification states."""
    short, long = _contenders(LIST_FILES), _contenders(ITEMS)
    yield _work("valid arguments", short, GOOD, 1000)
    yield _work("one fault", short, ONE, 500, Budget(0, plus=15e-6))
    yield _work("six faults", short, SIX, 200, Budget(0, plus=40e-6), Budget(1, "jsonschema"))
    yield _work("100 objects of 20 fields", long, MANY, 10, Budget(0, plus=500e-6))
    yield _work("100 objects, one fault", long, WRONG, 10, Budget(0, plus=600e-6))
    loop = asyncio.new_event_loop()
    calls = loop.run_until_complete(_callers())
    for name, value in (("valid arguments", GOOD), ("one fault", ONE), ("six faults", SIX)):
        yield Work(f"call: {name}", {who: _called(loop, call, json.dumps(value)) for who, call in calls.items()}, 200)


def _work(name: str, contenders: Mapping[str, Validate], value: Any, times: int, *budgets: Budget) -> Work:
    def repeated(validate: Validate) -> Callable[[], object]:
        return lambda: [validate(value) for _ in range(times)]

    return Work(name, {who: repeated(validate) for who, validate in contenders.items()}, times, budgets)


def _contenders(document: dict[str, Any]) -> dict[str, Validate]:
    made = JsonSchema.of(document)
    found: dict[str, Validate] = {FXAI: made.validate}
    package: Any = import_module("jsonschema")
    validator = package.Draft202012Validator(document)
    found["jsonschema"] = lambda value: [(one.json_path, one.message) for one in validator.iter_errors(value)]
    if find_spec("jsonschema_rs") is not None:
        compiled: Any = import_module("jsonschema_rs").Draft202012Validator(document)
        found["jsonschema-rs"] = lambda value: [(one.instance_path, one.message) for one in compiled.iter_errors(value)]
    if find_spec("fastjsonschema") is not None:
        found["fastjsonschema"] = _first_fault(import_module("fastjsonschema"), document)
    return found


def _first_fault(package: Any, document: dict[str, Any]) -> Validate:
    validate = package.compile(document)

    def first(value: Any) -> object:
        try:
            return validate(value)
        except package.JsonSchemaException as error:
            return error

    return first


# ---- calls of a raw tool, from JSON text to JSON text

_Call = Callable[[str], Awaitable[object]]


def _called(loop: asyncio.AbstractEventLoop, call: _Call, text: str) -> Callable[[], object]:
    async def repeated() -> None:
        for _ in range(200):
            await call(text)

    return lambda: loop.run_until_complete(repeated())


async def _callers() -> dict[str, _Call]:
    found: dict[str, _Call] = {FXAI: await _fxai()}
    if find_spec("pydantic_ai") is not None:
        found["pydantic-ai"] = await _pydantic_ai()
    if find_spec("anthropic") is not None:
        found["anthropic"] = _anthropic()
    return found


async def _fxai() -> _Call:
    tool = Tool.dynamic("list_files", parameters=LIST_FILES)
    kit = Toolkit.make(tool)

    def handler(given: object) -> Result[object, Never]:
        return Success(given)

    layer: Any = kit.to_layer(tool.handler(handler))
    served: Any = await runtime(layer).__aenter__()

    async def call(text: str) -> object:
        outcome = await served.run(kit.call_json("list_files", text))
        return outcome.encoded_json

    return call


async def _pydantic_ai() -> _Call:
    package: Any = import_module("pydantic_ai")
    messages, errors = import_module("pydantic_ai.messages"), import_module("pydantic_ai.exceptions")
    model: Any = import_module("pydantic_ai.models.test").TestModel()

    async def list_files(**given: object) -> object:
        return given

    tool = package.Tool.from_schema(list_files, "list_files", "Lists files.", LIST_FILES)
    tools = import_module("pydantic_ai.toolsets").FunctionToolset([tool], max_retries=1)
    context = package.RunContext(deps=None, model=model, usage=import_module("pydantic_ai.usage").RunUsage())
    manager = await import_module("pydantic_ai.tool_manager").ToolManager(tools).for_run_step(context)

    async def call(text: str) -> object:
        try:
            returned = await manager.handle_call(messages.ToolCallPart("list_files", text, "c1"))
        except errors.ToolRetryError as error:
            return error.tool_retry.model_response_str()
        return messages.ToolReturnPart("list_files", returned, "c1").model_response_str()

    return call


def _anthropic() -> _Call:
    async def list_files(**given: object) -> str:
        return json.dumps(given)

    make: Any = import_module("anthropic").beta_async_tool
    tool = make(list_files, name="list_files", description="Lists files.", input_schema=LIST_FILES)

    async def call(text: str) -> object:
        try:
            return await tool.call(json.loads(text))
        except ValueError as error:
            return repr(error)

    return call
