"""Differences between two runs. Use them to see what a change of code, tools, or model changed.

A difference names calls, parameters, results, and the answer by JSON pointers. It ignores ids, times, the order of
members, and the order of calls in a turn.

>>> from fxai.agents.records.run_record import RecordedStep
>>> from fxai.messages.part import Finish, ToolCall, ToolResult
>>> def run(price):
...     result = ToolResult("c", "price", {"cents": price})
...     return RunRecord((RecordedStep((ToolCall("c", "price", {"item": "tea"}), result, Finish("tool-calls"))),))
>>> difference = diff_runs(run(250), run(300))
>>> difference.same, difference.pointers
(False, ('/calls/price/result/cents',))
>>> print(difference)
1 difference
~ step 1: price {"item":"tea"}
    /calls/price/result/cents: 250 → 300
>>> diff_runs(run(250), run(300), ignore=["/calls/price/result/*"]).same
True
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from difflib import SequenceMatcher
from operator import attrgetter
from typing import Any, Final, Literal, TypeAlias, final

import msgspec
from typing_extensions import override

from fxai.agents.records.run_record import RecordedCall, RunRecord
from fxai.schema.data import JsonObject, identity, is_array, is_object
from fxai.schema.display import in_line, one_line, quote_name
from fxai.schema.fault import pointer_to, pointer_tokens
from fxai.schema.parsing import parse_json

ChangeKind: TypeAlias = Literal["added", "removed", "changed", "answer", "end", "refusal", "usage"]
"""The kind of a change. `added`, `removed`, and `changed` concern a call. `end` is the way the run ended."""

_SUBJECTS: Final = ("calls", "answer", "end", "refusal", "usage")
_MOST_PAIRS: Final = 100_000  # pairs of equal steps that `difflib` may compare; more pairs would take quadratic time
_WIDTH: Final = 100
_LINES: Final = 500


@final
class ValueChange(msgspec.Struct, frozen=True):
    """A changed JSON value. `before` or `after` is `UNSET` if only one of the runs has the value."""

    pointer: str
    """The JSON pointer of the value: `/calls/TOOL/params/…`, `/calls/TOOL/result/…`, `/calls/TOOL/failure/…`,
    `/answer/…`, `/end/…`, `/refusal/…`, or `/usage/…`. You can pass it to `ignore`."""
    before: Any = msgspec.UNSET
    """The value in the first run."""
    after: Any = msgspec.UNSET
    """The value in the second run."""

    def to_data(self) -> JsonObject:
        """Return the change as JSON values, without a missing `before` or `after`."""
        data: JsonObject = msgspec.to_builtins(self)
        return data

    @override
    def __str__(self) -> str:
        before, after = _shorten(self.before, self.after)
        return f"{one_line(self.pointer)}: {before} → {after}"

    @override
    def __hash__(self) -> int:
        return hash(self.pointer)


@final
class RunChange(msgspec.Struct, frozen=True):
    """A difference between two runs: an added, removed, or changed call, or another changed part of the run."""

    kind: ChangeKind
    """The kind of the change, see `ChangeKind`."""
    values: tuple[ValueChange, ...]
    """The changed values. An added or removed call has its parameters and its result."""
    tool: str = ""
    """The tool of the call, otherwise empty."""
    agent: str = ""
    """The sub-agent of the call, as in `RecordedStep`."""
    before_step: int | None = None
    """The number of the call's step among the steps of its agent in the first run, from 1. None if it was added."""
    after_step: int | None = None
    """The number of the call's step in the second run. None if the call was removed."""
    params: Any = msgspec.UNSET
    """The parameters of a changed call in the first run, for people."""

    def to_data(self) -> JsonObject:
        """Return the change as JSON values."""
        data: JsonObject = msgspec.to_builtins(self)
        return data | {"values": [value.to_data() for value in self.values]}

    @override
    def __str__(self) -> str:
        return "\n".join(self._lines())

    def _lines(self) -> Iterator[str]:
        if not self.tool:
            yield f"~ {self.kind}"
        else:
            steps = dict.fromkeys(f"{one}" for one in (self.before_step, self.after_step) if one is not None)
            about = f"{one_line(self.agent)} " if self.agent else ""
            shown = "" if self.params is msgspec.UNSET else " " + one_line(in_line(self.params, compact=True), _WIDTH)
            sign = {"added": "+", "removed": "-"}.get(self.kind, "~")
            yield f"{sign} {about}step {' → '.join(steps)}: {quote_name(self.tool)}{shown}"
        for value in self.values:
            yield f"    {value}"

    @override
    def __hash__(self) -> int:
        return hash((self.kind, self.values, self.tool))


