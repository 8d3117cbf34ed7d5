"""What holds of conversations: whatever an honest page asks for is taken where it means it, and every store agrees."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Literal, NamedTuple

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fxai.effects import fx
from fxai.messages import Prompt
from fxai.ui import Accepted, ChatRequest, Conversation, Conversations, Turn, UIMessage, accept
from tests.kit.reaching import Reached
from tests.kit.trials import examples

Action = Literal["say", "say alone", "edit", "edit alone", "again", "go back", "choose", "rename", "forget"]
ACTIONS: tuple[Action, ...] = (
    *("say", "say", "say alone", "edit", "edit alone", "again", "go back", "choose", "rename", "forget"),
)
OWNERS = ("ann", "bob")
TEXTS = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=12)


class Step(NamedTuple):
    """What a page does: to which conversation, at which of the possible places, and whether the answer ends."""

    action: Action
    id: str
    location: int
    added: str
    ends: bool


STEPS = st.lists(
    st.builds(Step, st.sampled_from(ACTIONS), st.sampled_from("cd"), st.integers(0, 9), TEXTS, st.booleans()),
    max_size=10,
)


# -- the reference: a list of nodes, each with its parent


class Node(msgspec.Struct):
    """One exchange."""

    id: str
    parent: str | None
    user: str
    added: str
    answer: str
    ended: bool


class Tree:
    """What a conversation is, in the plainest words."""

    def __init__(self, owner: str) -> None:
        self.owner = owner
        self.nodes: list[Node] = []
        self.head: str | None = None
        self.title = ""

    def node(self, id_: str | None) -> Node | None:
        """The exchange of an id."""
        return next((node for node in self.nodes if node.id == id_), None)

    def path(self) -> list[Node]:
        """The exchanges that a page shows."""
        found: list[Node] = []
        node = self.node(self.head)
        while node is not None:
            found.insert(0, node)
            node = self.node(node.parent)
        return found

    def newest_below(self, id_: str) -> str:
        """The end of the newest branch that goes on from an exchange."""
        below = [node.id for node in self.nodes if node.parent == id_]
        return self.newest_below(below[-1]) if below else id_


def shown(nodes: list[Node]) -> list[UIMessage]:
    """The messages of these exchanges as a page has them."""
    messages: list[UIMessage] = []
    for node in nodes:
        messages.append(UIMessage.make(node.user, "user", node.added))
        if node.ended:
            messages.append(UIMessage.make(node.answer, "assistant", f"On {node.added}"))
    return messages


# -- a page


class Meant(NamedTuple):
    """A request, and what the user means by it."""

    messages: list[UIMessage]
    parent: str | None
    user: str
    added: str
    trigger: Literal["submit-message", "regenerate-message"] = "submit-message"
    message_id: str | None = None
    alone: bool = False


def meant(step: Step, tree: Tree, new: str) -> Meant | None:
    """What a page sends for a step; None where there is nothing to do it to."""
    path = tree.path()
    location = step.location % len(path) if path else 0
    there = path[location] if path else None
    message = UIMessage.make(new, "user", step.added)
    if step.action in ("say", "say alone"):
        alone = step.action == "say alone"
        return Meant([*([] if alone else shown(path)), message], tree.head, new, step.added, alone=alone)
    if there is None:
        return None
    if step.action == "go back":  # a window that knows less
        return Meant([*shown(path[: location + 1]), message], there.id, new, step.added)
    if step.action in ("edit", "edit alone"):
        edited, alone = UIMessage.make(there.user, "user", step.added), step.action == "edit alone"
        before = [] if alone else shown(path[:location])
        return Meant(
            [*before, edited], there.parent, there.user, step.added, message_id=_first(path, there), alone=alone
        )
    again = [*shown(path[:location]), UIMessage.make(there.user, "user", there.added)]
    return Meant(again, there.parent, there.user, there.added, "regenerate-message", there.answer)


def _first(path: list[Node], there: Node) -> str:
    return next(node.user for node in path if node is there)


def body_of(step: Step, wish: Meant) -> bytes:
    """The body of the request."""
    data = [message.to_data() for message in wish.messages]
    added: dict[str, Any] = {"message": data[-1]} if wish.alone else {"messages": data}
    return msgspec.json.encode({"id": step.id, "trigger": wish.trigger, "messageId": wish.message_id, **added})


# -- the stores


class World:
    """The same conversations in each store, beside the reference."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.stores = [Conversations.in_process(), *self.reopened()]
        self.trees: dict[str, Tree] = {}
        self.clock = count(1)

    def reopened(self) -> list[Conversations]:
        """The stores on the disk, as another process opens them."""
        return [Conversations.files(self.folder / "talks"), Conversations.sqlite(self.folder / "talks.db")]

    def load(self, id_: str) -> Conversation | None:
        """The conversation, the same in each store."""
        first, *others = [_timeless(fx.run(store.load(id_))) for store in (*self.stores, *self.reopened())]
        assert all(other == first for other in others)
        return first

    def play(self, step: Step) -> str:
        """Does a step in all stores and in the reference; says what was done."""
        tree = self.trees.setdefault(step.id, Tree(OWNERS[step.location % 2]))
        if step.action in ("choose", "rename", "forget"):
            return self._change(step, tree)
        number = next(self.clock)
        wish = meant(step, tree, f"u{number}")
        if wish is None:
            return "nothing"
        request = ChatRequest.read(body_of(step, wish)).unwrap()
        taken = accept(request, fx.run(self.stores[0].load(step.id)), lambda: f"a{number}").unwrap()
        user = taken.user
        assert user is not None
        assert (taken.parent, user.id, user.text) == (wish.parent, wish.user, wish.added)
        self._keep(step, tree, taken, number)
        tree.nodes.append(Node(f"t{number}", wish.parent, wish.user, wish.added, f"a{number}", step.ends))
        tree.head = f"t{number}"
        tree.title = tree.title or " ".join(wish.added.split())[:80] or "…"
        return step.action if len(tree.path()) == len(tree.nodes) else f"{step.action} on a branch"

    def _keep(self, step: Step, tree: Tree, taken: Accepted, number: int) -> None:
        user = taken.user
        turn = Turn.make(f"t{number}", taken.parent, user, taken.message_id, taken.added, float(number))
        answer = UIMessage.make(taken.message_id, "assistant", f"On {user.text if user else ''}")
        ended = msgspec.structs.replace(turn, message=answer, ended="done")
        for store in self.stores:
            fx.run(store.begin(step.id, tree.owner, turn))
            if step.ends:
                fx.run(store.end(step.id, ended))

    def _change(self, step: Step, tree: Tree) -> str:
        if not tree.nodes:
            return "nothing"
        for store in self.stores:
            if step.action == "forget":
                fx.run(store.delete(step.id))
            elif step.action == "rename":
                fx.run(store.rename(step.id, step.added))
            else:
                known = fx.run(store.load(step.id))
                assert known is not None
                fx.run(store.choose(step.id, known.leaf(tree.nodes[step.location % len(tree.nodes)].id)))
        if step.action == "forget":
            del self.trees[step.id]
        elif step.action == "rename":
            tree.title = step.added
        else:
            tree.head = tree.newest_below(tree.nodes[step.location % len(tree.nodes)].id)
        return step.action

    def compare(self, id_: str) -> None:
        """The conversation is what the reference says, in each store, also when it is opened anew."""
        tree, known = self.trees.get(id_), self.load(id_)
        if tree is None or not tree.nodes:
            assert known is None
            return
        assert known is not None
        path = tree.path()
        assert (known.owner, known.title, known.head) == (tree.owner, tree.title, tree.head)
        assert [turn.id for turn in known.path()] == [node.id for node in path]
        assert list(known.ui_messages()) == shown(path)
        assert [message.text for message in known.history() if message.role == "user"] == [node.added for node in path]
        same_place = {node.user: tuple(one.id for one in tree.nodes if one.parent == node.parent) for node in path}
        assert known.versions() == same_place

    def lists(self) -> Iterator[set[tuple[str, str, str]]]:
        """What each store lists of all owners."""
        for store in (*self.stores, *self.reopened()):
            found = [fx.run(store.list(owner)) for owner in OWNERS]
            yield {(one.id, one.owner, one.title) for some in found for one in some}


