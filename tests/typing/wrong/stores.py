"""Stores, ledgers, and keys that are used as something else, or are not whole."""

from __future__ import annotations

from fxai import Effect, Layer, Prompt, fx
from fxai.models import ApprovalKey, ApprovalLedger, ChatStore, FileStore
from tests.typing.desk import MODEL


class Half(ChatStore):
    def load(self, chat_id: str) -> Effect[Prompt | None]:
        return fx.succeed(None)


class Other(ChatStore):
    def load(self, chat_id: int) -> Effect[Prompt | None]:  # wrong: an id is a string
        return fx.succeed(None)


Half()  # wrong: it cannot save
ChatStore.files(3)  # wrong: a path
ChatStore.sqlite()  # wrong: no path
ChatStore.in_process().load(3)  # wrong: an id is a string
ChatStore.in_process().save("ann", "Hello", None)  # wrong: a string is not a history
surely: Effect[Prompt | None] = ChatStore.in_process().load("ann")  # wrong: it can fail
fx.run(fx.service(ChatStore).provide(MODEL))  # wrong: a model is not a store
kept: Layer[ChatStore] = ChatStore.in_process  # wrong: a function that was not called
ApprovalLedger.file(3)  # wrong: a path
ApprovalLedger.in_process().claim(["a"])  # wrong: ids with their times
ApprovalKey.from_env(3)  # wrong: a name is a string
key: Layer[ApprovalKey] = ApprovalKey.from_env()  # wrong: it can fail
FileStore.upload("a.txt")  # wrong: a path is not a file
FileStore.get(3)  # wrong: an id is a string
fx.run(FileStore.delete("a"))  # wrong: no store