@final
class RunDiff(msgspec.Struct, frozen=True):
    """The difference between two runs. It is false if the runs are the same."""

    changes: tuple[RunChange, ...] = ()
    """The changed calls in the order of the runs, then the other changes."""

    @property
    def same(self) -> bool:
        """True if no change was found."""
        return not self.changes

    def __bool__(self) -> bool:
        return bool(self.changes)

    @property
    def pointers(self) -> tuple[str, ...]:
        """The pointers of all changed values, sorted and without duplicates."""
        return tuple(sorted({value.pointer for change in self.changes for value in change.values}))

    @override
    def __str__(self) -> str:
        """Return the difference as lines for people, safe for a terminal, with at most 500 lines."""
        if not self.changes:
            return "no difference"
        count = len(self.changes)
        lines = [line for change in self.changes for line in str(change).split("\n")]
        more = [f"… and {len(lines) - _LINES} lines more"] if len(lines) > _LINES else []
        return "\n".join([f"{count} difference{'s' * (count > 1)}", *lines[:_LINES], *more])

    def to_data(self) -> JsonObject:
        """Return the difference as JSON values. A missing `before` or `after` means that the run has no value."""
        return {"same": self.same, "changes": [change.to_data() for change in self.changes]}

    def to_json(self) -> str:
        """Return the difference as a JSON string, in the form of `to_data`."""
        return json.dumps(self.to_data(), ensure_ascii=False)


def diff_runs(
    before: RunRecord,
    after: RunRecord,
    *,
    ignore: Iterable[str] = (),
    same_answer: Callable[[str, str], bool] | None = None,
) -> RunDiff:
    """Return the difference between two runs: their calls with parameters and results, their answers, and their ends.

    fxai aligns the calls of each agent. The calls of a turn have no order. fxai compares sub-agents only if both
    records contain steps of sub-agents, and numbers of tokens only if both records state them. It does not compare
    prompts, reasoning, and the text of earlier turns.

    Args:
        before: The first run.
        after: The second run.
        ignore: JSON pointers of values to ignore, with everything inside them. `*` stands for any tool, member, or
            index. Examples: `"/usage"`, `"/calls/*/result/took"`, `"/calls/log"`.
        same_answer: Function that receives both answers as text if they differ, and returns True if they mean the same.
            Default: answers must be equal. JSON answers must be equal as JSON values.

    Raises:
        ValueError: If a pointer of `ignore` is invalid.
    """
    ignored = _Ignored(ignore)
    nested = before.nested and after.nested
    ours, theirs = _calls_by_agent(before, ignored, nested), _calls_by_agent(after, ignored, nested)
    agents = [*theirs, *(agent for agent in ours if agent not in theirs)]
    changes = [change for one in agents for change in _call_changes(one, ours.get(one, []), theirs.get(one, []))]
    same = before.answer == after.answer or (same_answer is not None and same_answer(before.answer, after.answer))
    others: tuple[tuple[ChangeKind, Any, Any], ...] = (
        *(() if same else (("answer", _answer_data(before), _answer_data(after)),)),
        ("end", *_ends(before, after)),
        ("refusal", _refusal(before), _refusal(after)),
        ("usage", *_usages(before, after)),
    )
    for kind, old, new in others:
        active = ignored.at(kind)
        values = tuple(value_changes(_prune(old, active), _prune(new, active), f"/{kind}"))
        changes += [RunChange(kind, values)] if values else []
    return RunDiff(tuple(changes))


def _answer_data(record: RunRecord) -> Any:
    """Return the answer as a JSON value if it is an object or an array, so that a change has a pointer."""
    is_document = record.answer.lstrip()[:1] in ("{", "[")
    return parse_json(record.answer).value_or(record.answer) if is_document else record.answer


