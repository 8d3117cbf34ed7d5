"""Interruptions: calls that were not run to their end are answered all the same.

>>> from fxai.messages.part import Finish
>>> asked = Response((ToolCall("c1", "search", {}), Finish("tool-calls")))
>>> cut = closed(asked, TIME_IS_UP, Resolution({}))
>>> [part.type for part in cut.content]
['tool-call', 'tool-result', 'finish']
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from fxai.messages.part import Part, ToolCall, ToolResult
from fxai.messages.response import Response
from fxai.models.resolve import Resolution
from fxai.tools.failure import Interrupted, encode_failure

__all__ = ["TIME_IS_UP", "closed", "in_order", "interrupted", "is_ours"]

TIME_IS_UP: Final = "the time of the run was up"
"""Why calls were not run to their end."""


def interrupted(calls: Iterable[ToolCall], why: str) -> list[ToolResult]:
    """A result for each call, which says why it was not run to its end."""
    failures = [(call, Interrupted(call.name, why)) for call in calls]
    return [
        ToolResult(call.id, call.name, failure, encode_failure(failure), is_failure=True, dynamic=call.dynamic)
        for call, failure in failures
    ]


def is_ours(call: ToolCall, resolution: Resolution) -> bool:
    """Whether a call is run here: not by its provider, and not by somebody else."""
    tool = resolution.tools.get(call.name)
    return not call.provider_executed and (tool is None or tool.requires_handler)


def closed(response: Response, why: str, resolution: Resolution) -> Response:
    """The response, in which each call of ours has its result: those that have none were interrupted."""
    answered = {part.id for part in response.content if part.type == "tool-result" and not part.preliminary}
    answered.update(part.tool_call_id for part in response.content if part.type == "tool-approval-request")
    calls = [part for part in response.content if part.type == "tool-call" and part.id not in answered]
    ours = interrupted([call for call in calls if is_ours(call, resolution)], why)
    rest = [part for part in response.content if part.type != "finish"]
    ends = [part for part in response.content if part.type == "finish"]
    return in_order(Response((*rest, *ours, *ends)))


def in_order(response: Response) -> Response:
    """The response with the results of our calls in the order of the calls, each where one of them stood."""
    calls = {part.id: at for at, part in enumerate(response.content) if part.type == "tool-call"}
    slots = [at for at, part in enumerate(response.content) if _call_of(part) in calls]
    if len(slots) < 2:
        return response
    results = sorted([response.content[at] for at in slots], key=lambda part: calls[_call_of(part)])
    content = list(response.content)
    for at, part in zip(slots, results, strict=True):
        content[at] = part
    return Response(tuple(content))


def _call_of(part: Part) -> str:
    """The id of the call that a result of ours, or what stands in its place, is for; else nothing."""
    if part.type == "tool-result" and not part.provider_executed and not part.preliminary:
        return part.id
    return part.tool_call_id if part.type == "tool-approval-request" else ""
