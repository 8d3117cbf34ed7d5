"""Functions for programs in a durable run: steps, and the version of the program.

Without a durable run in the context, a step only runs its effect, and the version is the newest version.

>>> from fxai.effects import fx
>>> fx.run_sync(step("roll", fx.sync(lambda: 4), int)), fx.run_sync(version("2"))
(4, '2')
"""

from __future__ import annotations

from typing import Any, TypeVar, overload

from typing_extensions import TypeForm

from fxai.durable.failure import ProgramChanged, RunQuestion, RunWaiting
from fxai.durable.frame import Frame, Steps, append, leave, stop_cancelled, under_way
from fxai.durable.outcome_record import resolve_doubt
from fxai.durable.record import Asked, Begun, Ended
from fxai.effects.cause import Cause
from fxai.effects.context import AnyContext
from fxai.effects.effect import AnyEffect, Ask, EffectOf, FailCause, Fold, Generate, Local, Succeed, Within
from fxai.schema.codec import Schema
from fxai.schema.fault import DecodeError
from fxai.tools.tool_error import OutcomeUnknown

_A = TypeVar("_A")
_E = TypeVar("_E")
_R = TypeVar("_R")


def version(newest: str) -> EffectOf[str, Any, None]:
    """Return the version of the program for this run. With `on_change="old"` it is the version that started the run.

    Args:
        newest: Version to return without a durable run.

    >>> from fxai.effects import fx
    >>> fx.run_sync(version("2"))
    '2'
    """

    def choose(context: AnyContext) -> str:
        frame = Frame.of(context)
        return newest if frame is None else frame.version

    return Ask(choose)


@overload
def step(
    name: str, effect: EffectOf[_A, _E, _R], schema: type[_A] | Schema[_A], *, idempotent: bool = False
) -> EffectOf[_A, _E, _R]: ...
@overload
def step(
    name: str, effect: EffectOf[_A, _E, _R], schema: TypeForm[_A], *, idempotent: bool = False
) -> EffectOf[_A, _E, _R]: ...
def step(name: str, effect: EffectOf[_A, _E, _R], schema: Any, *, idempotent: bool = False) -> EffectOf[_A, _E, _R]:
    """Return the effect as a step of a durable run. fxai records the value of the step, and never runs it again.

    fxai identifies a step by its place: the agent's run, the call, or the child of a concurrent operator that contains
    it, its name, and its ordinal among steps with the same name there. fxai does not record a failure: the step runs
    again when the run does.

    Args:
        name: Name of the step in the journal.
        effect: Effect to run.
        schema: Type or schema of the value.
        idempotent: True if the step may run twice. Otherwise, if a step started but did not finish, fxai asks a person
            about it. Without an answer, the run stops with `OutcomeUnknown`. Default: False.
    """
    form: Schema[Any] = Schema[Any].of(schema)

    def start(context: AnyContext) -> AnyEffect:
        frame = Frame.of(context)
        if frame is None:
            return effect
        path = frame.next(f"step {name}")
        return Generate(_step, (frame, path, name, effect, form, idempotent), {})

    return Within(start)


def _step(frame: Frame, path: str, name: str, effect: AnyEffect, form: Schema[Any], idempotent: bool) -> Steps:
    yield frame.verify(path)
    part = frame.journal.known.part(path)
    if part.ended is not None and part.ended.kind == "value":
        frame.reach(part.ended.time)
        frame.journal.reached.end(path)
        return (yield _read(frame, name, part.ended, form))
    yield stop_cancelled(frame)
    if part.in_doubt and not idempotent:
        yield from resolve_doubt(frame, name, part)
        reply = part.reply
        if reply is not None and reply.kind == "result":
            value = yield _read(frame, name, Ended(path, "value", reply.value), form)
            yield append(frame, Ended(path, "value", reply.value))
            return value
        if reply is not None and reply.kind != "again":
            known = frame.journal.known
            again = f"the answer for a step must be a result or `again`, got {reply.kind!r}"
            yield append(frame, Asked(RunQuestion(known.run, path, "doubt", name, None, again)))
            frame.give_up(part)
            yield leave(RunWaiting(known.run, known.questions), frame)
    yield frame.go_on()
    yield append(frame, Begun(path, name, repeats=idempotent))

    def fail(cause: Cause[Any]) -> AnyEffect | None:
        in_doubt = cause.defects or cause.interrupted or any(isinstance(one, OutcomeUnknown) for one in cause.failures)
        return None if in_doubt else append(frame, Ended(path, "refused")).and_then(FailCause(cause))

    value = yield under_way(frame, Fold(Local(effect, frame.inside(path).into), fail, None))
    try:
        encoded = form.encode_unsafe(value)
    except DecodeError as error:
        raise TypeError(f"the value of the step {name!r} does not match the schema of the step: {error}") from None
    yield append(frame, Ended(path, "value", encoded))
    return value


def _read(frame: Frame, name: str, ended: Ended, form: Schema[Any]) -> AnyEffect:
    def read(_: object) -> AnyEffect:
        try:
            return Succeed(form.decode_unsafe(ended.value))
        except DecodeError as error:
            what = f"the value of the step {name!r} no longer matches its schema: {error}"
            return leave(ProgramChanged(frame.journal.known.run, (what,)), frame)

    return Within(read)
