"""A turn of the local model. Use `LocalTurn` to choose a tool, fill its parameters, or answer, and to stream the parts.

>>> Wanted.of(("add", "weather"), "none").names
()
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any, Final, TypeAlias, final

import msgspec
from returns.result import Failure, Result

from fxai.messages.part import (
    Finish,
    FinishReason,
    ResponseMetadata,
    StreamPart,
    TextDelta,
    TextEnd,
    TextStart,
    ToolCall,
    ToolParamsDelta,
    ToolParamsEnd,
    ToolParamsStart,
    Usage,
    WarningPart,
)
from fxai.messages.reason import (
    ContextOverflowError,
    InvalidOutputError,
    InvalidRequestError,
    InvalidUserInputError,
    StructuredOutputError,
    UnsupportedSchemaError,
)
from fxai.models.history_form import mend_request
from fxai.models.model_request import ModelRequest, ToolChoice, ToolChoices
from fxai.providers.local import recipe
from fxai.providers.local.engine import Completed, Completion, Engine, OnText, Prompt
from fxai.providers.local.grammar import Bounds, Grammar, GrammarFailure, choice_grammar, grammar
from fxai.providers.local.recipe import Candidate, ModelInput, clauses, conversation, narrow
from fxai.providers.local.weights import LocalError
from fxai.schema.json_schema import JsonSchema
from fxai.tools.tool import AnyTool, Tool

Emit: TypeAlias = "Callable[[StreamPart], None]"
"""A function that receives each part, in the event loop."""

_ONE_LINE: Final = r'root ::= " " [^ \n] [^\n]{0,400} "\n"'
_TEMPERATURES: Final = (None, 0.7, 1.0)
_CHARACTERS_A_TOKEN: Final = 3


@final
class Wanted(msgspec.Struct, frozen=True):
    """The tools that a turn can call, and whether it must call a tool."""

    names: tuple[str, ...]
    forced: bool = False

    @staticmethod
    def of(names: tuple[str, ...], choice: ToolChoices) -> Wanted:
        """Return the names that ``choice`` permits. Raises `LocalError` if it requires an unknown tool."""
        if choice == "none":
            return Wanted(())
        if choice == "auto":
            return Wanted(names)

        asked, mode = (choice.names, choice.mode) if isinstance(choice, ToolChoice) else (names, "required")
        unknown = [name for name in asked if name not in names]
        if unknown or not asked:
            problem = (
                f"must be a tool of the request ({', '.join(names) or 'none'}), got {', '.join(unknown) or 'none'}"
            )
            raise LocalError(InvalidRequestError(parameter="tool_choice", constraint=problem))
        return Wanted(asked, forced=mode != "auto")


@final
class LocalTurn:
    """A turn of a request. It passes the parts of the answer to `emit`."""

    def __init__(
        self, engine: Engine, request: ModelRequest, emit: Emit, bounds: Bounds, *, quotes_results: bool = False
    ) -> None:
        self.engine = engine
        self.quotes_results = quotes_results
        self.request: ModelRequest
        self.mended: tuple[WarningPart, ...]
        self.request, self.mended = mend_request(request)
        self.emit = emit
        self.bounds = bounds
        self.usage: Usage = Usage()
        self.talk: ModelInput = conversation(self.request.prompt.messages)
        self.tools: dict[str, Tool[Any, Any, Any]] = {
            tool.name: tool for tool in request.tools if not Tool.is_provider_defined(tool)
        }
        self.schemas: dict[str, dict[str, Any]] = {name: tool.json_schema() for name, tool in self.tools.items()}

    async def run(self) -> None:
        """Run the turn. Raises `LocalError`. The parts that the turn emitted before the error remain valid."""
        _refuse_files(self.talk)
        wanted = Wanted.of(tuple(self.tools), self.request.tool_choice)
        grammars = {name: self._grammar(f"tool {name!r}", self.schemas[name]) for name in wanted.names}
        answer = self.request.response_schema
        shape = None if answer is None else self._grammar("response schema", answer.to_dict())

        for warning in (*self.mended, *warnings_of(self.request, self.talk.noted)):
            self.emit(warning)
        self.emit(ResponseMetadata(secrets.token_hex(8), self.engine.name, datetime.now(UTC)))
        chosen, problem = await self._choose(wanted)
        if chosen is not None:
            reason = await self._call(chosen, problem, grammars[chosen.name])
        elif shape is not None and answer is not None:
            speaking = _Speaking(self.emit)
            done, value = await self._json(recipe.structuring(self.talk), shape, answer.to_dict(), speaking)
            speaking.end()
            if isinstance(value, _Wrong) and done.ended != "length":
                raise LocalError(StructuredOutputError(done.text.strip(), value.pointer, value.problem))
            reason = done.ended
        elif self.quotes_results and self.talk.current.calls:
            speaking = _Speaking(self.emit)
            speaking("\n".join(call.result for call in self.talk.current.calls if call.result))
            speaking.end()
            reason = "stop"
        else:
            reason = await self._answer()
        self.emit(Finish(reason, self.usage))

    def _grammar(self, what: str, schema: Mapping[str, Any] | bool) -> Grammar:
        compiled = _cached_grammar(json.dumps(schema), self.bounds)
        if isinstance(compiled, Failure):
            wrong = compiled.failure()
            problem = f"{what}: {wrong.why}"
            raise LocalError(UnsupportedSchemaError(problem, pointer=wrong.pointer, keyword=wrong.keyword))
        return compiled.unwrap()

    # -- choosing

    async def _choose(self, wanted: Wanted) -> tuple[Candidate | None, str]:
        """Return the tool to call, or None, and the part of the request for this tool.

        The model reads the parts of a request one by one. After a result, the turn can call only a tool without an
        earlier call, and only if the request has another part. Without this rule, a model that repeats itself would
        never answer.
        """
        request, calls = self.talk.current.request, self.talk.current.calls
        candidates = [_candidate(self.tools[name]) for name in wanted.names]
        if not candidates:
            return None, request
        if wanted.forced:
            return (
                candidates[0] if len(candidates) == 1 else await self._choose_among(candidates, request, ())
            ), request
        called = {call.name for call in calls}
        parts = clauses(request) or (request,)
        if called.issuperset(wanted.names) or (calls and len(parts) <= len(called)):
            return None, request
        for problem in parts:
            chosen = await self._choose_among(candidates, problem, (recipe.no_tool(candidates),))
            if chosen is not None and chosen.name not in called:
                return chosen, problem if calls else request
        return None, request

    async def _choose_among(
        self, candidates: Sequence[Candidate], problem: str, others: tuple[str, ...]
    ) -> Candidate | None:
        names = (*(emit.name for emit in candidates), *others)
        prompt = recipe.choosing(candidates, problem, self.talk.past)
        task = Completion(prompt, most=256, grammar=choice_grammar(names).text)
        done = await self._complete(task)
        return next((emit for emit in candidates if emit.name == done.text.strip()), None)

    # -- calling

    async def _call(self, chosen: Candidate, problem: str, held: Grammar) -> FinishReason:
        id_, dynamic = f"call_{secrets.token_hex(8)}", Tool.is_dynamic(self.tools[chosen.name])
        schema = self.schemas[chosen.name]
        self.emit(ToolParamsStart(id_, chosen.name, dynamic=dynamic))
        prompt = recipe.filling(chosen, problem, schema, self.talk.past)
        if not self.engine.speaks_chat:  # the examples and the request can permit fewer values
            held = grammar(narrow(schema, problem, chosen.requests), self.bounds).value_or(held)
        done, params = await self._json(prompt, held, schema, lambda delta: self.emit(ToolParamsDelta(id_, delta)))
        self.emit(ToolParamsEnd(id_))
        if done.ended == "length":
            return "length"
        if isinstance(params, _Wrong):
            raise LocalError(InvalidOutputError(f"parameters of {chosen.name!r}: {params.problem}", params.pointer))
        self.emit(ToolCall(id_, chosen.name, params, dynamic=dynamic))
        return "tool-calls"

    async def _json(
        self, prompt: str, held: Grammar, schema: Mapping[str, Any] | bool, on_text: OnText
    ) -> tuple[Completed, Any]:
        """Generate JSON and return its value. If the grammar is loose, emit the text only after validation."""
        done = Completed("", "length", Usage())
        value: Any = None
        for temperature in _TEMPERATURES if held.loose else (None,):
            done = await self._complete(
                Completion(
                    prompt,
                    most=self._most(),
                    grammar=held.after(" ").text,
                    temperature=self.request.temperature or 0.0 if temperature is None else temperature,
                    seed=None if temperature is None else 7,
                ),
                None if held.loose else _without_leading_blank(on_text),
            )
            value = None if done.ended == "length" else json.loads(done.text)
            faults = () if done.ended == "length" else JsonSchema.of(schema).validate(value)
            if faults:
                value = _Wrong(faults[0].pointer, "; ".join(map(str, faults)))
            if not isinstance(value, _Wrong):
                break
        if held.loose and not isinstance(value, _Wrong):
            on_text(done.text.strip())
        return done, value

    # -- answering

    async def _answer(self) -> FinishReason:
        speaking = _Speaking(self.emit)
        most, temperature = self._most(), self.request.temperature or 0.0
        while True:
            self._fit()
            prompt = _prompt_of(self.talk, speaks_chat=self.engine.speaks_chat)
            if self.engine.speaks_chat:
                task = Completion(prompt, most, None, self.request.stop, temperature)
            else:
                task = Completion(prompt, most, _ONE_LINE, ("\n", *self.request.stop), temperature, once=True)
            try:
                return (await self._complete(task, _without_leading_blank(speaking))).ended
            except LocalError as failure:
                shorter = self.talk.shorter()
                if not isinstance(failure.reason, ContextOverflowError) or shorter is None or speaking.began:
                    raise
                self.talk = shorter
            finally:
                speaking.end()

    def _fit(self) -> None:
        """Drop the oldest exchanges until the conversation and an answer probably fit the context."""
        space = (self.engine.setting.context * 3 // 4) * _CHARACTERS_A_TOKEN
        while sum(len(text) for _, text in recipe.prose(self.talk)) > space:
            shorter = self.talk.shorter()
            if shorter is None:
                return
            self.talk = shorter

    def _most(self) -> int:
        """Return the maximum number of tokens that this turn can write."""
        asked = self.request.max_tokens
        return self.engine.setting.context if asked is None else asked

    async def _complete(self, task: Completion, on_text: OnText | None = None) -> Completed:
        done = await self.engine.complete(task, on_text)
        self.usage = self.usage + done.usage
        return done


def _refuse_files(talk: ModelInput) -> None:
    if talk.left_out:
        problem = f"this model reads only text, and the prompt contains files: {', '.join(talk.left_out)}. Remove them."
        raise LocalError(InvalidUserInputError(problem))


def _prompt_of(talk: ModelInput, *, speaks_chat: bool) -> Prompt:
    """Return the prompt that the model continues to answer in prose."""
    if speaks_chat:
        return recipe.prose(talk)
    return recipe.answering(talk) if talk.current.calls else recipe.talking(talk)


def reading(request: ModelRequest, *, speaks_chat: bool) -> list[Prompt]:
    """Return the prompts of a turn that ends with an answer: the prompts to choose a tool, and the answer's prompt.

    Raises `LocalError` if the prompt contains files or if the tool choice requires an unknown tool.
    """
    talk = conversation(mend_request(request)[0].prompt.messages)
    _refuse_files(talk)
    tools = {tool.name: tool for tool in request.tools if not Tool.is_provider_defined(tool)}
    wanted = Wanted.of(tuple(tools), request.tool_choice)
    candidates = [_candidate(tools[name]) for name in wanted.names]
    prompts: list[Prompt] = []
    if len(candidates) > wanted.forced:  # a single required tool needs no choice
        prompts += [
            recipe.choosing(candidates, problem, talk.past) for problem in clauses(talk.current.request) or ("",)
        ]
    structured = request.response_schema is not None
    return [*prompts, recipe.structuring(talk) if structured else _prompt_of(talk, speaks_chat=speaks_chat)]


@final
class _Wrong(msgspec.Struct, frozen=True):
    """The location of a validation error in a value, and its message."""

    pointer: str
    problem: str


class _Speaking:
    """A text part that starts with its first piece."""

    def __init__(self, emit: Emit) -> None:
        self.emit = emit
        self.id = secrets.token_hex(8)
        self.began = False

    def __call__(self, delta: str) -> None:
        if not self.began:
            self.began = True
            self.emit(TextStart(self.id))
        self.emit(TextDelta(self.id, delta))

    def end(self) -> None:
        """End the part if it started."""
        if self.began:
            self.emit(TextEnd(self.id))


def _without_leading_blank(on_text: OnText) -> OnText:
    """Return a function that removes the leading blank of a completion and calls ``on_text``."""
    begun: list[bool] = []

    def hear(text: str) -> None:
        piece = text if begun else text.lstrip()
        if piece:
            begun.append(True)
            on_text(piece)

    return hear


@lru_cache(maxsize=256)
def _cached_grammar(schema: str, bounds: Bounds) -> Result[Grammar, GrammarFailure]:
    return grammar(json.loads(schema), bounds)


def _candidate(tool: AnyTool) -> Candidate:
    examples = tuple((example.request, example.parameters) for example in tool.input_examples)
    return Candidate(tool.name, tool.description or "", examples)


def warnings_of(request: ModelRequest, files: tuple[str, ...] = ()) -> list[WarningPart]:
    """Return warnings for the unsupported options of a request and for the media types of files in results."""
    found: list[WarningPart] = []
    if request.reasoning not in (None, "none"):
        found.append(_option_warning("reasoning", "this model does not reason before it answers"))
    if request.parallel_tool_calls:
        found.append(_option_warning("parallel_tool_calls", "this model calls one tool a turn"))
    if request.compact_at is not None:
        found.append(_option_warning("compact_at", "this model does not compact conversations"))
    for tool in request.tools:
        if Tool.is_provider_defined(tool):
            problem = f"tool {tool.name!r} was omitted: another provider runs it"
            found.append(WarningPart(problem, kind="unsupported-tool", subject=tool.name))
    reason = "in a tool result was omitted: this model reads only text"
    return [*found, *(WarningPart(f"a file ({kind}) {reason}") for kind in dict.fromkeys(files))]


def _option_warning(option: str, why: str) -> WarningPart:
    return WarningPart(f"{option} was ignored: {why}", kind="unsupported-option", subject=option)
