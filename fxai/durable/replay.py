"""The interceptor that records the parts of a durable run and replays them.

fxai does not run a finished turn or call again, but returns its record. The outcome of a call that started and did not
finish is unknown. fxai runs this call again only if its tool is `Idempotent`, `Readonly`, or `Resumable`. Otherwise,
fxai asks a person for the outcome. The record of a call contains its changes in the state of a stateful prompt.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from hashlib import blake2b
from typing import Any, Final, final

import msgspec
from typing_extensions import override

from fxai.agents.answer import Answer
from fxai.agents.inbox import InboxMessage, decode_messages, encode_messages
from fxai.agents.state import StateStore
from fxai.durable.failure import ProgramChanged, RunWaiting
from fxai.durable.frame import Frame, Steps, append, digest, leave, leave_openly, stop_cancelled, under_way, wait
from fxai.durable.outcome_record import (
    ask_about,
    bad_end_of,
    end_of,
    find_turn,
    is_for,
    note_failed_turn,
    read_outcome,
    resolve_doubt,
    take_reply,
    why_in_doubt,
)
from fxai.durable.record import Answered, Begun, Ended, Entered, Part, TurnRecord
from fxai.effects.cause import Cause, Fail
from fxai.effects.context import AnyContext
from fxai.effects.effect import AnyEffect, Ask, FailCause, Fold, Generate, Local, Succeed, Suspend, Sync, Within
from fxai.effects.scope import NOTHING, acquire_release
from fxai.effects.stream import AnyStream, StreamOf, provide_stream
from fxai.effects.tracing import Tracer
from fxai.messages.accumulate import gather
from fxai.messages.errors import AiError
from fxai.messages.message import Message, ToolApprovalResponsePart
from fxai.messages.part import ApprovalRequest, ToolCall
from fxai.messages.prompt import Prompt
from fxai.messages.response import Response, stream_of
from fxai.models.approval import digest_of
from fxai.models.interceptor import InterceptedCall, Interceptor, RunInfo, TurnInfo, WorkInfo
from fxai.models.model_request import ModelRequest
from fxai.schema.fault import DecodeError
from fxai.tools.annotation import Idempotent, Readonly, Resumable
from fxai.tools.call import Outcome
from fxai.tools.handler import InnerCall, joins_calls
from fxai.tools.tool import AnyTool
from fxai.tools.tool_error import OutcomeUnknown
from fxai.tools.tool_info import CallKey

_INSIDE: Final = "inside"
_REQUEST: Final = "request"  # the name of the frame of a model, next to the calls of its turn
_ADMIT: Final = "admit"


@final
class Replay(Interceptor):
    """The interceptor of one durable run.

    Args:
        goes_on: True if a program that changed continues the run.
    """

    resumes = True

    def __init__(self, *, goes_on: bool) -> None:
        self._goes_on = goes_on
        self._tools: dict[int, tuple[AnyTool, str]] = {}  # digests by `id()`; the tool keeps its id in use

    # -- runs of agents

    @override
    def run(self, about: RunInfo, running: AnyEffect) -> AnyEffect:
        def enter(context: AnyContext) -> AnyEffect:
            frame = _frame(context)
            path = frame.next(about.agent)
            start = Generate(_enter, (frame, path, about), {})
            ran = start.flat_map(lambda inner: Local(running, inner.into))
            if not frame.leaves:
                return Fold(ran, leave_openly, None)

            def leave_pending(answer: Answer[Any]) -> AnyEffect:
                # Another process can answer all questions after the sub-agent stopped waiting. The answer of the
                # sub-agent is pending also then, so the run stops, and the next program uses the answers.
                known = frame.journal.known
                if answer.ended != "pending" or not known.unheard:
                    return Succeed(answer)
                return leave(RunWaiting(known.run, known.questions), frame)

            return ran.flat_map(leave_pending)

        return Within(enter)

    # -- turns

    @override
    def turn(self, about: TurnInfo, asking: AnyEffect) -> AnyEffect:
        return Within(lambda context: Generate(self._turn, (_frame(context), about, asking, _tracer(context)), {}))

    def _turn(self, frame: Frame, about: TurnInfo, asking: AnyEffect, tracer: Tracer | None) -> Steps:
        path, request = self._turn_path(frame, about)
        yield stop_cancelled(frame)
        if about.location is None:
            yield frame.verify(path)
        turn = find_turn(frame, path)
        if turn is not None:
            return (yield self._replay(frame, turn, request, tracer))
        yield frame.go_on()
        trace = _trace_of(tracer)
        asked = under_way(frame, Local(asking, _requesting(frame, path).into))
        parts = yield Fold(asked, partial(note_failed_turn, frame, path, request, trace), None)
        yield append(frame, TurnRecord(path, _parts_data(parts), request, trace))
        return parts

    @override
    def stream_turn(self, about: TurnInfo, parts: AnyStream) -> AnyStream:
        def choose(context: AnyContext) -> AnyEffect:
            frame, tracer = _frame(context), _tracer(context)
            path, request = self._turn_path(frame, about)
            verified = frame.verify(path) if about.location is None else Succeed(None)
            turn = find_turn(frame, path)
            if turn is None:
                begun = verified.and_then(stop_cancelled(frame)).and_then(Suspend(frame.go_on))
                journal = frame.journal
                started = acquire_release(Sync(journal.start_part), lambda _: Sync(journal.end_part))
                asked = StreamOf.unwrap(started.as_(parts))
                inner = provide_stream(asked, Ask(_requesting(frame, path).services))
                return begun.as_(_journal_stream(frame, path, request, inner, _trace_of(tracer)))
            again = verified.and_then(self._replay(frame, turn, request, tracer))
            return again.map(lambda parts: StreamOf.from_iterable([*stream_of(parts)]))

        return StreamOf.unwrap(Within(choose))

    def _turn_path(self, frame: Frame, about: TurnInfo) -> tuple[str, dict[str, str]]:
        image = self._describe(about.request)
        if about.location is not None:
            return frame.at(about.location), image
        image["messages"] += f" {digest(_image(about.request.prompt))}"  # no agent has compared the messages
        frame.asked = path = frame.next("ask")
        return path, image

    def _replay(self, frame: Frame, turn: TurnRecord, request: Mapping[str, str], tracer: Tracer | None) -> AnyEffect:
        changes = [f"{what} of {turn.path}" for what in request if request[what] != turn.request.get(what)]
        frame.journal.reached.end(f"{turn.path}/{_REQUEST}")
        if changes and not self._goes_on:
            return leave(ProgramChanged(frame.journal.known.run, tuple(changes)), frame)
        if tracer is not None:
            tracer.annotate({"fxai.run.replayed": True})
            tracer.link({"traceparent": turn.trace})
        frame.reach(turn.time)
        if turn.failures:
            return FailCause(Cause(tuple([Fail(AiError.from_data(one).unwrap()) for one in turn.failures])))
        read = Response.from_data(turn.parts)
        return Succeed(read.unwrap().content)

    def _describe(self, request: ModelRequest) -> dict[str, str]:
        """Return digests of a request. Only the last message counts, because earlier turns had the others."""
        prompt = request.prompt
        system = [message for message in prompt if message.role == "system"]
        last = [prompt[-1]] if len(prompt) and prompt[-1].role != "system" else []
        return {
            "instructions": digest(_image(Prompt(system))),
            "tools": digest(*[self._digest(tool).encode() for tool in request.tools]),
            "messages": f"{len(prompt) - len(system)} {digest(_image(Prompt(last)))}",
        }

    def _digest(self, tool: AnyTool) -> str:
        known = self._tools.get(id(tool))
        if known is None:
            known = self._tools[id(tool)] = tool, f"{digest_of(tool, None)} {tool.description}"
        return known[1]

    # -- calls

    @override
    def admit(self, about: InterceptedCall, asking: AnyEffect) -> AnyEffect:
        return Within(lambda context: Generate(self._admit, (_frame(context), about, asking), {}))

    def _admit(self, frame: Frame, about: InterceptedCall, asking: AnyEffect) -> Steps:
        """Ask if a call may run, or for the result of an external call. The journal can contain the answer."""
        path = _call_path(frame, about)
        yield stop_cancelled(frame)
        part = frame.journal.known.part(path)
        if part.ended is not None or part.begun is not None:  # an earlier program admitted the call
            frame.journal.reached.end(f"{path}/{_ADMIT}")
            return None if about.tool.requires_handler else (yield _give(frame, about, part))
        yield frame.go_on()
        external = not about.tool.requires_handler
        yield about.reread()
        question = part.question
        if question is not None and not is_for(question, about):
            part.question = question = None
        if question is None or part.reply is None:
            about.approval_id = f"approval_{digest(*_identity_of(frame, path))}"
            admitting = Local(asking, frame.inside(f"{path}/{_ADMIT}").into)
            request: ApprovalRequest | Outcome | None = yield under_way(frame, admitting)
            if isinstance(request, Outcome) or (request is None and not external):
                return request
            if question is None:
                yield ask_about(frame, path, about, "result" if external else "approval", request=request)
            if not part.answered:
                yield from wait(frame, part)
            if part.reply is None:  # the question is open, or the program answers it itself
                frame.give_up(part)
                return request
        return (yield from take_reply(frame, path, about, part))

    @override
    def call(self, about: InterceptedCall, running: AnyEffect) -> AnyEffect:
        return Within(lambda context: Generate(self._call, (_frame(context), about, running, context), {}))

    def _call(self, frame: Frame, about: InterceptedCall, running: AnyEffect, context: AnyContext) -> Steps:
        path = _call_path(frame, about)
        store: StateStore | None = context.find(StateStore)
        part = frame.journal.known.part(path)
        _restore_state(frame, path, store)
        yield _verify_call(frame, path, about, part)
        if part.ended is not None and not part.in_doubt:
            return (yield running if part.ended.kind == "refused" else _give(frame, about, part))
        yield stop_cancelled(frame)
        resumes = _is_resumed(about, context)
        begun = part.begun.time if part.begun is not None and resumes else None
        if begun is None:
            yield frame.go_on()
        # a handler that joins calls finds a call in doubt by its key
        is_lost = part.begun is not None and part.ended is None and part.question is None
        joins = is_lost and joins_calls(about.tool, context)
        if part.in_doubt and not (joins or resumes or _may_run_again(about.tool)):
            resolved = yield from self._resolve_doubt(frame, path, about, part)
            if resolved is not None:
                return resolved
        key = _name_call(frame, path, part, about, joins=joins)
        if part.begun is None or not (joins or resumes):
            repeats = joins or resumes or _may_run_again(about.tool)
            yield append(frame, Begun(path, about.call.name, about.call.params, repeats))
        ran = Local(running, frame.inside(path, begun, leaves=True).into)
        ended = _journal_end(frame, path, about, store, ran if resumes else under_way(frame, ran))
        outcome = yield Fold(ended, partial(_finalize, part, key), partial(_finalize, part, key))
        if outcome is None:  # the handler does not know it
            if _may_run_again(about.tool) or about.tool.get(Resumable):
                yield leave(OutcomeUnknown(about.call.name, why_in_doubt(part)), frame)
            outcome = yield from self._resolve_doubt(frame, path, about, part)
        return outcome if outcome is not None else (yield from self._call(frame, about, running, context))

    def _resolve_doubt(self, frame: Frame, path: str, about: InterceptedCall, part: Part) -> Steps:
        """Ask for the outcome of a call in doubt. Return None if the call must run again."""
        if part.question is None or part.question.kind != "doubt":
            yield ask_about(frame, path, about, "doubt", why_in_doubt(part))
        yield from resolve_doubt(frame, about.call.name, part)
        reply = part.reply
        if reply is None or reply.kind == "again":
            return None
        return (yield from take_reply(frame, path, about, part))

    @override
    def inner_call(self, about: InnerCall, running: AnyEffect) -> AnyEffect:
        tool: Any = about.tool
        call = ToolCall(about.call_id or str(about.index), about.name, about.params)
        return self.call(InterceptedCall(_INSIDE, about.index, call, tool, lambda: NOTHING), running)

    # -- other work

    @override
    def work(self, about: WorkInfo, working: AnyEffect) -> AnyEffect:
        def choose(context: AnyContext) -> AnyEffect:
            frame = _frame(context)
            path = frame.at(about.name) if about.unique else frame.next(about.name)
            is_inbox = about.encode is encode_messages

            def add_sent(found: tuple[InboxMessage, ...]) -> tuple[InboxMessage, ...]:
                """Add the messages from other programs that no inbox of the run has read."""
                here = {one.id for one in found}
                unread = [one for one in frame.journal.known.unread if one.id not in here]
                return (*found, *decode_messages([[one.delivery, one.id, one.messages] for one in unread]))

            doing = working.map(add_sent) if is_inbox else working
            return Generate(_work, (frame, about, path, doing, context.find(StateStore)), {})

        return Within(choose)


# -- helpers in a frame


def _frame(context: AnyContext) -> Frame:
    frame = Frame.of(context)
    if frame is None:
        raise LookupError("no durable run in this context. Provide durable(…) around the whole program.")
    return frame


def _tracer(context: AnyContext) -> Tracer | None:
    tracer: Tracer | None = context.services.get(Tracer)
    return tracer


def _trace_of(tracer: Tracer | None) -> str:
    """Return the `traceparent` of the span for the program that resumes the run, without the rest of the carrier."""
    return "" if tracer is None else tracer.inject().get("traceparent", "")


def _image(prompt: Prompt) -> bytes:
    """Return the messages as text, without the parts of approval requests that differ between programs."""

    def without_signatures(message: Message) -> Message:
        if message.role != "assistant" or all(part.type != "tool-approval-request" for part in message.content):
            return message
        content = [
            msgspec.structs.replace(part, expires=None, signature="") if part.type == "tool-approval-request" else part
            for part in message.content
        ]
        return msgspec.structs.replace(message, content=tuple(content))

    return Prompt(map(without_signatures, prompt)).to_json().encode()


def _parts_data(parts: Any) -> list[Any]:
    return Response(tuple(parts)).to_data()


def _enter(frame: Frame, path: str, about: RunInfo) -> Steps:
    """Return the frame of an agent's run. If its time is limited, the journal has its start."""
    yield frame.verify(path, digest(_image(about.prompt)))
    yield from _note_answers(frame, about.prompt)
    part = frame.journal.known.part(path)
    if about.seconds is not None and part.entered is None:
        yield append(frame, Entered(path))
    return frame.inside(path, None if part.entered is None else part.entered.time, agent=True)