def _ends(before: RunRecord, after: RunRecord) -> tuple[Any, Any]:
    if "unknown" in (before.ended, after.ended):
        return msgspec.UNSET, msgspec.UNSET
    old, new = ({"ended": one.ended, "failure": one.failure} for one in (before, after))
    return old, new


def _refusal(record: RunRecord) -> Any:
    return msgspec.UNSET if record.refusal is None else msgspec.to_builtins(record.refusal)


def _usages(before: RunRecord, after: RunRecord) -> tuple[Any, Any]:
    old, new = (msgspec.structs.asdict(one.usage) for one in (before, after))
    known = [name for name in old if old[name] is not None and new[name] is not None]
    return {name: old[name] for name in known}, {name: new[name] for name in known}


# -- values that do not matter


@final
class _Ignored:
    """The ignored pointers as a tree. An active node is a dictionary from a token to the next node."""

    def __init__(self, pointers: Iterable[str]) -> None:
        if isinstance(pointers, str):
            raise ValueError(
                f"ignore must be a list of JSON pointers, got the string {pointers!r}. Pass [{pointers!r}]."
            )
        self._root: _Node = {}
        for pointer in pointers:
            tokens = pointer_tokens(pointer)
            if not pointer.startswith("/") or tokens[0] not in _SUBJECTS:
                subjects = ", ".join(f"/{one}" for one in _SUBJECTS)
                raise ValueError(f"ignore must contain JSON pointers that start with {subjects}, got {pointer!r}")
            node = self._root
            for token in tokens:
                node = node.setdefault(token, {})
            node[_END] = {}

    def at(self, *tokens: str) -> list[_Node]:
        """Return the active nodes at a path."""
        nodes = [self._root]
        for token in tokens:
            nodes = _step(nodes, token)
        return nodes


_Node: TypeAlias = "dict[str, _Node]"
_END: Final = "//"  # no token contains an unescaped slash


def _step(nodes: list[_Node], token: str) -> list[_Node]:
    """Return the next active nodes. A node that ends a pointer stays active, because everything inside is ignored."""
    ended = [node for node in nodes if _END in node]
    return ended or [node[one] for node in nodes for one in dict.fromkeys((token, "*")) if one in node]


def _prune(value: Any, nodes: list[_Node]) -> Any:
    """Return the JSON value without the ignored parts. An ignored item of an array becomes None."""
    if not nodes or value is msgspec.UNSET:
        return value
    if any(_END in node for node in nodes):
        return msgspec.UNSET
    if is_object(value):
        members = ((name, _prune(one, _step(nodes, name))) for name, one in value.items())
        return {name: one for name, one in members if one is not msgspec.UNSET}
    if is_array(value):
        items = [_prune(one, _step(nodes, str(index))) for index, one in enumerate(value)]
        return [None if one is msgspec.UNSET else one for one in items]
    return value


# -- calls


@final
class _CallData(msgspec.Struct, eq=False):
    """A call with the values that the comparison reads."""

    name: str
    step: int
    data: JsonObject
    is_refused: bool
    key: Hashable
    """The name and the parameters. Two calls with the same key are equal calls."""

    @property
    def whole(self) -> Hashable:
        """The name, the parameters, and the result."""
        return self.name, identity(self.data)


_Steps: TypeAlias = list[list[_CallData]]
_PAIRINGS: Final[tuple[Callable[[_CallData], Hashable], ...]] = (
    attrgetter("whole"),
    attrgetter("key"),
    attrgetter("name"),
)


def _calls_by_agent(record: RunRecord, ignored: _Ignored, nested: bool) -> dict[str, _Steps]:
    """Return the calls of each step with calls, by agent, in the order of the agents' runs."""
    found: dict[str, dict[int, list[tuple[RecordedCall, ...]]]] = {}
    for step in record.steps if nested else record.own_steps:
        found.setdefault(step.agent, {}).setdefault(step.run, []).append(step.calls)
    made: dict[str, _Steps] = {}
    handles: dict[str, str] = {}
    for agent, runs in found.items():
        steps = [calls for run in sorted(runs) for calls in runs[run]]
        for call in (call for calls in steps for call in calls if call.handle):
            handles.setdefault(call.handle, f"(large result {len(handles) + 1})")
        read = [[_read(call, at, ignored, handles) for call in calls] for at, calls in enumerate(steps, 1)]
        made[agent] = [kept for calls in read if (kept := [call for call in calls if call is not None])]
    return made


