"""A cluster on a work queue: each call of a program is a job in a database. Requires the extra `durable`.

A call waits in the queue until a worker of its target starts it, also if the program ends. The job of a call in a
durable run has the name of the call. The program that resumes the run finds the job and submits no second one.

>>> kind_of("shop:desk")
'call shop:desk'
>>> _refuse(WorkerOptions(resources={"GPU": 1}, targets=("shop:desk",)))
Traceback (most recent call last):
ValueError: a work queue has no resources: ...
"""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Never, cast, final

import msgspec
from typing_extensions import override

from fxai.distributed.engine import ClusterUnavailable, Engine, PendingCall
from fxai.distributed.envelope import (
    CallEnvelope,
    Gone,
    InterruptReason,
    LostReason,
    Reply,
    encode,
    lost_reply,
    read_reply,
)
from fxai.distributed.loop_thread import LoopThread
from fxai.distributed.worker_host import Host, TargetError, WorkerOptions
from fxai.effects.cancellation import shield
from fxai.effects.cause import Cause, Exit, Fail, Failed, Succeeded
from fxai.effects.context import ContextOf
from fxai.effects.effect import AwaitExit, EffectOf
from fxai.effects.fiber import run_fiber
from fxai.effects.scope import Scope, scoped
from fxai.effects.thread import in_thread
from fxai.effects.waker import result_of
from fxai.schema.data import JSON_ERRORS
from fxai.storage.job_table import JobState, NewJob, location_of, read_location
from fxai.storage.job_worker import Job
from fxai.storage.work_queue import Following, QueueThread, WorkQueue

if TYPE_CHECKING:
    import os
    from pathlib import Path


_LOOK: Final = 1.0  # seconds between two checks for calls without a worker
_INTERRUPTED: Final = encode(Gone((InterruptReason(),)))


def kind_of(target: str) -> str:
    """Return the kind of the jobs for the calls of a target."""
    return f"call {target}"


@final
class QueueEngine(Engine):
    """A work queue that runs calls of handlers."""

    joins_calls = True

    def __init__(self, location: Path | str) -> None:
        self.address: str = location_of(location)
        self._location = location
        self._scope = Scope()
        self._queue: WorkQueue | None = None
        self._calls: dict[str, _Call] = {}
        self._turn = threading.Lock()
        self._closed = threading.Event()
        self._watcher = threading.Thread(target=self._watch, name="fxai-calls", daemon=True)

    @override
    async def open(self) -> None:
        opened: Exit[WorkQueue, OSError] = await run_fiber(
            self._scope.around(WorkQueue.open(self._location)), ContextOf[Any]({})
        )
        if not isinstance(opened, Succeeded):
            raise opened.cause.squash()
        self._queue = opened.value
        self._watcher.start()

    @override
    async def close(self) -> None:
        self._closed.set()
        _ = await shield(run_fiber(self._scope.close(Succeeded(None)), ContextOf[Any]({})))
        for call in self._all():
            call.end(lost_reply("the program has disconnected from the queue", begun=True))

    @override
    def refuse(self, resources: Mapping[str, float]) -> str | None:
        return "a work queue has no resources: put the tools that need them into their own target with its own workers"

    @property
    @override
    def reader_id(self) -> str:
        return "program"  # any program that resumes the call reads its values

    @override
    def start(self, pending: PendingCall) -> None:
        made = _Call(cast(WorkQueue, self._queue).thread, pending)
        with self._turn:
            self._calls[pending.key] = made
        made.start()

    @override
    def let_go(self, serial: int) -> None:
        """Do nothing: values wait in the database, and handlers do not wait for a reader."""

    @override
    def stop(self, pending: PendingCall) -> None:
        call = self._calls.get(pending.key)
        if call is not None:
            call.stop()

    @override
    def forget(self, pending: PendingCall) -> None:
        with self._turn:
            call = self._calls.pop(pending.key, None)
        if call is not None:
            call.forget()

    def _all(self) -> list[_Call]:
        with self._turn:
            return list(self._calls.values())

    def _watch(self) -> None:
        """End calls that no worker can run."""
        queue = cast(WorkQueue, self._queue)
        while not self._closed.wait(_LOOK):
            waiting: dict[str, list[_Call]] = {}
            now = time.monotonic()
            for call in self._all():
                if call.is_overdue(now):
                    waiting.setdefault(call.job.kind, []).append(call)
            for kind, calls in waiting.items():
                with suppress(OSError):  # the next check asks again
                    if not queue.is_served(kind):
                        for call in calls:
                            call.give_up(self.address)


