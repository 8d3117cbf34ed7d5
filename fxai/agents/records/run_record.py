"""Runs as values that you can store and compare. Use a record as the fixture of a regression test.

A record contains the turns of the model with the results of its calls, from an answer, a history, or a durable run.

>>> from fxai.messages.part import Finish, Text, ToolCall, ToolResult
>>> parts = ToolCall("c1", "add", {"a": 1, "b": 2}), ToolResult("c1", "add", 3), Finish("tool-calls")
>>> record = RunRecord((RecordedStep(parts), RecordedStep((Text("It is 3."), Finish("stop")))))
>>> [(call.name, call.params, call.result) for call in record.steps[0].calls], record.answer
([('add', {'a': 1, 'b': 2}, 3)], 'It is 3.')
>>> RunRecord.from_json(record.to_json()).unwrap() == record
True
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from itertools import takewhile
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias, final

import msgspec
from returns.result import Failure, Result, Success
from typing_extensions import override

from fxai.agents.answer import Answer, RenderFailed, RunError, history_of
from fxai.effects.cause import Cause, Exit, Failed, FailureError, InterruptedProgramError, Succeeded
from fxai.messages.message import Message, handle_of
from fxai.messages.part import Finish, Part, Text, ToolCall, ToolResult, Usage
from fxai.messages.prompt import Prompt
from fxai.messages.reason import ContentPolicyError
from fxai.messages.response import Response
from fxai.messages.wire import HISTORY_LIMITS
from fxai.schema.codec import Schema
from fxai.schema.data import JsonObject
from fxai.schema.fault import DecodeFailure, Fault
from fxai.schema.parsing import parse_json
from fxai.schema.surrogate import mend_data
from fxai.storage.private_file import replace_file
from fxai.storage.secret_filter import SecretFilter

RunEnd: TypeAlias = Literal["done", "pending", "failed", "cancelled", "unknown"]
"""The way a recorded run ended. `pending`: a call waits. `unknown`: the source of the record does not state it."""

RunSource: TypeAlias = (
    Answer[Any] | Exit[Any, Any] | Cause[Any] | Prompt | Response | RunError | RenderFailed | BaseException
)
"""A finished run: its answer, its exit, its failure, its history, or one response of a model."""

REFUSED: Final = "fxai_refused"
"""The key in the metadata of a result whose value a journal does not contain, because fxai refused the call."""


_LONGEST: Final = 1000  # characters of a failure, as in a journal


class RunRecordError(ValueError):
    """The error for a file that is not a record, or for a value that belongs to no run."""


@final
class RecordedCall(msgspec.Struct, frozen=True):
    """A call in a record, with its result."""

    id: str
    """The id that the model or the provider gave the call."""
    name: str
    """The name of the tool."""
    params: Any
    """The parameters as a JSON value, or the text of the model if it is not JSON. `UNSET` if an earlier turn made the
    call, and this step contains only its result."""
    result: Any = msgspec.UNSET
    """The result as a JSON value. `UNSET` if the call has no result, or if its source does not contain the value."""
    is_failure: bool = False
    """True if the result is a failure."""
    is_refused: bool = False
    """True if fxai refused the call, and the source does not contain the value of the failure."""
    handle: str = ""
    """The handle of a stored large result. `result` is then its preview."""
    provider_executed: bool = False
    """True if the provider ran the call."""

    @property
    def has_ended(self) -> bool:
        """True if the call has a result."""
        return self.is_refused or self.result is not msgspec.UNSET

    @override
    def __hash__(self) -> int:
        return hash((self.id, self.name))


@final
class RecordedStep(msgspec.Struct, frozen=True):
    """A turn of the model with the results of its calls."""

    content: tuple[Part, ...]
    """The parts of the turn, and the final results of its calls in encoded form."""
    agent: str = ""
    """The sub-agent whose step it is, with the enclosing sub-agents before it: `"researcher/reader"`. Empty for the
    agent of the run. If a durable run executes several agents, each path starts with the name of its agent."""
    run: int = 0
    """The number of the agent's run, from 0, if a call or the program runs the agent more than once."""

    @property
    def calls(self) -> tuple[RecordedCall, ...]:
        """The calls of the turn in the order of the model, after the calls of earlier turns that ended in this step."""
        response = Response(self.content)
        results = {result.id: result for result in response.tool_results}
        own = [(call, results.pop(call.id, None)) for call in response.tool_calls]
        earlier = [ToolCall(one.id, one.name, msgspec.UNSET) for one in results.values()]
        return tuple(
            [_record_call(call, result) for call, result in [*zip(earlier, results.values(), strict=True), *own]]
        )

    @override
    def __hash__(self) -> int:
        return hash((len(self.content), self.agent, self.run))