def _note_answers(frame: Frame, prompt: Prompt) -> Steps:
    """Record which questions the program has answered itself with the history of its prompt."""
    open_ = frame.journal.known.unheard
    if not open_:
        return
    answered: set[str] = set()
    for message in prompt:
        if message.role == "tool":
            for part in message.content:
                answered.add(part.approval_id if isinstance(part, ToolApprovalResponsePart) else part.id)
    for question in open_:
        if question.approval_id in answered or (question.kind == "result" and question.call_id in answered):
            yield append(frame, Answered(question.path, None))


def _journal_stream(frame: Frame, path: str, request: dict[str, str], parts: AnyStream, trace: str) -> AnyStream:
    """Return the parts of a turn, and record the turn before its stream ends."""
    came: list[Any] = []

    def note(part: Any) -> Any:
        came.append(part)
        return part

    def end() -> AnyStream:
        appended = append(frame, TurnRecord(path, _parts_data(gather(came)), request, trace))
        nothing: AnyStream = StreamOf.empty()
        return StreamOf.unwrap(appended.as_(nothing))

    def end_badly(error: Any) -> AnyStream:
        cause = Cause((Fail(error),))
        noted = note_failed_turn(frame, path, request, trace, cause)
        return StreamOf.unwrap(FailCause(cause) if noted is None else noted)

    return parts.map(note).catch_all(end_badly).concat(StreamOf.suspend(end))