def _read(call: RecordedCall, step: int, ignored: _Ignored, handles: Mapping[str, str]) -> _CallData | None:
    nodes = ignored.at("calls", call.name)
    whole: JsonObject = {"params": call.params, "failure" if call.is_failure else "result": call.result}
    given = {name: value for name, value in whole.items() if value is not msgspec.UNSET}
    data = _prune(_without_handles(given, handles) if handles else given, nodes)
    if data is msgspec.UNSET or not data:  # everything about the call is ignored
        return None
    return _CallData(call.name, step, data, call.is_refused, (call.name, identity(data.get("params", _NO_PARAMS))))


_NO_PARAMS: Final = "\0"


def _without_handles(value: Any, handles: Mapping[str, str]) -> Any:
    """Return the JSON value with the numbers of large results instead of their random handles."""
    if isinstance(value, str):
        return handles.get(value, value)
    if is_object(value):
        return {name: _without_handles(one, handles) for name, one in value.items()}
    return [_without_handles(one, handles) for one in value] if is_array(value) else value


def _call_changes(agent: str, before: _Steps, after: _Steps) -> Iterator[RunChange]:
    """Yield the changes of one agent's calls.

    The result must not depend on which run is first, but `difflib` is not symmetric. Therefore the alignment always
    starts from the run that is first in a fixed order.
    """
    swapped = _order(after) < _order(before)
    for ours, theirs in _align(after, before) if swapped else _align(before, after):
        old, new = (theirs, ours) if swapped else (ours, theirs)
        yield from _block_changes(agent, old, new)


def _order(steps: _Steps) -> tuple[int, list[str]]:
    """Return a key that orders runs. Only runs with equal steps have equal keys."""
    pairs = ([[call.name, call.data.get("params")] for call in calls] for calls in steps)
    return len(steps), [json.dumps(calls, sort_keys=True) for calls in pairs]


def _align(before: _Steps, after: _Steps) -> Iterator[tuple[list[_CallData], list[_CallData]]]:
    """Yield the calls that belong together: of two equal steps, or of two ranges of different steps."""
    old, new = (
        [frozenset(Counter(call.key for call in calls).items()) for calls in steps] for steps in (before, after)
    )
    start, end = _count_equal_ends(old, new)
    yield from zip(before[:start], after[:start], strict=True)
    middle = slice(start, len(old) - end), slice(start, len(new) - end)
    ours, theirs = _distinct(old[middle[0]], new[middle[1]])
    for tag, i, j, k, m in SequenceMatcher(None, ours, theirs, autojunk=False).get_opcodes():
        left, right = before[start + i : start + j], after[start + k : start + m]
        if tag == "equal":
            yield from zip(left, right, strict=True)
        else:
            yield [call for calls in left for call in calls], [call for calls in right for call in calls]
    yield from zip(before[len(old) - end :], after[len(new) - end :], strict=True)


def _count_equal_ends(old: Sequence[Hashable], new: Sequence[Hashable]) -> tuple[int, int]:
    """Return the number of equal keys at the start, and at the end."""
    least = min(len(old), len(new))
    start = next((at for at in range(least) if old[at] != new[at]), least)
    return start, next((at for at in range(least - start) if old[-at - 1] != new[-at - 1]), least - start)


def _distinct(before: Sequence[Hashable], after: Sequence[Hashable]) -> tuple[Sequence[Hashable], Sequence[Hashable]]:
    """Return the keys. If too many are equal, number them, so that each key has at most one equal key."""
    counts = Counter(after)
    if sum(counts[key] for key in before) <= _MOST_PAIRS:
        return before, after
    return [*_number(before)], [*_number(after)]


def _number(keys: Iterable[Hashable]) -> Iterator[Hashable]:
    seen: Counter[Hashable] = Counter()
    for key in keys:
        seen[key] += 1
        yield key, seen[key]


