"""What may answer turns: agents, stateful prompts, functions, effects and parts; each goes on from turn to turn."""

from __future__ import annotations

from typing import Any

import pytest
from returns.result import Success
from starlette.testclient import TestClient

from fxai import Agent, Gen, Memory, Tool, Toolkit, fx, tool
from fxai.agents.stateful import Render, StatefulPrompt
from fxai.effects import StreamOf
from fxai.messages import Finish, TextDelta, TextEnd, TextStart
from fxai.testing import ScriptedModel, call, text
from fxai.ui import ChatApp, ChatTurn, DataPart, chat_app
from tests.kit.every import every


def say(client: TestClient, added: str, **more: Any) -> dict[str, Any]:
    """Says something in the conversation; as it is kept then."""
    user = {"id": f"u-{added}", "role": "user", "parts": [{"type": "text", "text": added}]}
    response = client.post("/api/chat", json={"id": "c1", "message": user, **more})
    assert response.status_code == 200, response.text
    assert '"type":"error"' not in response.text
    found: dict[str, Any] = client.get("/api/chat/c1").json()
    return found


def answer(client: TestClient, approved: bool = True) -> dict[str, Any]:
    """Answers the calls that wait."""
    message = client.get("/api/chat/c1").json()["messages"][-1]
    for part in message["parts"]:
        if part.get("state") == "approval-requested":
            part.update(state="approval-responded", approval={**part["approval"], "approved": approved})
    response = client.post("/api/chat", json={"id": "c1", "message": message})
    assert response.status_code == 200, response.text
    found: dict[str, Any] = client.get("/api/chat/c1").json()
    return found


def texts(talk: dict[str, Any]) -> list[str]:
    """The texts of the answers."""
    answers = [message for message in talk["messages"] if message["role"] == "assistant"]
    return ["".join(part.get("text", "") for part in message["parts"]) for message in answers]


def basket(at: Render[None]) -> None:
    """A prompt with a basket, which its tool fills."""
    goods = at.state("goods", tuple[str, ...]())

    @tool
    def add(name: str) -> Gen[str]:
        """Puts something in."""
        yield from goods.update(lambda before: (*before, name))
        return f"{name} is in"

    at.tools(add)
    at.system("basket", f"In the basket: {', '.join(goods.value) or 'nothing'}.")


def test_the_state_of_a_prompt_goes_on_from_turn_to_turn_and_branch_to_branch() -> None:
    """Each turn begins with the state that the turn before it ended with; an edited message with that before it."""
    model = ScriptedModel.make(
        [call("add", {"name": "tea"}), text("1"), call("add", {"name": "milk"}), text("2"), text("3")]
    )
    app = chat_app(StatefulPrompt.make("shop", basket), layer=model.layer)
    with TestClient(app) as client:
        say(client, "tea")
        say(client, "milk")
        say(client, "none", messageId="u-milk")

    systems = [request.prompt.system() or "" for request in model.requests]
    assert ["nothing" in systems[0], "tea" in systems[1], "tea, milk" in systems[3]] == [True] * 3
    assert "In the basket: tea." in systems[4]
    assert "milk" not in systems[4]


def test_a_function_gives_each_turn_its_answerer() -> None:
    """By who asks, and by what else the request says; an effect may find it out."""
    models = {name: ScriptedModel.make([text(f"I am {name}.")] * 2) for name in ("ann", "bob")}

    @fx.gen
    def choose(turn: ChatTurn) -> Gen[Agent[Any, Any, Any, Any]]:
        yield from fx.sleep(0)
        return Agent.make("desk", model=models[str(turn.body.get("mode"))].layer)

    with TestClient(chat_app(choose)) as client:
        say(client, "first", mode="ann")
        talk = say(client, "second", mode="bob")

    assert texts(talk) == ["I am ann.", "I am bob."]


def test_parts_that_no_agent_gave_are_a_turn_like_any_other() -> None:
    """What they say is in the history of the next turn."""
    heard: list[int] = []

    def parts(turn: ChatTurn) -> StreamOf[Any, Any, None]:
        heard.append(len(turn.history))
        added = [TextStart("t"), TextDelta("t", f"Turn {len(heard)}."), TextEnd("t"), Finish("stop")]
        return StreamOf.make(DataPart("count", len(heard)), *added)

    with TestClient(chat_app(parts)) as client:
        say(client, "first")
        talk = say(client, "second")

    assert texts(talk) == ["Turn 1.", "Turn 2."]
    assert heard == [0, 2]


