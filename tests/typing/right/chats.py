"""What the checkers infer of chats."""

from __future__ import annotations

from typing import Never, assert_type

from fxai import Chat, HandlerOf, ObjectResponse, Prompt, Response, fx
from fxai.effects import EffectOf, LayerOf
from fxai.models import ChatError, ChatStore, ChatStoreError, LanguageModel, ObjectPending
from tests.typing.desk import DATABASE, DESK, HANDLERS, MODEL, Lost, Query, Refund

assert_type(Chat.from_prompt("Be brief."), EffectOf[Chat, Never, None])
assert_type(Chat.layer(), LayerOf[Chat, Never, None])
assert_type(Chat.stored("ann"), LayerOf[Chat, Never, ChatStore | None])
chat = fx.run(Chat.from_prompt("Be brief."))
assert_type(chat.history, EffectOf[Prompt, ChatStoreError, None])
assert_type(chat.generate_text("Hello"), EffectOf[Response, ChatError, LanguageModel | None])
assert_type(
    chat.generate_text("Hello", toolkit=DESK),
    EffectOf[
        Response,
        ChatError,
        HandlerOf[Query, list[str], Never] | HandlerOf[Refund, int, Lost] | LanguageModel | None,
    ],
)
assert_type(
    chat.generate_object("Hello", int | None),
    EffectOf[ObjectResponse[int | None], ChatError | ObjectPending, LanguageModel | None],
)
asked = chat.generate_text("Hello", toolkit=DESK).provide(HANDLERS).provide(DATABASE)
assert_type(fx.run(asked.provide(MODEL)), Response)