@final
class _Call:
    """A call in the queue. All methods except `start`, `stop`, and `give_up` run in the thread of the queue."""

    def __init__(self, thread: QueueThread, pending: PendingCall) -> None:
        call = self._call = pending.call
        self.job = NewJob(kind_of(call.target), call.key, encode(call).decode(), pending.priority)
        self._thread = thread
        self._pending = pending
        self._since = time.monotonic()
        self._following: Following | None = None
        self._submitted: Future[bool] | None = None
        self._is_old = False  # an earlier program submitted it, and its state is unknown
        self._given_up: str | None = None
        self._turn = threading.RLock()  # between the thread that reads the state and the thread that stops the call

    def start(self) -> None:
        """Submit the call, or look for its job."""
        if self._pending.started_before and self._call.once:
            self._is_old = True
            self._follow()
        else:
            self._submit()

    def _submit(self) -> None:
        def note(future: Future[bool]) -> None:
            if future.cancelled():
                self._pending.end(_INTERRUPTED)
            elif (error := future.exception()) is not None:
                self.end(lost_reply(f"cannot write the call to the queue: {error}", begun=False))
            else:
                self._is_old = not future.result()
                with self._turn:
                    if self._pending.stopping:
                        self._thread.cancel(self.job.id)
                self._follow()

        self._submitted = self._thread.submit(self.job)
        self._submitted.add_done_callback(note)

    def _follow(self) -> None:
        holder: list[Following] = []
        offset = 0 if self._call.client else None
        following = self._thread.follow(self.job.id, partial(self._note, holder), offset)
        holder.append(following)
        self._following = following
        self._note(holder)

    def _note(self, holder: list[Following]) -> None:
        with self._turn:
            if not holder or self._pending.reply is not None:
                return
            following = holder[0]
            while following.shown:
                self._pending.show(0, following.shown.popleft().encode())
            if following.failure is not None:
                self.end(lost_reply(f"cannot read the state of the call: {following.failure}", begun=True))
            elif following.state is not None:
                self._note_state(following.state)

    def _note_state(self, state: JobState) -> None:
        was_old, self._is_old = self._is_old, False
        if was_old and self._is_stale(state):
            if self._following is not None:
                self._following.close()
            self._thread.remove(self.job.id)
            self._submit()
        elif state.is_over:
            self._pending.end(self._reply(state))

    def _is_stale(self, state: JobState) -> bool:
        """Return True if the job of an earlier program has no outcome, so that the call can run now."""
        if state.status in ("cancelled", "failed"):
            return not state.attempt or not self._call.once
        return state.status == "done" and _is_lost(state.text or "", begun=not self._call.once)

    def _reply(self, state: JobState) -> bytes:
        begun = state.attempt > 0
        match state.status:
            case "done":
                return _check_reply(state.text or "")
            case "failed":
                return encode(lost_reply(state.text or "the job failed", begun=begun))
            case "gone":
                return encode(lost_reply("the call was started before, and the queue has no record of it", begun=True))
            case _ if self._pending.stopping and self._given_up is None:
                return _INTERRUPTED if state.text is None else _check_reply(state.text)
            case _:
                return encode(lost_reply(self._given_up or "the call was cancelled in the queue", begun=begun))

    def end(self, reply: Gone) -> None:
        """End the call with a reply of this program."""
        self._pending.end(encode(reply))

    # -- called in other threads

    def stop(self) -> None:
        """Cancel the call."""
        with self._turn:
            submitted = self._submitted
            if submitted is None or not submitted.cancel():
                self._thread.cancel(self.job.id)

    def is_overdue(self, now: float) -> bool:
        """Return True if the call has waited longer than the queue may have no worker."""
        patience = self._pending.patience
        return patience is not None and now - self._since > patience and self._pending.reply is None

    def give_up(self, address: str) -> None:
        """End a call that no worker can run, so that no worker runs it later."""
        with self._turn:
            state = None if self._following is None else self._following.state
            if state is None or state.is_over or self._given_up is not None:
                return
            self._thread.cancel(self.job.id)
            if state.attempt:
                why = f"the worker of the call was lost, and no worker serves {self._call.target} in {address}"
                self.end(lost_reply(why, begun=True))
            else:
                self._given_up = f"no worker of {self._call.target} in {address} for {self._pending.patience} s"

    def forget(self) -> None:
        """Remove the call now, or after the durable run that named it has recorded its outcome."""
        if self._following is not None:
            self._following.close()
        remove = partial(self._thread.remove, self.job.id)
        name = self._pending.name
        reply = self._pending.reply
        if name is None or (reply is not None and _is_lost(reply, begun=False)):
            remove()
        else:
            name.finalizers.append(remove)


def _is_lost(reply: str | bytes, *, begun: bool) -> bool:
    """Return True if the handler did not start; with `begun`, also if the handler has no known end."""
    try:
        read = read_reply(reply)
    except JSON_ERRORS:  # invalid; the reader of the reply reports it
        return False
    lost = [each for each in read.reasons if isinstance(each, LostReason)] if isinstance(read, Gone) else []
    return any(begun or not each.begun for each in lost)


def _check_reply(text: str) -> bytes:
    """Return the reply from the database, or the reply that it is invalid."""
    try:
        read_reply(text)
    except JSON_ERRORS as error:
        return encode(lost_reply(f"invalid reply in the queue: {error}", begun=True))
    return text.encode()