def test_a_part_that_belongs_to_nothing_loses_no_other(caplog: pytest.LogCaptureFixture) -> None:
    """It is in the log, and the turn ends well with what can be shown."""
    added = [TextStart("t"), TextDelta("t", "Here."), TextEnd("t"), Finish("stop")]

    def parts(_: ChatTurn) -> StreamOf[Any, Any, None]:
        return StreamOf.make(TextDelta("nowhere", "Lost."), *added)

    with TestClient(chat_app(parts)) as client:
        talk = say(client, "Hello")

    assert (texts(talk), talk["ended"]) == (["Here."], "done")
    assert "is not shown" in caplog.text


def _clerk() -> tuple[Any, Any]:
    delete = Tool.make("delete", success=str, needs_approval=True)
    kit = Toolkit.make(delete)
    return kit, kit.to_layer(delete.handler(lambda _: Success("gone")))


def _as_agent(kit: Any, handlers: Any, model: ScriptedModel) -> ChatApp:
    return chat_app(Agent.make("clerk", toolkit=kit), layer=handlers | model.layer)


def _as_function(kit: Any, handlers: Any, model: ScriptedModel) -> ChatApp:
    def choose(_: ChatTurn) -> Agent[Any, Any, Any, Any]:
        return Agent.make("clerk", toolkit=kit, model=model.layer)

    return chat_app(choose, layer=handlers)


def _as_parts(kit: Any, handlers: Any, model: ScriptedModel) -> ChatApp:
    def parts(turn: ChatTurn) -> StreamOf[Any, Any, None]:
        given: StreamOf[Any, Any, None] = (
            Agent.make("clerk", toolkit=kit).stream(turn.prompt).provide(handlers | model.layer)
        )
        return given

    return chat_app(parts)


def _as_agent_with_memory(kit: Any, handlers: Any, model: ScriptedModel) -> ChatApp:
    agent = Agent.make("clerk", toolkit=kit).with_memory(Memory.in_process())
    return chat_app(agent, layer=handlers | model.layer)


@every("make", [_as_agent, _as_function, _as_parts, _as_agent_with_memory])
@every(("approved", "state"), [(True, "output-available"), (False, "output-denied")])
def test_an_approval_over_two_requests(make: Any, approved: bool, state: str) -> None:
    """The call is run by the second one, or not; its message goes on, and the history is one of a whole run."""
    model = ScriptedModel.make([call("delete", {}, id="d1"), text("Well."), text("Next.")])
    with TestClient(make(*_clerk(), model)) as client:
        pending = say(client, "delete")
        done = answer(client, approved)
        after = say(client, "next")

    (part,) = [part for part in done["messages"][-1]["parts"] if "toolCallId" in part]
    assert pending["ended"] == "pending"
    assert (done["ended"], part["state"], texts(done)) == ("done", state, ["Well."])
    assert texts(after) == ["Well.", "Next."]
    roles = [message.role for message in model.requests[-1].prompt]
    assert roles[:3] == ["user", "assistant", "tool"]
    assert roles[-2:] == ["assistant", "user"]


def test_a_sub_agent_is_a_tool_whose_call_is_shown() -> None:
    """What it says is the result of the call."""
    helper = Agent.make("helper", instructions="Help.", model=ScriptedModel.make([text("Helped.")]).layer)
    agent = Agent.make("desk").with_tools(helper.as_tool(description="Helps."))
    model = ScriptedModel.make([call("helper", {"prompt": "Do it."}), text("Done.")])
    with TestClient(chat_app(agent, layer=model.layer)) as client:
        talk = say(client, "help")

    (part,) = [part for part in talk["messages"][-1]["parts"] if "toolCallId" in part]
    assert (part["state"], part["output"]) == ("output-available", "Helped.")
    assert texts(talk) == ["Done."]


@tool
def double(n: int) -> int:
    """Doubles a number."""
    return 2 * n


def test_two_users_of_one_agent_do_not_meet() -> None:
    """Each conversation has its own history, whatever memory the agent was made with."""
    model = ScriptedModel.make([text("Hello."), text("Hi.")])
    app = chat_app(
        Agent.make("desk").with_tools(double).with_memory(Memory.in_process()),
        layer=model.layer,
        identify=lambda request: request.headers.get("x-user"),
    )
    with TestClient(app) as client:
        for user in ("ann", "bob"):
            added = {"id": "u1", "role": "user", "parts": [{"type": "text", "text": f"I am {user}."}]}
            client.post("/api/chat", json={"id": f"c-{user}", "message": added}, headers={"x-user": user})

    assert "I am ann." not in repr(model.requests[1].prompt)