def _block_changes(agent: str, before: list[_CallData], after: list[_CallData]) -> Iterator[RunChange]:
    """Yield the changes of calls that belong together.

    Calls with equal results form pairs first, then equal calls, and then calls of the same tool.
    """
    partner: dict[int, _CallData] = {}
    paired: set[int] = set()
    is_single = len(before) == len(after) == 1  # most blocks are one call in each run
    for key_of in _PAIRINGS[2:] if is_single else _PAIRINGS:
        waiting: defaultdict[Hashable, deque[_CallData]] = defaultdict(deque)
        for call in after:
            if id(call) not in paired:
                waiting[key_of(call)].append(call)
        for call in before:
            if id(call) not in partner and waiting[key_of(call)]:
                partner[id(call)] = found = waiting[key_of(call)].popleft()
                paired.add(id(found))
    for call in before:
        other = partner.get(id(call))
        if other is None:
            yield _lone(agent, "removed", call)
        elif values := tuple(_pair_changes(call, other)):
            yield RunChange("changed", values, call.name, agent, call.step, other.step, call.data.get("params"))
    for call in after:
        if id(call) not in paired:
            yield _lone(agent, "added", call)


def _lone(agent: str, kind: Literal["added", "removed"], call: _CallData) -> RunChange:
    at = pointer_to("/calls", call.name)
    is_added = kind == "added"
    values = [
        ValueChange(f"{at}/{name}", after=value) if is_added else ValueChange(f"{at}/{name}", value)
        for name, value in call.data.items()
    ]
    steps = (None, call.step) if is_added else (call.step, None)
    return RunChange(kind, tuple(values), call.name, agent, *steps)


def _pair_changes(before: _CallData, after: _CallData) -> Iterator[ValueChange]:
    old, new = before.data, after.data
    at = pointer_to("/calls", before.name)
    for name in ("params", "result", "failure"):
        first, second = old.get(name, msgspec.UNSET), new.get(name, msgspec.UNSET)
        unknown = (first is msgspec.UNSET and before.is_refused) or (second is msgspec.UNSET and after.is_refused)
        if name != "failure" or not unknown:
            yield from value_changes(first, second, f"{at}/{name}")


# -- values


def value_changes(before: Any, after: Any, pointer: str = "") -> Iterator[ValueChange]:
    """Yield the smallest changes between two JSON values. An inserted or removed item does not move other items.

    >>> [change.pointer for change in value_changes({"a": [1, 2]}, {"a": [1, 3], "b": None})]
    ['/a/1', '/b']
    """
    if before is after:
        return
    if is_object(before) and is_object(after):
        for name in sorted({*before, *after}):
            missing = msgspec.UNSET
            yield from value_changes(before.get(name, missing), after.get(name, missing), pointer_to(pointer, name))
    elif is_array(before) and is_array(after):
        yield from _item_changes(before, after, pointer)
    elif msgspec.UNSET in (before, after) or identity(before) != identity(after):
        yield ValueChange(pointer, before, after)


def _item_changes(before: list[Any], after: list[Any], pointer: str) -> Iterator[ValueChange]:
    start, end = 0, 0
    if len(before) != len(after):
        start, end = _count_equal_ends([*map(identity, before)], [*map(identity, after)])
    ours, theirs = before[start : len(before) - end], after[start : len(after) - end]
    for index in range(max(len(ours), len(theirs))):
        old_item = ours[index] if index < len(ours) else msgspec.UNSET
        new_item = theirs[index] if index < len(theirs) else msgspec.UNSET
        yield from value_changes(old_item, new_item, f"{pointer}/{start + index}")


def _shorten(before: Any, after: Any) -> tuple[str, str]:
    """Return both values for people. Two long strings start shortly before their first difference."""
    if isinstance(before, str) and isinstance(after, str) and max(len(before), len(after)) > _WIDTH:
        pairs = enumerate(zip(before, after, strict=False))
        at = next((index for index, (one, other) in pairs if one != other), min(len(before), len(after)))
        start = max(0, at - _WIDTH // 4)
        mark = "…" if start else ""
        before, after = (f"{mark}{one[start : start + _WIDTH]}" for one in (before, after))
    return _show(before), _show(after)


def _show(value: Any) -> str:
    return "(none)" if value is msgspec.UNSET else one_line(in_line(value, compact=True), _WIDTH + 40)
