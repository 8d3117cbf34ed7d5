"""Approvals and a chat: a tool that asks first, answered in a later turn, by another run of the program.

The conversation lies in a file meanwhile. What was approved is what runs: a changed history is refused.
Run it: `python examples/60_approvals_and_chat.py`.
"""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Never, TypeAlias

import msgspec
from returns.result import Result, Success

from fxai import Effect, Gen, HandlerOf, LanguageModel, Tool, Toolkit, fx
from fxai.messages import Prompt, ToolMessage
from fxai.models import ApprovalKey, Chat, ChatError, ChatStore
from fxai.testing import ScriptedModel, call, text


class Mail(msgspec.Struct, frozen=True):
    """A letter."""

    to: str
    text: str


def is_stranger(mail: Mail, _: object) -> bool:
    """Whether somebody must agree first."""
    return not mail.to.endswith("@home.example")


send = Tool.make("send", description="Sends a mail.", parameters=Mail, success=str, needs_approval=is_stranger)
kit = Toolkit.make(send)
Needs: TypeAlias = Chat | LanguageModel | HandlerOf[Mail, str, Never]


def on_send(mail: Mail) -> Result[str, Never]:
    """Sends it, here to the screen."""
    print(f"  sent to {mail.to}: {mail.text}")
    return Success("sent")


@fx.gen
def ask() -> Gen[None, ChatError, Needs]:
    """The first run: the model calls twice, one call waits."""
    chat = yield from Chat
    yield from chat.generate_text("Tell mum and the bank that I moved.", toolkit=kit)
    for waiting in (yield from chat.pending):
        print(f"  waits: {waiting.name} {waiting.params}")


@fx.gen
def agree() -> Gen[None, ChatError, Needs]:
    """The second run: somebody agrees, the call runs, and the model goes on."""
    chat = yield from Chat
    waiting = yield from chat.pending
    response = yield from chat.generate_text(ToolMessage(tuple(one.approve() for one in waiting)), toolkit=kit)
    print(f"  {response.text}")


@fx.gen
def cheat() -> Gen[None, ChatError, Needs]:
    """Somebody changes the file before the answer."""
    chat = yield from Chat
    changed = (yield from chat.to_json()).replace("moved", "want all my money in cash")
    yield from chat.replace(Prompt.from_json(changed).unwrap())
    yield from agree()


def run(program: Effect[None, ChatError, Needs], model: ScriptedModel, store: ChatStore) -> None:
    """One run of the program, with everything built anew."""
    key = ApprovalKey("an example's secret is no secret").layer
    served = program.provide(Chat.stored("anna")).provide(store.layer).provide(model.layer)
    outcome = fx.run_result(served.provide(kit.to_layer(send.handler(on_send))).provide(key))
    if not isinstance(outcome, Success):
        print(f"  refused: {outcome.failure()}")


def main() -> None:
    """Two conversations, the second one tampered with."""
    mails = [
        call("send", {"to": "mum@home.example", "text": "I moved."}),
        call("send", {"to": "bank@example.com", "text": "I moved."}),
    ]
    with TemporaryDirectory() as folder:
        for title, second in (("Agreed:", agree()), ("Tampered with:", cheat())):
            print(title)
            store = ChatStore.files(Path(folder) / title)
            run(ask(), ScriptedModel.make([mails]), store)
            run(second, ScriptedModel.make([text("Both know now.")]), store)


if __name__ == "__main__":
    main()
