"""Reading a run from its journal, as a value without paths and digests. `Runs.record` uses this module.

>>> from fxai.durable.record import Begun, Ended, Known, TurnRecord
>>> known = Known("order-17")
>>> turn = [{"type": "tool-call", "id": "c", "name": "add", "params": {}}, {"type": "finish", "reason": "tool-calls"}]
>>> known.add(TurnRecord("/clerk/1", turn, {}), 1)
>>> known.add(Begun("/clerk/1/0", "add", {}), 2)
>>> known.add(Ended("/clerk/1/0", "success", 3), 3)
>>> [(call.name, call.result) for call in read_record(known).steps[0].calls]
[('add', 3)]
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Container, Mapping
from functools import reduce
from itertools import pairwise
from typing import Any, Final

import msgspec

from fxai.agents.records.run_record import REFUSED, RecordedStep, RunEnd, RunRecord
from fxai.durable.record import Known, Part, RunStatus
from fxai.messages.message import Metadata, handle_data
from fxai.messages.part import Part as MessagePart
from fxai.messages.part import ToolCall, ToolResult
from fxai.messages.prompt import Prompt
from fxai.messages.response import Response
from fxai.models.approved_calls import encode_denial
from fxai.schema.data import copy_data, is_array
from fxai.schema.fault import pointer_tokens

_ENDS: Final[Mapping[RunStatus, RunEnd]] = {
    "done": "done",
    "waiting": "pending",
    "failed": "failed",
    "cancelled": "cancelled",
}
_LOCATION: Final = re.compile(r"\d+|last")  # the last name in the path of an agent's turn
_NUMBERED: Final = re.compile(r"\d+|\D+")


def read_record(known: Known) -> RunRecord:
    """Return the turns of a run with the results of their calls. A turn that failed has no parts, so it is missing."""
    turns = {path: None for path, part in known.parts.items() if part.turn is not None and not part.turn.failures}
    places = {path: _place_of(path, turns) for path in turns}
    names = {name for name, _ in places.values() if name}
    if len({name.partition("/")[0] for name in names}) == 1 and all(name for name, _ in places.values()):
        places = {path: (name.partition("/")[2], run) for path, (name, run) in places.items()}
    counts: Counter[str] = Counter()
    numbers: dict[tuple[str, str], int] = {}
    for place in sorted(set(places.values()), key=lambda place: _natural(place[1])):
        numbers[place] = counts[place[0]]
        counts[place[0]] += 1
    of_run: dict[str, list[str]] = {}
    for path in turns:
        of_run.setdefault(places[path][1], []).append(path)
    followed = {before for paths in of_run.values() for before, _ in pairwise(paths)}
    steps = [
        RecordedStep(_content(known, path, is_last=path not in followed), place[0], numbers[place])
        for path, place in places.items()
    ]
    prompt = Prompt.empty if known.input is None else Prompt.make(known.input.prompt)
    failure = known.closed.text if known.closed is not None and known.status == "failed" else ""
    return RunRecord(tuple(steps), prompt, _ENDS.get(known.status, "unknown"), failure)


def _place_of(path: str, turns: Container[str]) -> tuple[str, str]:
    """Return the names of the enclosing agents of a turn, and the path of the run of the innermost agent."""
    parts = path.split("/")
    agents = [
        parts[index - 1].partition("+")[0]
        for index in range(2, len(parts))
        if _LOCATION.fullmatch(parts[index]) and "/".join(parts[: index + 1]) in turns
    ]
    return "/".join(agents), path.rpartition("/")[0]


def _natural(path: str) -> list[tuple[int, str]]:
    return [(int(piece), "") if piece.isdecimal() else (-1, piece) for piece in _NUMBERED.findall(path)]


def _content(known: Known, path: str, *, is_last: bool) -> tuple[MessagePart, ...]:
    """Return the parts of a turn, with the results of its calls before its end."""
    part = known.part(path)
    content = [*Response.from_data([] if part.turn is None else part.turn.parts).unwrap().content]
    ended = {one.id for one in content if one.type == "tool-result"}
    results: list[MessagePart] = []
    seen: set[str] = set()
    index = 0
    for at, call in enumerate(content):
        if call.type != "tool-call" or call.provider_executed or call.id in ended:
            continue
        content[at] = call = _call(known, f"{path}/{index}", call, seen)
        results += _results(known, f"{path}/{index}", call, is_last=is_last)
        index += 1
    end = next((at for at, one in enumerate(content) if one.type == "finish"), len(content))
    return (*content[:end], *results, *content[end:])


def _call(known: Known, path: str, call: ToolCall, seen: set[str]) -> ToolCall:
    """Return the call in the form that ran, with an id that no earlier call of the turn has."""
    id_, count = call.id, 1
    while id_ in seen:
        count += 1
        id_ = f"{call.id}_{count}"
    seen.add(id_)
    call = call if id_ == call.id else msgspec.structs.replace(call, id=id_)
    repaired = known.parts.get(f"{path}r")
    if repaired is not None and repaired.begun is not None:
        begun = repaired.begun
        return msgspec.structs.replace(call, name=begun.name, params=begun.params, params_text=None, repaired=True)
    ended = known.part(path).ended if path in known.parts else None
    if ended is None or not ended.json_text:
        return call
    params = reduce(_parse_at, ended.json_text, call.params)
    return msgspec.structs.replace(call, params=params, repaired=True, json_text=ended.json_text)


def _parse_at(params: Any, pointer: str) -> Any:
    """Return the parameters with a parsed value instead of the JSON string at a pointer, as the handler received it."""
    whole = [copy_data(params)]
    around: Any = whole
    token: Any = 0
    for name in pointer_tokens(pointer):
        around = around[token]
        token = int(name) if is_array(around) else name
    around[token] = json.loads(around[token])
    return whole[0]


def _results(known: Known, path: str, call: ToolCall, *, is_last: bool) -> list[ToolResult]:
    part = known.parts.get(f"{path}r") or known.parts.get(path) or Part()
    ended = part.ended
    if part.reply is not None and part.reply.kind == "deny":
        return [ToolResult(call.id, call.name, encode_denial(part.reply.reason), is_failure=True)]
    if ended is None or ended.kind in ("refused", "broken"):
        refused = (ended is not None and ended.kind == "refused") or not is_last
        note: Metadata = {REFUSED: True}
        return [ToolResult(call.id, call.name, None, is_failure=True, metadata=note)] if refused else []
    result = ToolResult(call.id, call.name, ended.value, is_failure=ended.kind != "success")
    return [msgspec.structs.replace(result, metadata=handle_data(ended.handle)) if ended.handle else result]
