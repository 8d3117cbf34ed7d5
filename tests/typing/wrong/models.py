"""Models, fallbacks, embeddings, and answers that do not fit."""

from __future__ import annotations

from fxai import AiError, Effect, Layer, ObjectResponse, Response, fx
from fxai.models import EmbeddingModel, LanguageModel, ModelRequest, batched, fallback, per_step, similarity
from fxai.testing import ScriptedModel, call, delay, fails, finish, text
from tests.typing.desk import AGENT, DATABASE, DESK, HANDLERS, MODEL, SEARCH, Database, Lost, Query, Refund


class Half(LanguageModel):
    def ask(self, request: ModelRequest) -> str:  # wrong: parts, in an effect
        return "x"


LanguageModel.generate_text("Hello", max_token=3)  # wrong: a misspelt option
LanguageModel.generate_text("Hello", tool_choice="sometimes")  # wrong: no such choice
LanguageModel.generate_text("Hello", toolkit=[SEARCH])  # wrong: a list is not a toolkit
LanguageModel.generate_text("Hello").text  # wrong: an effect is not its value
fx.run(LanguageModel.generate_text("Hello"))  # wrong: no model
fx.run(LanguageModel.generate_text("Hello", toolkit=DESK).provide(MODEL))  # wrong: no handlers
safe: Effect[Response, str, LanguageModel] = LanguageModel.generate_text("Hello")  # wrong: another failure
LanguageModel.generate_object("Hello")  # wrong: no schema
LanguageModel.generate_object("Hello", Query("x"))  # wrong: a value is not a type
LanguageModel.generate_object("Hello", schema={"type": "object"})  # wrong: a document is not a type
found = fx.run(LanguageModel.generate_object("Hello", Query).provide(MODEL))
found.words  # wrong: it is in `value`
found.value.word  # wrong: no such field
order: ObjectResponse[Refund] = found  # wrong: another type
union: str = fx.run(LanguageModel.generate_object("Hello", int | str).provide(MODEL)).value  # wrong: or a number
fx.run(LanguageModel.stream_text("Hello").provide(MODEL))  # wrong: a stream is not an effect
LanguageModel.stream_text("Hello").map(lambda part: part.delta)  # wrong: not every part has it
Layer.succeed(LanguageModel, ScriptedModel.make([]))  # wrong: take its layer
ScriptedModel.make(text("Hello"))  # wrong: one turn for a list
ScriptedModel.make([text(3)])  # wrong: a number is not a text
ScriptedModel.make([call("search")])  # wrong: no arguments
ScriptedModel.make([call(SEARCH, {})])  # wrong: a tool for its name
ScriptedModel.make([fails("offline")])  # wrong: a string is not a reason
ScriptedModel.make([finish("done")])  # wrong: no such reason
ScriptedModel.make([delay("1s")])  # wrong: seconds are a number
fx.run(AGENT.execute("Hello").provide(ScriptedModel.make([])))  # wrong: take its layer
fallback([MODEL, MODEL])  # wrong: one by one
fallback(MODEL, DATABASE)  # wrong: a database is not a model
fallback(MODEL, MODEL, when="retryable")  # wrong: a function
fallback(MODEL, MODEL, when=lambda _: fx.succeed(True))  # wrong: an effect for a bool
fallback(MODEL, Layer.effect(LanguageModel, fx.fail(Lost(1))))  # wrong: it fails otherwise
per_step({"small": MODEL}, choose="small")  # wrong: a function
per_step({"small": MODEL}, choose=lambda _: 3)  # wrong: a name is a string
per_step({"small": "gpt"}, choose=lambda _: "small")  # wrong: a string is not a layer
EmbeddingModel.embed(["a"])  # wrong: a list is `embed_many`
fx.run(EmbeddingModel.embed("a").provide(MODEL))  # wrong: it embeds nothing
batched(MODEL)  # wrong: it embeds nothing
similarity([1.0], "x")  # wrong: a string is not a vector
never: Layer[LanguageModel, AiError] = fallback(MODEL, MODEL).provide(DATABASE).map_error(str)  # wrong: another failure
served: Layer[Database] = MODEL  # wrong: a model is not a database
fx.run(LanguageModel.generate_text("Hello", toolkit=DESK).provide(MODEL | HANDLERS))  # wrong: the database is missing
