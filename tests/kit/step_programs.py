"""What laws of stateful prompts share: renders that are data, the prompt that does what they say, and what was seen."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import partial
from typing import Any, Final, Literal, TypeAlias

import msgspec
from hypothesis import strategies as st
from returns.result import Success

from fxai.agents import Agent, Answer
from fxai.agents.stateful import PromptState, RenderOf, StatefulPrompt, StepPatch
from fxai.effects import Backend, fx
from fxai.models import ModelRequest
from fxai.testing import ScriptedModel, call, text
from fxai.tools import Tool

__all__ = [
    "CALLED",
    "INITIAL",
    "KEYS",
    "PATCHED",
    "Change",
    "Item",
    "PatchData",
    "Program",
    "Script",
    "Seen",
    "agent_of",
    "answer_of",
    "patch_of",
    "programs",
    "prompt_of",
    "scripts",
    "seen_in",
    "turns_of",
]

KEYS: Final = ("a", "b", "c")
INITIAL: Final = {"a": 0, "b": 0, "c": 0}
_TOOLS = ("t1", "t2", "t3")
_SYSTEMS = ("s1", "s2")
_DATA = ("d1", "d2")
_EFFECTS = ("e1", "e2", "e3")
_NOTES = ("n1", "n2")
PATCHED: Final = ("pt1", "pt2", "ps", "pd")
"""What only a patch defines: two tools, a system and data."""
CALLED: Final = (*_TOOLS, "pt1", "pt2", "nobody")
"""Every name that a model of these laws may call; nobody defines the last one."""

Script: TypeAlias = tuple[tuple[str, ...], ...]
"""The names that each turn of the model calls; after the last one it is done."""

# -- renders as data


class Change(msgspec.Struct, frozen=True):
    """One change of the state: `set` to an amount, or `update` or `modify` by it."""

    key: str
    how: Literal["set", "update", "modify"]
    amount: int


class PatchData(msgspec.Struct, frozen=True):
    """A patch: names that it hides, reminds of, or adds (those of `PATCHED`), and how many messages it adds."""

    hide: tuple[str, ...] = ()
    remind: tuple[str, ...] = ()
    adds: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


class Item(msgspec.Struct, frozen=True):
    """One line of a render: what it defines while `value of when[0] >= when[1]`."""

    kind: Literal["tool", "system", "data", "message", "effect"]
    name: str
    when: tuple[str, int]
    shows: str
    """The key of the state whose value it shows."""
    is_twice: bool = False
    changes: tuple[Change, ...] = ()
    fails: bool = False
    waits: int = 0
    deps: tuple[str, ...] | None = None
    patch: PatchData | None = None


class Program(msgspec.Struct, frozen=True):
    """All lines of a render, and whether calls are run one by one."""

    items: tuple[Item, ...]
    is_serial: bool = True


def _changes(how: Sequence[Any]) -> st.SearchStrategy[tuple[Change, ...]]:
    one = st.builds(Change, st.sampled_from(KEYS), st.sampled_from(how), st.integers(-1, 2))
    return st.lists(one, max_size=3).map(tuple)


def _some(names: Sequence[str], most: int = 2) -> st.SearchStrategy[tuple[str, ...]]:
    return st.lists(st.sampled_from(names), max_size=most, unique=True).map(tuple)


_PATCHES = st.builds(
    PatchData,
    hide=_some((*_TOOLS, *_SYSTEMS, *_DATA, *PATCHED)),
    remind=_some(_TOOLS),
    adds=_some(PATCHED),
    notes=_some(("x", "y")),
)


@st.composite
def _items(draw: st.DrawFn, kind: Any, name: str, how: Sequence[Any]) -> Item:
    when, shows = draw(st.tuples(st.sampled_from(KEYS), st.integers(0, 2))), draw(st.sampled_from(KEYS))
    made = Item(kind, name, when, shows, draw(st.booleans()) and kind not in ("message", "effect"))
    if kind == "tool":
        return msgspec.structs.replace(
            made, changes=draw(_changes(how)), fails=draw(st.booleans()), waits=draw(st.integers(0, 3))
        )
    if kind == "effect":
        deps = draw(st.none() | _some(KEYS))
        changes = draw(_changes(("set", "update", "modify")))
        return msgspec.structs.replace(made, changes=changes, deps=deps, patch=draw(st.none() | _PATCHES))
    return made


@st.composite
def programs(draw: st.DrawFn, is_serial: bool | None = None) -> Program:
    """Any render; where its calls run at once, handlers change the state only in ways whose order does not matter."""
    serial = draw(st.booleans()) if is_serial is None else is_serial
    how = ("set", "update", "modify") if serial else ("update", "modify")
    kinds = {"tool": _TOOLS, "system": _SYSTEMS, "data": _DATA, "message": _NOTES, "effect": _EFFECTS}
    every = [(kind, name) for kind, names in kinds.items() for name in names]
    chosen = draw(st.lists(st.sampled_from(every), min_size=3, unique=True))
    return Program(tuple([draw(_items(kind, name, how)) for kind, name in chosen]), serial)


def scripts() -> st.SearchStrategy[Script]:
    """What a model calls, in up to four turns."""
    turn = st.lists(st.sampled_from(CALLED), min_size=1, max_size=4).map(tuple)
    return st.lists(turn, min_size=1, max_size=4).map(tuple)


# -- the prompt that does what they say


def _tool(name: str) -> Any:
    return Tool.make(name, success=str, failure=str, failure_mode="return")


_TOOL_OF: Final = {name: _tool(name) for name in CALLED}


def _on_patched(_: object) -> Any:
    return Success("patched")


def patch_of(data: PatchData, defined: dict[str, Any]) -> StepPatch[Any]:
    """The patch that data say; reminders of what is not defined are left out."""
    patch: Any = StepPatch.hide(*data.hide) + StepPatch.remind(*[defined[one] for one in data.remind if one in defined])
    for name in data.adds:
        match name:
            case "ps":
                patch += StepPatch.system(name, "patched")
            case "pd":
                patch += StepPatch.data(name, "patched")
            case _:
                patch += StepPatch.tool(_TOOL_OF[name], _on_patched)
    for note in data.notes:
        patch += StepPatch.message(f"note {note}")
    made: StepPatch[Any] = patch
    return made


def _add(amount: int, value: int) -> int:
    return value + amount


def _take(amount: int, value: int) -> tuple[int, int]:
    return value, value + amount


def _changed(states: dict[str, Any], changes: Sequence[Change], waits: int) -> Any:
    """The changes one after another, with checkpoints before each."""

    @fx.gen
    def run() -> Any:
        for change in changes:
            for _ in range(waits):
                yield from fx.checkpoint()
            state, amount = states[change.key], change.amount
            if change.how == "set":
                yield from state.set(amount)
            elif change.how == "update":
                yield from state.update(partial(_add, amount))
            else:
                yield from state.modify(partial(_take, amount))

    return run()


def _handler(item: Item, states: dict[str, Any]) -> Any:
    def handle(_: object) -> Any:
        changed = _changed(states, item.changes, item.waits)
        if item.fails:
            return changed.and_then(fx.fail("refused"))
        return changed.as_(f"{item.name} saw {states[item.shows].value}")

    return handle


def _effect(item: Item, states: dict[str, Any], defined: dict[str, Any]) -> Any:
    def act(_: object) -> Any:
        patch = None if item.patch is None else patch_of(item.patch, defined)
        return _changed(states, item.changes, item.waits).as_(patch) if item.changes else patch

    return act


def _define(at: RenderOf[Any, Any], item: Item, states: dict[str, Any], defined: dict[str, Any]) -> None:
    shown = f"{item.shows} is {states[item.shows].value}"
    handler = _handler(item, states)
    for _ in range(1 + item.is_twice):
        match item.kind:
            case "tool":
                defined[item.name] = at.tool(_TOOL_OF[item.name], handler)
            case "system":
                defined[item.name] = at.system(item.name, shown)
            case "data":
                defined[item.name] = at.data(item.name, shown)
            case "message":
                at.message(f"note {item.name} {shown}")
            case "effect":
                deps = None if item.deps is None else tuple([states[key].value for key in item.deps])
                at.effect(item.name, _effect(item, states, defined), deps)


def prompt_of(program: Program) -> Any:
    """The stateful prompt that renders what the program says."""

    def render(at: RenderOf[Any, Any]) -> None:
        states = {key: at.state(key, initial) for key, initial in INITIAL.items()}
        defined: dict[str, Any] = {}
        for item in program.items:
            if states[item.when[0]].value >= item.when[1]:
                _define(at, item, states, defined)

    made: Any = StatefulPrompt.make("program", render)
    return made


# -- running it, and what was seen


class Seen(msgspec.Struct, frozen=True):
    """What a step had, and what came of it."""

    tools: tuple[str, ...]
    sections: tuple[tuple[str, str], ...]
    notes: tuple[str, ...]
    reminded: tuple[str, ...]
    results: tuple[tuple[str, str], ...]
    before: dict[str, int]
    after: dict[str, int]


def turns_of(script: Script) -> list[Any]:
    """The turns of a scripted model."""
    return [
        *[[call(name, {}, id=f"c{n}_{i}") for i, name in enumerate(turn)] for n, turn in enumerate(script)],
        text("ok"),
    ]


def agent_of(program: Program, **options: Any) -> Any:
    """An agent with the prompt that renders what the program says."""
    make: Any = Agent.make
    return make("a", prompt=prompt_of(program), concurrency=1 if program.is_serial else None, **options)


def answer_of(
    program: Program, script: Script, backend: Backend = "asyncio", state: PromptState | None = None
) -> tuple[Answer[Any], ScriptedModel]:
    """The answer of a run of the program over the script, and the model that was asked."""
    model = ScriptedModel.make(turns_of(script))
    answer: Any = fx.run(agent_of(program).execute("go", state=state).provide(model.layer), backend=backend)
    return answer, model


def _texts(request: ModelRequest) -> list[str]:
    return [
        part.text
        for message in request.prompt
        if message.role == "user"
        for part in message.content
        if part.type == "text"
    ]


def _result(one: Any) -> str:
    return str(one.result) if one.result == "refused" or not one.is_failure else type(one.result).__name__


def seen_in(answer: Answer[Any], model: ScriptedModel) -> list[Seen]:
    """What each step of a run had."""
    seen: list[Seen] = []
    for step, request in zip(answer.steps, model.requests, strict=True):
        record: Any = step.record
        texts = _texts(request)
        reminders = [one for one in texts if "remind" in one.lower()]
        seen.append(
            Seen(
                tools=tuple([tool.name for tool in request.tools]),
                sections=tuple(re.findall(r"(?m)^<(\w+)>\n([^<>]*)\n</\1>$", request.prompt.system() or "")),
                notes=tuple([one for one in texts if one.startswith("note")]),
                reminded=tuple(sorted(name for name in _TOOLS if any(f"<{name}>" in one for one in reminders))),
                results=tuple([(one.name, _result(one)) for one in step.results]),
                before={**INITIAL, **record.before.values},
                after={**INITIAL, **record.after.values},
            )
        )
    return seen
