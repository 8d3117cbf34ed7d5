"""Chats: the conformance cases of the areas `chat.history` and `chat.persist`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from fxai.effects import Backend, fx
from fxai.messages import ToolMessage
from fxai.models import Chat, ChatStore, ChatStoreError
from fxai.testing import ScriptedModel, TestClock, call, text
from tests.kit.approvals import Office
from tests.kit.conformance import Case, case

DAYS = 86_400.0


def _approved(office: Office, turns: list[str], backend: Backend) -> Any:
    """The history of a chat in which a call is asked for, approved, and the conversation goes on."""

    @fx.gen
    def talk() -> Any:
        chat = yield from Chat
        for turn in turns:
            pending = yield from chat.pending
            said: Any = ToolMessage.make(*[one.approve() for one in pending]) if turn == "approve" else turn
            yield from chat.generate_text(said, toolkit=office.kit)
        return (yield from chat.history)

    model = ScriptedModel.make([call("wipe", {"disk": "a"}), text("Done."), text("Welcome.")])
    program: Any = talk().provide(Chat.layer()).provide(office.handlers).provide(model.layer)
    return fx.run(program, backend=backend)


@case("chat.history/120")
def test_an_approved_call_runs_once(case: Case, backend: Backend) -> None:
    """Over the turn that approves it and the one after."""
    office = Office()
    _approved(office, case.given["turns"], backend)

    assert len(office.ran) == case.expect["handlers run"]


@case("chat.history/121")
def test_a_result_stands_right_behind_its_call(case: Case, backend: Backend) -> None:
    """Before later text, behind the answer; the request stays beside the call, as the record of what was approved."""
    history = _approved(Office(), case.given["turns"], backend)

    def told(message: Any) -> str:
        kinds = [part.type.replace("tool-approval-response", "approval-response") for part in message.content]
        named = ", ".join(kind for kind in kinds if kind != "tool-approval-request")
        return "user" if message.role == "user" else f"{message.role}({named})"

    assert [told(message) for message in history] == case.expect["roles"]


@case("chat.persist/124")
def test_time_to_live(case: Case, backend: Backend) -> None:
    """The store has nothing any more when it is over."""
    days = int(case.given["timeToLive"].split()[0])
    clock = TestClock()

    @fx.gen
    def talk() -> Any:
        store = yield from ChatStore
        turn: Any = fx.service(Chat).flat_map(lambda chat: chat.generate_text("hi"))
        yield from turn.provide(Chat.stored("a", time_to_live=days * DAYS))
        before = yield from store.load("a")
        yield from clock.advance(int(case.given["advance"].split()[0]) * DAYS)
        return before is not None, (yield from store.load("a"))

    model = ScriptedModel.make([text("ok")])
    program: Any = talk().provide(ChatStore.in_memory()).provide(model.layer).provide(clock.layer)

    assert fx.run(program, backend=backend) == (True, case.expect["store.get"])


@case("chat.persist/126")
def test_garbage_is_a_typed_error(case: Case, tmp_path: Path, backend: Backend) -> None:
    """Where the other system breaks."""
    turn: Any = fx.service(Chat).flat_map(lambda chat: chat.generate_text("hi"))
    model = ScriptedModel.make([text("ok")])
    program: Any = turn.provide(Chat.stored("a")).provide(ChatStore.files(tmp_path)).provide(model.layer)
    fx.run(program, backend=backend)
    (path,) = tmp_path.glob("*.json")
    path.write_text(case.given["stored"])
    ended: Any = fx.run_exit(program, backend=backend)

    assert isinstance(ended.cause.failures[0], ChatStoreError) is case.expect["typed error"]