def _record_call(call: ToolCall, result: ToolResult | None) -> RecordedCall:
    params = call.params if call.params_text is None else call.params_text
    if result is None:
        return RecordedCall(call.id, call.name, params, provider_executed=call.provider_executed)
    refused = result.metadata.get(REFUSED) is True
    return RecordedCall(
        call.id,
        call.name,
        params,
        msgspec.UNSET if refused else result.encoded_result,
        result.is_failure,
        refused,
        handle_of(result) or "",
        call.provider_executed,
    )


@final
class RunRecord(msgspec.Struct, frozen=True):
    """A finished or stopped run: its turns, the results of its calls, and its end.

    Two records can differ in ids and times. To compare what the runs did, use `diff_runs`.
    """

    steps: tuple[RecordedStep, ...]
    """The steps in their order. The steps of a sub-agent come before the next step of its caller."""
    prompt: Prompt = Prompt.empty
    """The messages before the first turn, without system messages. Empty if they are unknown."""
    ended: RunEnd = "done"
    """The way the run ended, see `RunEnd`."""
    failure: str = ""
    """The failure that ended the run, as text. Empty if the run did not fail."""

    # -- constructors

    @staticmethod
    def of(source: RunSource) -> RunRecord:
        """Return the record of a run.

        Args:
            source: An `Answer`, an `Exit`, a `Cause`, a failure of a run or an exception with a history, a `Prompt`, or
                a `Response`. If the source has only a history, the record contains all turns of the conversation.

        Raises:
            RunRecordError: If the source belongs to no run of an agent.
            MessageError: If parameters or a result are not JSON values.
        """
        if isinstance(source, Succeeded):
            return RunRecord.of(source.value)
        if isinstance(source, Answer):
            return _of_answer(source)
        if isinstance(source, Response):
            ended: RunEnd = "pending" if source.pending else "done"
            return RunRecord((RecordedStep(_encode(source.content)),), ended=ended)
        if isinstance(source, Prompt):
            return _of_history(source, "pending" if source.pending else "done")
        history = history_of(source)
        if history is None:
            raise RunRecordError(
                f"cannot record {type(source).__name__}: it belongs to no run of an agent. Pass an Answer, an Exit, a "
                "failure with a history, a Prompt, or a Response."
            )
        cause = source.cause if isinstance(source, Failed | FailureError) else source
        if not isinstance(cause, Cause):
            is_cancelled = isinstance(source, BaseException) and not isinstance(source, Exception)
            is_cancelled = is_cancelled or isinstance(source, InterruptedProgramError)
            ended = "cancelled" if is_cancelled else "failed"
            return _of_history(history, ended, (str(source) or repr(source))[:_LONGEST])
        failure = str(cause.failures[0]) if cause.failures else repr(cause.squash())
        return _of_history(history, "cancelled" if cause.interrupted else "failed", failure[:_LONGEST])

    # -- reading

    @property
    def own_steps(self) -> tuple[RecordedStep, ...]:
        """The steps without the steps of sub-agents. All steps if a durable run executes several agents."""
        return tuple([step for step in self.steps if not step.agent]) or self.steps

    @property
    def nested(self) -> bool:
        """True if the record contains steps of sub-agents. Only the record of a durable run contains them."""
        return len(self.own_steps) < len(self.steps)

    @property
    def answer(self) -> str:
        """The text of the last turn of the agent. Empty if the run has no turn."""
        return Response(self.own_steps[-1].content).text if self.steps else ""

    @property
    def refusal(self) -> ContentPolicyError | None:
        """The refusal in the last turn of the agent, or None."""
        return Response(self.own_steps[-1].content).refusal if self.steps else None

    @property
    def usage(self) -> Usage:
        """The token usage of the agent's own turns. Its numbers are None if the source does not state them."""
        return sum((Response(step.content).usage for step in self.own_steps), Usage())

    # -- the JSON form

    def to_data(self) -> JsonObject:
        """Return the record as JSON values. Two equal records have equal JSON values."""
        steps = [
            {"agent": step.agent, "run": step.run, "content": Response(step.content).to_data()} for step in self.steps
        ]
        return {
            "version": _VERSION,
            "prompt": self.prompt.to_data(),
            "steps": steps,
            "ended": self.ended,
            "failure": self.failure,
        }

    def to_json(self) -> str:
        """Return the record as indented JSON text with sorted members, for a file that people review."""
        return json.dumps(self.to_data(), ensure_ascii=False, indent=2, sort_keys=True) + "\n"

    @staticmethod
    def from_data(data: object) -> Result[RunRecord, DecodeFailure]:
        """Return the record from JSON values.

        Fails with:
            DecodeFailure: If a field is missing, unknown, or has a wrong type, or if the version is unknown.
        """
        read = _FILE.decode(data)
        return _of_file(read.unwrap()) if isinstance(read, Success) else Failure(read.failure())

    @staticmethod
    def from_json(text: str | bytes) -> Result[RunRecord, DecodeFailure]:
        """Return the record from JSON text of at most 1 GiB and 256 levels.

        Fails with:
            DecodeFailure: See `from_data`. Also if the text is not JSON.
        """
        read = parse_json(text, HISTORY_LIMITS)
        return RunRecord.from_data(read.unwrap()) if isinstance(read, Success) else Failure(read.failure())

    # -- files

    def without_secrets(self, secrets: Iterable[str] = ()) -> RunRecord:
        """Return the record without secrets, as `write` stores it.

        fxai removes JSON members with the name of a key, strings that look like a key, and each string in `secrets`.

        Raises:
            RunRecordError: If a secret is a part of the form itself, such as `"tool-call"`.
        """
        read = RunRecord.from_data(SecretFilter(secrets).data(self.to_data()))
        if isinstance(read, Failure):
            raise RunRecordError(f"cannot remove a secret: {read.failure()}. Pass only real secrets.")
        return read.unwrap()

    def write(self, path: str | os.PathLike[str], *, secrets: Iterable[str] = ()) -> None:
        """Write the record to a file that only its owner can read (mode 0600), without secrets.

        Args:
            path: JSON file. Missing directories are created.
            secrets: Further strings that fxai must not store. fxai ignores strings of fewer than 8 characters.

        Raises:
            OSError: If the file cannot be written.
            RunRecordError: See `without_secrets`.
        """
        replace_file(Path(path).absolute(), self.without_secrets(secrets).to_json().encode())

    @staticmethod
    def read(path: str | os.PathLike[str]) -> RunRecord:
        """Return the record in a file.

        Raises:
            RunRecordError: If the file is missing or unreadable, or is not a record. The message states the location.
        """
        try:
            content = Path(path).read_bytes()
        except OSError as error:
            raise RunRecordError(f"cannot read {os.fspath(path)}: {error.strerror}. Record the run first.") from None
        read = RunRecord.from_json(content)
        if isinstance(read, Failure):
            raise RunRecordError(f"{os.fspath(path)} is not a record of a run: {read.failure()}. Record the run again.")
        return read.unwrap()

    @override
    def __hash__(self) -> int:
        return hash((self.steps, self.ended, self.failure))


