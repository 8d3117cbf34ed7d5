"""Chats without a model or a store, and their answers as something else."""

from __future__ import annotations

from fxai import Chat, Effect, Prompt, fx
from fxai.models import LanguageModel
from tests.typing.desk import DESK, MODEL, Query

chat = fx.run(Chat.from_prompt("Be brief."))

Chat("Be brief.")  # wrong: it is made by an effect or a layer
Chat.layer(3)  # wrong: a number is not a prompt
Chat.stored()  # wrong: no id
Chat.stored(3)  # wrong: an id is a string
Chat.stored("ann", time_to_live="1h")  # wrong: seconds are a number
fx.run(fx.service(Chat).provide(Chat.stored("ann")))  # wrong: no store
Chat.from_json({"a": 1})  # wrong: a text
fx.run(chat.generate_text("Hello"))  # wrong: no model
fx.run(chat.generate_text("Hello", toolkit=DESK).provide(MODEL))  # wrong: no handlers
chat.generate_text("Hello").text  # wrong: an effect is not its value
chat.generate_text("Hello", model="small")  # wrong: no such option
chat.generate_object("Hello")  # wrong: no schema
query: Query = fx.run(chat.generate_object("Hello", Query).provide(MODEL))  # wrong: it is in `value`
chat.history.messages  # wrong: an effect is not its value
history: Effect[Prompt] = chat.history  # wrong: it can fail
chat.replace(3)  # wrong: a number is not a prompt
chat.turn(lambda prompt: (1, prompt))  # wrong: it must give an effect
chat.turn(lambda prompt: fx.succeed(1))  # wrong: a value and a prompt
Chat.generate_text("Hello")  # wrong: a method of a chat
streamed: Effect[None, str, LanguageModel] = chat.stream_text("Hello").drain()  # wrong: another failure
