"""Calls on a cluster: how long a waiting call has left, and what stops a call that is being submitted."""

from __future__ import annotations

import re
import time
from concurrent.futures import Future
from typing import Any, Literal, cast, final

import msgspec
import pytest

from fxai.distributed import Placement
from fxai.distributed.engine import PendingCall
from fxai.distributed.envelope import CallEnvelope, Gave, Gone, decode_cause, encode, lost_reply, read_reply
from fxai.distributed.queue_cluster import _Call
from fxai.distributed.worker_host import _deadline, _reply
from fxai.effects import Cause, Fail, Failed, Succeeded
from fxai.storage.job_table import JobState
from fxai.tools import CallFailureError, HandlerUnavailable, Outcome, OutcomeUnknown, Refused, Tool
from fxai.tools.tool_error import encode_failure
from tests.kit.every import every


def _envelope(seconds: float | None, sent: float) -> CallEnvelope:
    return CallEnvelope("k", "shop:desk", "pay", "d", msgspec.Raw(b"1"), seconds=seconds, sent=sent)


@every(
    ("seconds", "waited", "left"),
    [(None, 4.0, None), (10.0, None, 10.0), (10.0, 4.0, 6.0), (10.0, 15.0, -5.0), (10.0, -3.0, 10.0)],
)
def test_a_call_that_waited_has_less_time_left(
    seconds: float | None, waited: float | None, left: float | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The time in the queue counts. A clock of another machine that is ahead gives no time."""
    with monkeypatch.context() as patched:
        patched.setattr(time, "time", lambda: 1_000.0)
        patched.setattr(time, "monotonic", lambda: 50.0)
        deadline = _deadline(_envelope(seconds, 0.0 if waited is None else 1_000.0 - waited))
    assert deadline == (None if left is None else 50.0 + left)


@final
class _Queue:
    """A queue that notes what it receives, and whose submissions the test ends."""

    def __init__(self) -> None:
        self.submitted: list[Future[bool]] = []
        self.cancelled: list[str] = []
        self.followed: list[str] = []

    def submit(self, job: Any) -> Future[bool]:
        """Return the future of a submission."""
        del job
        future: Future[bool] = Future()
        assert future.set_running_or_notify_cancel()
        self.submitted.append(future)
        return future

    def cancel(self, job: str) -> None:
        """Note that a job is cancelled."""
        self.cancelled.append(job)

    def follow(self, job: str, wake: Any, offset: int | None) -> Any:
        """Note that a job is followed."""
        del wake, offset
        self.followed.append(job)
        return _Followed()


@final
class _Followed:
    """What is known of a job: nothing yet."""

    def __init__(self) -> None:
        self.shown: list[str] = []
        self.failure: OSError | None = None
        self.state: JobState | None = None


def _call(queue: _Queue) -> tuple[_Call, PendingCall]:
    pending = PendingCall(msgspec.structs.replace(_envelope(None, 0.0), key="job"), lambda: None)
    return _Call(cast(Any, queue), pending), pending


@every("stopped", [False, True])
def test_a_call_that_is_stopped_during_its_submission_is_cancelled(stopped: bool) -> None:
    """The job is in the queue after the first cancellation, so that it is cancelled again."""
    queue = _Queue()
    call, pending = _call(queue)
    call.start()
    if stopped:
        pending.stopping = True
        call.stop()
    queue.cancelled.clear()
    queue.submitted[0].set_result(True)
    assert queue.cancelled == (["job"] if stopped else [])
    assert queue.followed == ["job"]


def test_a_cancelled_job_ends_its_call_by_the_reason() -> None:
    """A stopped call has the last words of its worker. A job that another program cancelled is a lost call."""
    gave = encode(Gave(msgspec.Raw(b"5")))
    for stopping, text, expected in (
        (True, gave.decode(), b'"gave"'),
        (True, None, b"interrupt"),
        (False, gave.decode(), b"the call was cancelled in the queue"),
    ):
        call, pending = _call(_Queue())
        pending.stopping = stopping
        reply = call._reply(JobState("job", "cancelled", 1, "w", text))
        assert expected in reply


@every(
    ("options", "message"),
    [
        ({"resources": {"GPU": 0}}, "resources must be greater than 0, got {'GPU': 0}"),
        ({"resources": {"GPU": 1, "disk": -1}}, "resources must be greater than 0"),
        ({"concurrency": 0}, "concurrency must be at least 1, got 0"),
    ],
)
def test_placement_refuses_amounts_that_block_all_calls(options: dict[str, Any], message: str) -> None:
    """A placement with an amount of 0 or less raises a `ValueError` with the option and the value."""
    with pytest.raises(ValueError, match=re.escape(message)):
        Placement(**options)


@every(
    ("failure", "begun"),
    [(HandlerUnavailable("pay", "no card"), False), (OutcomeUnknown("pay", "no answer"), True)],
)
def test_reply_keeps_whether_the_handler_started(failure: HandlerUnavailable | OutcomeUnknown, begun: bool) -> None:
    """A worker replies with the reason of a lost call, and with whether its handler started."""
    outcome = Outcome(failure, encode_failure(failure), is_failure=True)

    reply = _reply(Tool.make("pay", success=int, failure_mode="return"), Succeeded(outcome))

    assert reply == lost_reply(failure.reason, begun=begun)


@every("at", ["arguments", "result"])
def test_a_refusal_of_a_worker_reaches_the_program(at: Literal["arguments", "result"]) -> None:
    """The program receives the guard, the position, and the reason, in both failure modes."""
    failure = Refused("pay", guard="limits", at=at, reason="too much")
    returning = Tool.make("pay", success=int, failure_mode="return")
    replies = [
        _reply(returning, Succeeded(Outcome(failure, encode_failure(failure), is_failure=True))),
        _reply(Tool.make("pay", success=int), Failed(Cause((Fail(failure),)))),
    ]

    for reply in replies:
        read = read_reply(encode(reply))
        assert isinstance(read, Gone)
        (defect,) = decode_cause(returning, read).defects
        assert isinstance(defect, CallFailureError)
        assert defect.failure == failure