# -- one call


def _call_path(frame: Frame, about: InterceptedCall) -> str:
    """Return the path of a call. fxai computes it once, because later calls can have the same place."""
    placed = frame.calls.get(id(about))
    if placed is not None:
        return placed[1]
    index = f"{about.index}{'r' * about.repaired}"
    if about.location == _INSIDE:  # the enclosing program can run the composite more than once
        path = frame.base.next(f"{_INSIDE} {about.index}")
    elif about.location is not None and frame.base.is_agent:
        path = frame.at(f"{about.location}/{index}")
    else:
        path = _path_alone(frame, about.location, index)
    frame.calls[id(about)] = about, path
    return path


def _path_alone(frame: Frame, location: str | None, index: str) -> str:
    """Return the path of a call without an agent. It is inside the last turn of the sequence that runs the calls."""
    around: Frame | None = frame
    while location is None and around is not None:
        if around.asked:
            path = f"{around.asked}/{index}"
            frame.journal.reached.meet(path)
            return path
        around = around.outer if around.trunk is not None else None
    return frame.next(f"{location or 'call'} {index}")


def _requesting(frame: Frame, path: str) -> Frame:
    """Return the frame of the request for a turn."""
    requesting = frame.inside(f"{path}/{_REQUEST}")
    requesting.repeats = True
    return requesting


