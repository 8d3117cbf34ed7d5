"""Examples: parameters that a call may have, and the request that such a call answers.

>>> Example("Is it cold in Oslo?", {"city": "Oslo"}).parameters
{'city': 'Oslo'}
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, final

import msgspec
from returns.result import Failure

from fxai.schema.codec import Schema
from fxai.schema.fault import Fault, SchemaError
from fxai.schema.plain import is_plain, plain_faults

if TYPE_CHECKING:
    from fxai.tools.tool import Tool

__all__ = ["Example", "example_faults", "hold_examples"]


@final
class Example(msgspec.Struct, frozen=True):
    """An example of a call: its parameters as plain JSON data, and what a user would have asked.

    Only the parameters are sent to providers; a small model in this process learns from the request too.
    """

    request: str | None
    parameters: Any

    def __hash__(self) -> int:
        return hash(self.request)  # parameters are plain data


def example_faults(tool: Tool[Any, Any, Any], parameters: Any) -> tuple[Fault, ...]:
    """What is wrong with the parameters of an example, by the tool's schema; a function that checks them is not asked.

    Nothing is found where the schema itself cannot be used, or not yet.
    """
    if not is_plain(parameters):
        odd = Fault("", "plain JSON data", f"a Python {type(parameters).__name__}")
        return plain_faults(parameters) or (odd,)
    try:
        if isinstance(tool.parameters, Schema):
            decoded = tool.parameters.decode(parameters)
            return decoded.failure().faults if isinstance(decoded, Failure) else ()
        return tool.parameters.validate(parameters) if tool.validation == "schema" else ()
    except (SchemaError, NameError):
        return ()


def hold_examples(tool: Tool[Any, Any, Any]) -> None:
    """Refuses examples that the parameters do not allow; those of a tool that the provider runs are its own matter.

    Raises:
        SchemaError: one does not fit; the message says which, where and how.
    """
    if tool.provider is not None and not tool.provider.requires_handler:
        return
    for number, example in enumerate(tool.input_examples, 1):
        faults = example_faults(tool, example.parameters)
        if faults:
            said = "; ".join(map(str, faults))
            remedy = "an example is the parameters of one call as plain JSON data"
            raise SchemaError(f"the tool {tool.name!r}: input example {number} does not fit: {said}; {remedy}")