def _timeless(known: Conversation | None) -> Conversation | None:
    return None if known is None else msgspec.structs.replace(known, created=0.0, changed=0.0)


def test_a_conversation_is_the_tree_that_its_page_makes() -> None:
    """Messages, edits, other answers, branches and windows that know less, in process, in files and in SQLite."""
    reached = Reached()

    @settings(max_examples=examples(15, least=15))
    @given(STEPS)
    def check(steps: list[Step]) -> None:
        with TemporaryDirectory() as folder:
            world = World(Path(folder))
            for step in steps:
                done = world.play(step)
                reached(done)
            for id_ in "cd":
                world.compare(id_)
            there = {(id_, tree.owner, tree.title) for id_, tree in world.trees.items() if tree.nodes}
            assert all(listed == there for listed in world.lists())

    cases = ("say", "say alone", "edit on a branch", "again on a branch", "choose", "rename", "forget")
    reached.by(check, **dict.fromkeys(cases, 1))


@pytest.mark.parametrize("before", [0, 1, 3])
def test_a_version_without_an_answer_is_the_one_that_is_shown(tmp_path: Path, before: int) -> None:
    """A message that is sent again as it was, and whose answers did not begin: the chosen one is gone on from."""
    world = World(tmp_path)
    states: tuple[Action, ...] = tuple("say" for _ in range(before + 1))
    done = [world.play(Step(action, "c", 0, "0", ends=False)) for action in (*states, "edit", "choose", "say")]
    assert done[-3:] == ["edit on a branch", "choose", "say on a branch"]
    world.compare("c")


@given(STEPS, st.data())
@settings(max_examples=examples(40, least=40))
def test_no_text_of_the_agents_can_be_changed_anywhere(steps: list[Step], data: st.DataObject) -> None:
    """Of a conversation of any shape, a page that repeats one letter of an answer wrongly is refused."""
    tree, known, number = Tree("ann"), Conversation("c", "ann", "", 0.0, 0.0), count(1)
    for step in steps:
        wish = meant(step, tree, f"u{next(number)}") if step.action not in ("choose", "rename", "forget") else None
        if wish is None:
            continue
        node = Node(f"t{next(number)}", wish.parent, wish.user, wish.added, f"a{next(number)}", True)
        turn = Turn.make(node.id, node.parent, wish.messages[-1], node.answer, Prompt.make(wish.added), 0.0)
        answer = UIMessage.make(node.answer, "assistant", f"On {wish.added}")
        turns = (*known.turns, msgspec.structs.replace(turn, message=answer, ended="done"))
        known = msgspec.structs.replace(known, turns=turns, head=node.id)
        tree.nodes.append(node)
        tree.head = node.id
    messages = shown(tree.path())
    if not messages:
        return
    at = data.draw(st.integers(0, len(messages) // 2 - 1)) * 2 + 1
    forged = UIMessage.make(messages[at].id, "assistant", f"{messages[at].text}!")
    sent = [*messages[:at], forged, *messages[at + 1 :], UIMessage.make("new", "user", "And?")]
    refusal = accept(ChatRequest("c", tuple(sent)), known, lambda: "a").failure()
    assert (refusal.code, refusal.where) == ("changed", f"messages[{at}].parts")