def _verify_call(frame: Frame, path: str, about: InterceptedCall, part: Part) -> AnyEffect:
    """Stop the run if a call differs from the recorded call at its place.

    The parameters of an approved call come from the history. The parameters of other calls come from a recorded turn,
    and a handler can read them before this comparison.
    """
    begun = part.begun
    if begun is None or frame.journal.reached.tolerant:
        return Succeed(None)
    is_other = begun.name != about.call.name
    if about.location == "approved" and not is_other:
        encode = msgspec.json.encode
        is_other = encode(begun.params) != encode(msgspec.json.decode(encode(about.call.params)))
    if not is_other:
        return Succeed(None)
    change = f"call of {begun.name!r} at {path}, which is now a call of {about.call.name!r} or has other parameters"
    return leave(ProgramChanged(frame.journal.known.run, (change,)), frame)


def _identity_of(frame: Frame, path: str) -> tuple[bytes, ...]:
    """Return bytes that identify a place, also if an earlier run had the name of this run."""
    known = frame.journal.known
    first = known.opened[0]
    return known.run.encode(), repr(first.at).encode(), str(first.process).encode(), path.encode()


def _name_call(frame: Frame, path: str, part: Part, about: InterceptedCall, *, joins: bool) -> CallKey:
    """Return the key of a call for its handler. It is the same in every program until a person answers `again`."""
    about_it = [*_identity_of(frame, path), str(part.again).encode()]
    key = CallKey(blake2b(msgspec.json.encode([one.decode() for one in about_it]), digest_size=16).hexdigest(), joins)
    if about.set_key is not None:
        about.set_key(key)
    return key