# -- the form of a file

_VERSION: Final = 1


class _StepForm(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    content: list[Any]
    agent: str = ""
    run: int = 0


class _Form(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    version: Literal[1]
    steps: list[_StepForm]
    prompt: list[Any] = []
    ended: RunEnd = "done"
    failure: str = ""


_FILE: Final = Schema[_Form].of(_Form)


def _of_file(form: _Form) -> Result[RunRecord, DecodeFailure]:
    prompt = Prompt.from_data(form.prompt)
    if isinstance(prompt, Failure):
        return Failure(_inside(prompt.failure(), "/prompt"))
    steps: list[RecordedStep] = []
    for index, step in enumerate(form.steps):
        content = Response.from_data(step.content)
        if isinstance(content, Failure):
            return Failure(_inside(content.failure(), f"/steps/{index}/content"))
        steps.append(RecordedStep(content.unwrap().content, step.agent, step.run))
    return Success(RunRecord(tuple(steps), prompt.unwrap(), form.ended, form.failure))


def _inside(failure: DecodeFailure, pointer: str) -> DecodeFailure:
    return DecodeFailure(tuple([Fault(pointer + one.pointer, one.expected, one.found) for one in failure.faults]))


# -- other sources


def _encode(content: Iterable[Part]) -> tuple[Part, ...]:
    """Return the parts with results in encoded form, and without preliminary results."""
    whole = [part for part in content if part.type != "tool-result" or not part.preliminary]
    read = Response.from_data(Response(tuple(mend_data(whole))).to_data())
    return read.unwrap().content


def _of_answer(answer: Answer[Any]) -> RunRecord:
    ended: RunEnd = "pending" if answer.ended == "pending" else "done"
    asked = answer.steps[0].record.messages if answer.steps else Prompt.empty
    lead = (asked if len(asked) else _before_turns(answer.history)).without_system()
    return RunRecord(tuple([RecordedStep(_encode(step.response.content)) for step in answer.steps]), lead, ended)


def _before_turns(history: Prompt) -> Prompt:
    return Prompt(takewhile(lambda message: message.role != "assistant", history))


def _of_history(history: Prompt, ended: RunEnd, failure: str = "") -> RunRecord:
    turns: list[list[Message]] = []
    for message in history:
        if message.role == "assistant":
            turns.append([])
        if turns and message.role in ("assistant", "tool"):
            turns[-1].append(message)
    steps = tuple([RecordedStep(_turn_of(turn)) for turn in turns])
    return RunRecord(steps, _before_turns(history).without_system(), ended, failure)


def _turn_of(messages: Iterable[Message]) -> tuple[Part, ...]:
    data = [part for message in Prompt(messages).to_data() for part in message["content"]]
    known = [part for part in data if part["type"] != "tool-approval-response"]
    content = Response.from_data(known).unwrap().content
    called = any(part.type == "tool-call" and not part.provider_executed for part in content)
    return (*content, Finish("tool-calls" if called else "stop")) if content else (Text(""), Finish("stop"))
