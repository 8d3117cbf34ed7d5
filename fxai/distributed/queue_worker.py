"""Run this process as a worker of a work queue. Requires the extra `durable`.

>>> from fxai.distributed.worker_host import WorkerOptions
>>> _refuse(WorkerOptions(resources={"GPU": 1}, targets=("shop:desk",)))
Traceback (most recent call last):
ValueError: a work queue has no resources: ...
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any, Final, Never, cast, final

import msgspec

from fxai.distributed.engine import ClusterUnavailable
from fxai.distributed.envelope import CallEnvelope, Gone, InterruptReason, Reply, encode, lost_reply
from fxai.distributed.loop_thread import LoopThread
from fxai.distributed.queue_cluster import kind_of
from fxai.distributed.worker_host import Host, TargetError, WorkerOptions
from fxai.effects.cancellation import shield
from fxai.effects.cause import Cause, Exit, Fail, Failed, Succeeded
from fxai.effects.context import ContextOf
from fxai.effects.effect import AwaitExit, EffectOf
from fxai.effects.fiber import run_fiber
from fxai.effects.scope import scoped
from fxai.effects.thread import in_thread
from fxai.effects.waker import result_of
from fxai.storage.job_table import location_of, read_location
from fxai.storage.job_worker import Job
from fxai.storage.work_queue import WorkQueue

if TYPE_CHECKING:
    import os
    from pathlib import Path


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
