"""Failures of replies: those that cannot be read, and errors inside an answer of status 200.

>>> reason_of_code("rate_limit_exceeded", "Slow down.").is_retryable
True
"""

from __future__ import annotations

from typing import Final

from fxai.messages.reason import ContentPolicyError, InvalidOutputError, NetworkError, Reason
from fxai.messages.status import reason_of_status
from fxai.schema.data import is_object

__all__ = ["ReplyError", "broken", "cut", "reason_of_code", "reason_of_error"]

_STATUS: Final = {"server_error": 500, "rate_limit_exceeded": 429, "insufficient_quota": 429, "overloaded": 503}
_REFUSED: Final = frozenset(("bio_policy", "misalignment_policy_violation", "cyber_policy"))


class ReplyError(Exception):
    """A reply that is no answer: `reason` says it as a value. The layer's effects fail with it as an `AiError`."""

    def __init__(self, reason: Reason) -> None:
        super().__init__(str(reason))
        self.reason = reason

    def __reduce__(self) -> tuple[type[ReplyError], tuple[Reason]]:
        return (ReplyError, (self.reason,))


def reason_of_code(code: str | None, message: str, parameter: str | None = None) -> Reason:
    """The reason that an error inside an answer means: its code, its words, and the parameter that it blames."""
    if code is not None and (code in _REFUSED or code.endswith("_policy_violation")):
        return ContentPolicyError(message)
    status = _STATUS.get(code or "", 400 if code else 500)
    return reason_of_status(status, {"error": {"code": code, "message": message, "param": parameter}}, {})


def reason_of_error(error: object) -> Reason:
    """The reason of an error as it is written: an object with `code` (or `type`), `message` and `param`, or a text."""
    if not is_object(error):
        return reason_of_code(None, str(error))
    code = error.get("code") or error.get("type")
    if isinstance(code, int):  # servers of others write the status there
        return reason_of_status(code if code >= 400 else 500, {"error": error}, {})
    parameter = error.get("param")
    known = None if code in (None, "error") else str(code)
    return reason_of_code(known, str(error.get("message") or ""), parameter if isinstance(parameter, str) else None)


def broken(description: str, pointer: str = "") -> ReplyError:
    """The error of an answer that is not what it should be, with the place."""
    return ReplyError(InvalidOutputError(description, pointer))


def cut(before: str) -> ReplyError:
    """The error of a stream that ended too early; what came before it stands."""
    return ReplyError(NetworkError("TransportError", f"the stream ended before {before}"))