# -- the worker

_LOG: Final = logging.getLogger("fxai.distributed")


def serve_calls(
    location: str | os.PathLike[str], options: WorkerOptions, on_ready: Callable[[str], object] | None
) -> EffectOf[None, ClusterUnavailable | TargetError]:
    """Return the worker that `fxai.distributed.serve_queue` describes."""
    where = read_location(location)
    _refuse(options)
    return AwaitExit(lambda _: _serve(where, options, on_ready))


def _refuse(options: WorkerOptions) -> None:
    """Raise an error for options that queues do not have."""
    if options.resources:
        raise ValueError(
            "a work queue has no resources: put the tools that need them into their own target with its own workers"
        )
    if options.security is not None or options.name is not None or options.host is not None:
        raise ValueError("a worker of a work queue does not listen. Remove `security`, `name`, and `host`.")
    if not options.targets:
        raise ValueError("missing target. Name at least one module:name.")


async def _serve(
    location: Path | str, options: WorkerOptions, on_ready: Callable[[str], object] | None
) -> Exit[None, ClusterUnavailable | TargetError]:
    """Run the worker in its own event loop. Handlers have another event loop."""
    thread, worker = LoopThread("fxai-worker"), _Worker(location, options)
    thread.start()
    try:
        end = await result_of(thread.submit(worker.run(on_ready)))
    except TargetError as error:
        return Failed(Cause((Fail(error),)))
    except BaseException:
        if worker.has_begun:
            await shield(result_of(worker.ended))  # running calls can end
        raise
    finally:
        await shield(in_thread(thread.close))
    if isinstance(end, Failed) and end.cause.defects:
        raise end.cause.squash()
    words = str(end.cause.squash()) if isinstance(end, Failed) else "it has ended"
    return Failed(Cause((Fail(ClusterUnavailable(location_of(location), words)),)))


class _Named(msgspec.Struct):
    """The name of a call in the text of its job."""

    key: str
    target: str


@final
class _Worker:
    """A worker in the thread of its event loop."""

    def __init__(self, location: Path | str, options: WorkerOptions) -> None:
        self._location = location
        self._options = options
        self._jobs: dict[str, Job] = {}
        self._stopped: set[str] = set()
        self._host = cast(Host, None)
        self.worker: str = f"of {location_of(location)}"
        self.has_begun: bool = False
        self.ended: Future[None] = Future()
        """Finished when nothing of the worker runs."""

    async def run(self, on_ready: Callable[[str], object] | None) -> Exit[Any, OSError]:
        """Run calls until the worker is cancelled or the queue fails."""
        self.has_begun = True
        options = self._options
        host = self._host = Host(self, options)
        try:
            for target in options.targets:
                await host.open(target)

            def serve(queue: WorkQueue) -> EffectOf[Never, OSError]:
                def handle(job: Job) -> EffectOf[str]:
                    return AwaitExit(lambda _: self._answer(job))

                return queue.serve(
                    dict.fromkeys(map(kind_of, options.targets), handle),
                    concurrency=options.threads,
                    grace=options.grace,
                    retention=options.retention,
                    on_ready=on_ready,
                )

            return await run_fiber(scoped(WorkQueue.open(self._location).flat_map(serve)), ContextOf[Any]({}))
        finally:
            try:
                await shield(host.close())
            finally:
                self.ended.set_result(None)

    async def _answer(self, job: Job) -> Exit[str, Any]:
        named = msgspec.json.decode(job.text, type=_Named)
        if kind_of(named.target) != job.kind or named.key != job.id:  # otherwise a row could import any module
            return Succeeded(encode(lost_reply("the job has another target or ID than its call", begun=False)).decode())
        self._jobs[job.id] = job
        answering = asyncio.ensure_future(self._host.answer(job.text.encode()))
        try:
            return Succeeded((await asyncio.shield(answering)).decode())
        except asyncio.CancelledError:
            self._stopped.add(job.id)
            self._host.stop(job.id)
            ended, _ = await shield(asyncio.wait({answering}, timeout=self._options.grace))
            if ended and answering.exception() is None:
                job.last_words = answering.result().decode()
            else:
                _LOG.warning("the handler of %s still runs after %s s; no worker waits", job.id, self._options.grace)
            raise
        finally:
            self._stopped.discard(job.id)
            self._host.forget(job.id)
            del self._jobs[job.id]

    # -- methods for the host

    async def start(self, call: CallEnvelope) -> Reply | None:
        """Return None if the call can start, otherwise its reply."""
        job = self._jobs[call.key]
        if call.key in self._stopped:
            return Gone((InterruptReason(),))
        if job.started_before and call.once:
            return lost_reply("a worker started the call and then was lost or closed", begun=True)
        return None

    async def show(self, call: CallEnvelope, text: bytes) -> None:
        """Show a preliminary value. Return when the queue has stored it."""
        await run_fiber(self._jobs[call.key].show(text.decode()), ContextOf[Any]({}))
