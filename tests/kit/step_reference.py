"""A reference of stateful prompts, written from what they are said to do: a run of a program that is data."""

from __future__ import annotations

from tests.kit.step_programs import INITIAL, PATCHED, Change, Item, PatchData, Program, Script, Seen

__all__ = ["reference"]


def reference(program: Program, script: Script) -> list[Seen]:
    """What each step of a run of the program has, over a model that says the script."""
    state, ran, seen = dict(INITIAL), dict[str, tuple[int, ...] | None](), list[Seen]()
    for turn in (*script, ()):
        rendered = dict(state)  # handlers, texts and dependencies see the values of the render
        items = [item for item in program.items if rendered[item.when[0]] >= item.when[1]]
        patches = _run_effects(items, rendered, state, ran)
        hidden = {name for patch in patches for name in patch.hide}
        tools = _active(items, patches, hidden)
        results: list[tuple[str, str]] = []
        for name in turn:
            item = next((one for one in items if (one.kind, one.name) == ("tool", name)), None)
            if name not in tools:
                results.append((name, "UnknownTool"))
            elif item is None:
                results.append((name, "patched"))
            else:
                _change(state, item.changes)
                results.append((name, "refused" if item.fails else f"{name} saw {rendered[item.shows]}"))
        sections = _sections(items, patches, hidden, rendered)
        seen.append(
            Seen(
                tools=tools,
                sections=sections,
                notes=_notes(items, patches, rendered),
                reminded=tuple(sorted({name for patch in patches for name in patch.remind if name in tools})),
                results=tuple(results),
                before=rendered,
                after=dict(state),
            )
        )
    return seen


def _run_effects(
    items: list[Item], rendered: dict[str, int], state: dict[str, int], ran: dict[str, tuple[int, ...] | None]
) -> list[PatchData]:
    """Effects run in order when their dependencies changed; one that is not defined any more is forgotten."""
    effects = [item for item in items if item.kind == "effect"]
    for gone in set(ran).difference(item.name for item in effects):
        del ran[gone]
    patches: list[PatchData] = []
    for item in effects:
        deps = None if item.deps is None else tuple([rendered[key] for key in item.deps])
        if deps is None or item.name not in ran or ran[item.name] != deps:
            ran[item.name] = deps
            _change(state, item.changes)
            patches += [] if item.patch is None else [item.patch]
    return patches


def _change(state: dict[str, int], changes: tuple[Change, ...]) -> None:
    for change in changes:
        state[change.key] = change.amount + (0 if change.how == "set" else state[change.key])


def _added(patches: list[PatchData], names: tuple[str, ...], hidden: set[str]) -> list[str]:
    """What patches add, once each, in their order, without what any of them hides."""
    return [
        name
        for name in dict.fromkeys(name for patch in patches for name in patch.adds)
        if name in names and name not in hidden
    ]


def _active(items: list[Item], patches: list[PatchData], hidden: set[str]) -> tuple[str, ...]:
    defined = [item.name for item in items if item.kind == "tool" and item.name not in hidden]
    return (*defined, *_added(patches, PATCHED[:2], hidden))


def _sections(
    items: list[Item], patches: list[PatchData], hidden: set[str], rendered: dict[str, int]
) -> tuple[tuple[str, str], ...]:
    """Systems, then data; what patches add stands behind what the render defines."""
    sections: list[tuple[str, str]] = []
    for kind, added in (("system", "ps"), ("data", "pd")):
        shown = [item for item in items if item.kind == kind and item.name not in hidden]
        sections += [(item.name, f"{item.shows} is {rendered[item.shows]}") for item in shown]
        sections += [(name, "patched") for name in _added(patches, (added,), hidden)]
    return tuple(sections)


def _notes(items: list[Item], patches: list[PatchData], rendered: dict[str, int]) -> tuple[str, ...]:
    """Messages of the render stand before the conversation, those of patches behind it."""
    first = [f"note {one.name} {one.shows} is {rendered[one.shows]}" for one in items if one.kind == "message"]
    return (*first, *[f"note {note}" for patch in patches for note in patch.notes])