def _finalize(part: Part, key: CallKey, end: Any) -> AnyEffect | None:
    """Run the finalizers of a key if the outcome of its call is recorded. Return the outcome, or None for a cause."""
    if not part.in_doubt:
        for finalizer in key.finalizers:
            finalizer()
    return None if isinstance(end, Cause) else Succeed(end)


def _may_run_again(tool: AnyTool) -> bool:
    return tool.get(Idempotent) or tool.get(Readonly)


def _is_resumed(about: InterceptedCall, context: AnyContext) -> bool:
    """Return True if a started call resumes from the recorded parts inside it. That requires a local handler."""
    handler: object = context.services.get(about.tool.identity)
    if getattr(handler, "is_elsewhere", False):
        return False
    return about.tool.get(Resumable) or getattr(handler, "is_composition", False)


def _restore_state(frame: Frame, path: str, store: StateStore | None) -> None:
    """Restore the changes that the calls of a step made in the state of the prompt, before any of them runs."""
    if store is None:
        return
    for part in frame.journal.known.steps.get(path.rpartition("/")[0], ()):
        if part.ended is not None and part.number <= frame.journal.known.before:
            store.restore(part.ended.state, part.number)


def _give(frame: Frame, about: InterceptedCall, part: Part) -> AnyEffect:
    """Return the recorded outcome of a call."""
    ended = part.ended
    if ended is None:
        return Succeed(None)
    frame.reach(ended.time)
    frame.journal.reached.end(ended.path)
    try:
        given = read_outcome(about.tool, about.call.name, ended)
    except DecodeError as error:
        what = f"the result of {about.call.name!r} no longer matches the types of the tool: {error}"
        return leave(ProgramChanged(frame.journal.known.run, (what,)), frame)
    return about.reread().and_then(given) if ended.json_text else given


