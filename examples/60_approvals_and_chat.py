"""Ask for approval of a call, and answer in a later run of the program.

A file stores the conversation between the runs. fxai runs only the approved call and rejects a changed history.
Run `python examples/60_approvals_and_chat.py`.
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
    """A mail."""

    to: str
    text: str


def is_stranger(mail: Mail, _: object) -> bool:
    """Return True if the mail needs an approval."""
    return not mail.to.endswith("@home.example")


send = Tool.make("send", description="Sends a mail.", parameters=Mail, success=str, needs_approval=is_stranger)
kit = Toolkit.make(send)
Needs: TypeAlias = Chat | LanguageModel | HandlerOf[Mail, str, Never]


def on_send(mail: Mail) -> Result[str, Never]:
    """Print the mail instead of sending it."""
    print(f"  sent to {mail.to}: {mail.text}")
    return Success("sent")


@fx.gen
def ask() -> Gen[None, ChatError, Needs]:
    """Run the first part. The model makes two calls, and one of them waits for approval."""
    chat = yield from Chat
    yield from chat.generate_text("Tell mum and the bank that I moved.", toolkit=kit)
    for waiting in (yield from chat.pending):
        print(f"  waits: {waiting.name} {waiting.params}")


@fx.gen
def agree() -> Gen[None, ChatError, Needs]:
    """Run the second part. A person approves the call, the call runs, and the model continues."""
    chat = yield from Chat
    waiting = yield from chat.pending
    response = yield from chat.generate_text(ToolMessage(tuple(one.approve() for one in waiting)), toolkit=kit)
    print(f"  {response.text}")


@fx.gen
def cheat() -> Gen[None, ChatError, Needs]:
    """Change the stored conversation before the approval."""
    chat = yield from Chat
    changed = (yield from chat.to_json()).replace("moved", "want all my money in cash")
    yield from chat.replace(Prompt.from_json(changed).unwrap())
    yield from agree()


def run(program: Effect[None, ChatError, Needs], model: ScriptedModel, store: ChatStore) -> None:
    """Run a program once, with new layers."""
    key = ApprovalKey("an example's secret is no secret").layer
    served = program.provide(Chat.stored("anna")).provide(store.layer).provide(model.layer)
    outcome = fx.run_result(served.provide(kit.to_layer(send.handler(on_send))).provide(key))
    if not isinstance(outcome, Success):
        print(f"  refused: {outcome.failure()}")


def main() -> None:
    """Run two conversations. The second conversation changes the history before the approval."""
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
