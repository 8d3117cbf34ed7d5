"""Stores, ledgers and keys are values; each is given to a program by its layer, or as it is."""

from __future__ import annotations

from fxai.effects import Effect, Gen, Layer, fx
from fxai.messages import AiError, Prompt
from fxai.models import ApprovalKey, ApprovalLedger, ChatStore, ChatStoreError

store: ChatStore = ChatStore.sqlite("chats.db")
ledger: ApprovalLedger = ApprovalLedger.file("ledger.json")

layers: tuple[Layer[ChatStore], Layer[ApprovalLedger], Layer[ApprovalKey]] = (
    store.layer,
    ledger.layer,
    ApprovalKey("a secret of sixteen characters or more").layer,
)
from_env: Layer[ApprovalKey, AiError] = ApprovalKey.from_env()


@fx.gen
def loaded() -> Gen[Prompt | None, ChatStoreError, ChatStore]:
    """Asks for a store."""
    kept = yield from ChatStore
    return (yield from kept.load("ann"))


by_layer: Effect[Prompt | None, ChatStoreError] = loaded().provide(store.layer).provide(ledger.layer)
as_it_is: Effect[Prompt | None, ChatStoreError] = loaded().provide(store).provide(ledger)