def _journal_end(
    frame: Frame, path: str, about: InterceptedCall, store: StateStore | None, ran: AnyEffect
) -> AnyEffect:
    """Run a call and record its end."""
    before = None if store is None else store.start_changes()

    def end_well(outcome: Outcome) -> AnyEffect:
        if isinstance(outcome.result, OutcomeUnknown):
            return _doubt(frame, path, outcome.result)
        ended = end_of(path, outcome)
        if store is not None and before is not None:
            ended = msgspec.structs.replace(ended, state=store.changes_since(before))
        return append(frame, ended).as_(outcome)

    return Fold(ran, partial(_end_badly, frame, path, about), end_well)


def _end_badly(frame: Frame, path: str, about: InterceptedCall, cause: Cause[Any]) -> AnyEffect | None:
    """Record why a call has no outcome. An interrupted call, and a call that stops the run, stay in doubt."""
    opened = leave_openly(cause)
    if cause.interrupted or opened is not None:
        return None if frame.leaves else opened
    unknown = [failure for failure in cause.failures if isinstance(failure, OutcomeUnknown)]
    if unknown and not cause.defects:
        return _doubt(frame, path, unknown[0])
    return append(frame, bad_end_of(path, about.tool, cause)).and_then(FailCause(cause))


def _doubt(frame: Frame, path: str, unknown: OutcomeUnknown) -> AnyEffect:
    """Record that the outcome of a call is unknown, for example because its worker was lost. Return None instead."""
    return append(frame, Ended(path, "broken", unknown.reason)).as_(None)


# -- work next to turns and calls


def _work(frame: Frame, about: WorkInfo, path: str, working: AnyEffect, store: StateStore | None) -> Steps:
    working = under_way(frame, Local(working, frame.inside(path).into))
    part = frame.journal.known.part(path)
    if part.ended is not None:
        frame.reach(part.ended.time)
        if part.ended.kind == "again":
            return (yield working)
        frame.journal.reached.end(path)
        if store is not None:
            store.restore(part.ended.state, part.number)
        return about.decode(part.ended.value)
    if about.encode is None:
        return (yield working)
    yield frame.go_on()
    if about.ended is not None:
        if part.begun is None:
            yield append(frame, Begun(path, about.name, repeats=True))
        elif (yield about.ended):
            yield append(frame, Ended(path, "value"))
            return about.decode(None)
    before = None if store is None else store.start_changes()
    value = yield working
    encoded = about.encode(value)
    state = {} if store is None or before is None else store.changes_since(before)
    is_data = encoded is not msgspec.UNSET
    yield append(frame, Ended(path, "value", encoded, state) if is_data else Ended(path, "again"))
    return value
