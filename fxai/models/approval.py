"""Approvals: sign requests, bind them to calls, and read the approvals in a history. Rounds use this module.

A request contains a digest of the tool, the parameters, and the realm of the key. The digest of the tool includes its
names, kind, schemas, failure mode, and the sub-tools of a composite. The `ApprovalKey` signs the request. fxai runs an
approved call exactly in this form and only once, or not at all.

A history can contain the same turn more than once, unchanged or changed, because a client copied, merged, or resent it.
All copies share one approval, which fxai finds by its id, or by the call and its digest. The first answer counts, but a
denial overrides any other answer. If any copy of a call has a result, the call does not run.

>>> from fxai.tools.tool import Tool
>>> wipe = Tool.make("wipe", parameters=str, needs_approval=True)
>>> digest_of(wipe, "a") == digest_of(wipe, "a"), digest_of(wipe, "a") == digest_of(wipe, "b")
(True, False)
>>> turn = AssistantMessage.make(ToolCallPart("c", "wipe", {}), ToolApprovalRequestPart("a", "c"))
>>> asked = Prompt((turn, ToolMessage.make(ToolApprovalResponsePart("a", True))))
>>> [(answered.call.name, answered.approved) for answered in read_approvals(asked + asked).answered]
[('wipe', True)]
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from typing import Any, cast, final

import msgspec

from fxai.effects.effect import Ask, EffectOf
from fxai.effects.service import Clock
from fxai.messages.message import (
    AssistantMessage,
    Message,
    ToolApprovalRequestPart,
    ToolApprovalResponsePart,
    ToolCallPart,
    ToolMessage,
)
from fxai.messages.part import ApprovalRequest, ToolCall
from fxai.messages.prompt import Prompt
from fxai.messages.reason import ApprovalProblem, InvalidApprovalError
from fxai.models.approval_services import ApprovalKey, ApprovalLedger
from fxai.schema.json_schema import JsonSchema
from fxai.tools.tool import AnyTool


@final
class AnsweredRequest(msgspec.Struct, frozen=True):
    """An answered approval whose call has no result yet."""

    request: ToolApprovalRequestPart
    call: ToolCallPart
    answer: ToolApprovalResponsePart
    """The answer that counts."""

    @property
    def approved(self) -> bool:
        """True if fxai must run the call."""
        return _is_yes(self.answer)


@final
class ApprovalHistory(msgspec.Struct, frozen=True):
    """The approvals in a history."""

    answered: tuple[AnsweredRequest, ...]
    """Answered requests whose calls fxai must run or deny. Each call occurs once, regardless of copies of its turn."""
    finished: frozenset[str]
    """The ids of all answered approvals."""
    waiting: bool
    """True if the last turn has open requests, and only results and answers for its calls follow it."""
    problem: InvalidApprovalError | None = None
    """The error in an answer, or None. If an error exists, fxai runs no call."""
    approved: tuple[AnsweredRequest, ...] = ()
    """All approvals that allow a call, including copies. All of them must be valid."""
    denied: tuple[ToolApprovalRequestPart, ...] = ()
    """The denied requests, including copies, without a result, or from the last turn."""
    repeated: Mapping[str, ToolApprovalResponsePart] = {}
    """Repeated answers to the provider's own requests: the answer that counts, by its id."""


@final
class _Request(msgspec.Struct, eq=False):
    part: ToolApprovalRequestPart
    call: ToolCallPart | None
    answer: ToolApprovalResponsePart | None = None
    finished: bool = False

    @property
    def key(self) -> tuple[str, str]:
        return self.part.tool_call_id, self.part.digest

    @property
    def of_provider(self) -> bool:
        return self.call is not None and self.call.provider_executed

    @property
    def approved(self) -> bool:
        return self.answer is not None and _is_yes(self.answer)


@final
class _TurnRequests:
    """The requests of a turn, by the ids that answers and results contain."""

    def __init__(self, requests: list[_Request]) -> None:
        self.requests = requests
        self._own = set(map(id, requests))
        self._by_approval: dict[str, list[_Request]] = {}
        self._by_call: dict[str, list[_Request]] = {}
        for one in requests:
            self._by_approval.setdefault(one.part.approval_id, []).append(one)
            self._by_call.setdefault(one.part.tool_call_id, []).append(one)

    def __contains__(self, request: _Request) -> bool:
        return id(request) in self._own

    def of_call(self, call_id: str) -> list[_Request]:
        """Return the requests for a call."""
        return self._by_call.get(call_id, [])

    def apply(self, answer: ToolApprovalResponsePart) -> _Request | InvalidApprovalError:
        """Store an answer with its request and return the request, or return the error in the answer."""
        asked = self._by_approval.get(answer.approval_id)
        if not asked:
            return InvalidApprovalError(answer.approval_id, "no-request")
        request = asked[0]
        if request.of_provider:
            return request
        if request.call is None:
            return InvalidApprovalError(answer.approval_id, "no-call", f"call {request.part.tool_call_id!r}")
        if len(asked) > 1 or len(self.of_call(request.call.id)) > 1:
            return InvalidApprovalError(answer.approval_id, "altered", "the turn contains two requests for the call")
        if request.finished:
            return InvalidApprovalError(answer.approval_id, "used", f"its call {request.call.id!r} has a result")
        request.answer = _stronger_answer(request.answer, answer)
        return request


def _is_yes(answer: ToolApprovalResponsePart) -> bool:
    return answer.approved and answer.unanswered is None


def _stronger_answer(one: ToolApprovalResponsePart | None, other: ToolApprovalResponsePart) -> ToolApprovalResponsePart:
    """Return the answer that counts: a denial, otherwise a missing answer, otherwise the first approval."""
    return other if one is None or _strength(other) > _strength(one) else one


def _strength(answer: ToolApprovalResponsePart) -> int:
    return 0 if _is_yes(answer) else 2 if answer.unanswered is None else 1


def has_turns(prompt: Prompt) -> bool:
    """Return whether the history can contain approvals or open calls."""
    return any(message.role == "assistant" or message.role == "tool" for message in prompt)


def read_approvals(prompt: Prompt) -> ApprovalHistory:
    """Return the approvals in the history. It ignores calls that a provider runs, because the provider checks them."""
    reading = _HistoryReading()
    for message in prompt:
        if message.role == "assistant":
            reading.read_turn(message)
        elif message.role == "tool":
            reading.read_answers(message)
    return reading.history(goes_on=bool(len(prompt)) and prompt[-1].role not in ("assistant", "tool"))


@final
class _HistoryReading:
    def __init__(self) -> None:
        self._every: list[_Request] = []
        self._turn = _TurnRequests([])
        # by call id: the latest call with its turn, and the calls with a result
        self._calls: dict[str, tuple[ToolCallPart | None, _TurnRequests]] = {}
        self._results: dict[str, list[ToolCallPart | None]] = {}
        self._denied: dict[Any, ToolApprovalResponsePart] = {}  # by approval id, and by call and digest
        self._theirs: dict[str, ToolApprovalResponsePart] = {}
        self._repeated: dict[str, ToolApprovalResponsePart] = {}
        self._problem: InvalidApprovalError | None = None

    # -- the messages

    def read_turn(self, message: AssistantMessage) -> None:
        """Read a turn of the model: its calls, its requests, and results inside the turn."""
        self._turn = _TurnRequests(_requests_of(message))
        self._every += self._turn.requests
        for part in message.content:
            if part.type == "tool-call":
                self._calls[part.id] = (part, self._turn)
            elif part.type == "tool-result":
                self._finish(part.id)

    def read_answers(self, message: ToolMessage) -> None:
        """Read results and answers for the calls of the previous turn."""
        for part in message.content:
            if part.type == "tool-result":
                self._finish(part.id)
                continue
            if not _is_yes(part):
                self._denied[part.approval_id] = _stronger_answer(self._denied.get(part.approval_id), part)
            problem = self._turn.apply(part)
            if isinstance(problem, InvalidApprovalError):
                self._problem = self._problem or problem
            elif problem.of_provider:
                self._repeat(part)

    def _finish(self, call_id: str) -> None:
        """Mark the latest call with this id as finished, in any turn."""
        call, turn = self._calls.get(call_id, (None, None))
        self._results.setdefault(call_id, []).append(call)
        for request in () if turn is None else turn.of_call(call_id):
            request.finished = True

    def _repeat(self, answer: ToolApprovalResponsePart) -> None:
        first = self._theirs.get(answer.approval_id)
        if first is None:
            self._theirs[answer.approval_id] = answer
        else:
            self._repeated[answer.approval_id] = _stronger_answer(self._repeated.get(answer.approval_id, first), answer)

    # -- the whole history

    def history(self, *, goes_on: bool) -> ApprovalHistory:
        """Return the approvals. `goes_on` is true if other messages follow the last turn."""
        ours = [one for one in self._every if not one.of_provider]
        for one in self._every:  # also if a later copy marks the call as the provider's
            answer = self._denied.get(one.part.approval_id)
            if answer is not None:
                self._denied[one.key] = _stronger_answer(self._denied.get(one.key), answer)
        approved, answered = self._answers([one for one in ours if not one.finished and one.call is not None])
        last = self._turn.requests
        is_open = any(not (one.finished or one.approved or one.of_provider or one.key in answered) for one in last)
        return ApprovalHistory(
            tuple(answered.values()),
            frozenset(one.part.approval_id for one in ours if one.approved or one.finished or one.key in answered),
            is_open and not goes_on,
            self._problem,
            approved,
            tuple(one.part for one in self._every if self._is_denied(one) and (not one.finished or one in self._turn)),
            self._repeated,
        )

    def _answers(self, open_: list[_Request]) -> tuple[tuple[AnsweredRequest, ...], dict[Any, AnsweredRequest]]:
        """Return all approvals of calls without a result, and the answer for each call by call and digest."""
        approved: list[AnsweredRequest] = []
        answered: dict[Any, AnsweredRequest] = {}
        taken: set[str] = set()
        by_id: dict[str, AnsweredRequest] = {}
        for one in open_:
            call: Any = one.call
            answer = self._denial(one) or one.answer
            if answer is None or (_is_yes(answer) and not self._is_runnable(one, call)):
                continue
            found = AnsweredRequest(one.part, call, answer)
            if found.approved:
                approved.append(found)
            if one.key in answered or (found.approved and one.part.approval_id in taken):
                continue
            other = by_id.setdefault(call.id, found)
            if other is not found and (other.approved or found.approved):
                self._refuse(found.request, "altered", f"two different calls have the id {call.id!r}")
            answered[one.key] = found
            taken.add(one.part.approval_id)
        return tuple(approved), answered

    def _is_runnable(self, request: _Request, call: ToolCallPart) -> bool:
        """Return whether an approval can run its call. If the call has a result, refuse a new answer."""
        if self._problem is not None:
            return False
        if not self._has_result(call):
            return True
        if request in self._turn:
            self._refuse(request.part, "used", f"its call {call.id!r} has a result")
        return False

    def _denial(self, request: _Request) -> ToolApprovalResponsePart | None:
        by_id, by_key = (self._denied.get(key) for key in (request.part.approval_id, request.key))
        return by_id if by_key is None else _stronger_answer(by_id, by_key)

    def _is_denied(self, request: _Request) -> bool:
        answer = self._denial(request)
        return answer is not None and answer.unanswered is None

    def _refuse(self, request: ToolApprovalRequestPart, problem: ApprovalProblem, about: str) -> None:
        self._problem = self._problem or InvalidApprovalError(request.approval_id, problem, about)

    def _has_result(self, call: ToolCallPart) -> bool:
        """Return whether the history has a result for this call, for its copy, or for a missing call with its id."""
        of_same_id = self._results.get(call.id, ())
        return any(one is None or (one.name, one.params) == (call.name, call.params) for one in of_same_id)


def _requests_of(message: AssistantMessage) -> list[_Request]:
    calls: dict[str, list[ToolCallPart]] = {}
    for part in message.content:
        if part.type == "tool-call":
            calls.setdefault(part.id, []).append(part)

    def about(call_id: str) -> ToolCallPart | None:
        made = calls.get(call_id, [])
        return made[0] if len(made) == 1 else None

    return [
        _Request(part, about(part.tool_call_id)) for part in message.content if part.type == "tool-approval-request"
    ]


def without_requests(messages: Iterable[Message], history: ApprovalHistory) -> list[Message]:
    """Return the messages for a model, without processed requests and answers.

    If answers to a provider's own request occur more than once, the answer that counts replaces the first answer.
    """
    shown: list[Message] = []
    repeated = dict(history.repeated)
    for message in messages:
        if message.role == "system" or message.role == "user":
            shown.append(message)
            continue
        kept = _without_finished_parts(message, history, repeated)
        if kept == message.content:
            shown.append(message)
        elif kept:
            shown.append(msgspec.structs.replace(message, content=kept))
    return shown


def _without_finished_parts(
    message: AssistantMessage | ToolMessage, history: ApprovalHistory, repeated: dict[str, ToolApprovalResponsePart]
) -> tuple[Any, ...]:
    kept: list[Any] = []
    for part in message.content:
        approval: str | None = getattr(part, "approval_id", None)
        if approval is None or (approval not in history.finished and approval not in history.repeated):
            kept.append(part)
        elif part.type != "tool-approval-response":
            kept += [] if approval in history.finished else [part]
        elif approval in repeated:
            kept.append(repeated.pop(approval))
    return tuple(kept)


def is_waiting(prompt: Prompt, tools: Mapping[str, AnyTool]) -> bool:
    """Return whether calls in the last turn need external results, and only other results follow the turn."""
    answered: set[str] = set()
    for at in range(len(prompt) - 1, -1, -1):
        message = prompt[at]
        if message.role == "tool":
            answered.update(part.id for part in message.content if part.type == "tool-result")
        elif message.role == "assistant":
            calls = [part for part in message.content if part.type == "tool-call" and part.id not in answered]
            return any(call.name in tools and not tools[call.name].requires_handler for call in calls)
        else:
            return False
    return False


_EXACT = 2**53


@final
class Authority(msgspec.Struct, frozen=True, eq=False):
    """The signer of approval requests, which also checks the answers."""

    key: ApprovalKey
    ledger: ApprovalLedger
    clock: Clock

    def request(self, call: ToolCall, tool: AnyTool, name: str | None = None) -> ApprovalRequest:
        """Return a signed request for the call. `name` is its id; the default is an unpredictable id."""
        now, lifetime = self.clock.now(), self.key.lifetime
        request = ApprovalRequest(
            f"approval_{os.urandom(12).hex()}" if name is None else name,
            call.id,
            digest_of(tool, call.params, self.key.realm),
            None if lifetime is None else now + lifetime,
        )
        return msgspec.structs.replace(request, signature=self.key.sign(_signed_text(request)))

    def is_signed(self, request: ToolApprovalRequestPart) -> bool:
        """Return whether this authority signed the request and no value changed."""
        try:
            text = _signed_text(request)
        except ValueError:  # the expiry is not a number
            return False
        return self.key.verify(text, request.signature)

    def problem(self, request: ToolApprovalRequestPart, call: ToolCallPart, tool: AnyTool) -> ApprovalProblem | None:
        """Return the reason why an approval does not apply to the call in its present form, or None if it applies."""
        if not self.is_signed(request):
            return "forged"
        if call.params_text is not None or not _is_digest(request.digest, tool, call.params, self.key.realm):
            return "altered"
        late = request.expires is not None and request.expires < self.clock.now()
        return "expired" if late else None


def authority() -> EffectOf[Authority]:
    """Return the key, the ledger, and the clock of the context, or the defaults of the process."""
    return Ask(
        lambda context: Authority(context.fetch(ApprovalKey), context.fetch(ApprovalLedger), context.fetch(Clock))
    )


def _is_digest(digest: str, tool: AnyTool, params: Any, realm: str) -> bool:
    try:
        return digest_of(tool, params, realm) == digest
    except (TypeError, ValueError):  # the parameters are not JSON
        return False


def _signed_text(request: ApprovalRequest | ToolApprovalRequestPart) -> bytes:
    bound = ["fxai approval 1", request.approval_id, request.tool_call_id, request.digest, request.expires]
    return _canonical(bound)


def digest_of(tool: AnyTool, params: Any, realm: str = "") -> str:
    """Return the digest of a call for its approval: SHA-256 over tool, parameters, and realm, in hexadecimal.

    The digest is the same in every process, and after the parameters were converted to JSON and back. It ignores the
    order of members and the difference between `1` and `1.0`.

    Raises:
        TypeError: If the parameters are not a JSON value.
        ValueError: If they contain NaN or an infinity, which JSON cannot contain.
    """
    import hashlib  # few programs ask for approvals

    bound = [describe_tool(tool), params, realm] if realm else [describe_tool(tool), params]
    return hashlib.sha256(_canonical(bound)).hexdigest()


def describe_tool(tool: AnyTool) -> dict[str, Any]:
    """Return all data that distinguishes the tool from other tools, as a JSON value."""
    validation: object = tool.validation
    inside: Mapping[str, AnyTool] = getattr(validation, "sub_tools", {})  # the sub-tools of a composite
    provider = tool.provider
    return {
        "kind": tool.identity.kind,
        "made": tool.identity.name,
        "name": tool.name,
        "schemas": [
            (one if isinstance(one, JsonSchema) else one.document).to_dict()
            for one in (tool.parameters, tool.success, tool.failure)
        ],
        "failure_mode": tool.failure_mode,
        "validation": validation if isinstance(validation, str) else getattr(validation, "__qualname__", "function"),
        "provider": None if provider is None else [provider.id, provider.name, msgspec.to_builtins(provider.args)],
        "inside": [describe_tool(one) for one in inside.values()],
    }


def _canonical(data: Any) -> bytes:
    return json.dumps(_plain(data), sort_keys=True, separators=(",", ":"), allow_nan=False).encode()


def _plain(data: Any) -> Any:
    """Return the data with integers in one form, because another JSON reader can convert `1.0` to `1`."""
    if isinstance(data, float):
        return int(data) if data.is_integer() and abs(data) < _EXACT else data
    if isinstance(data, Mapping):
        return {key: _plain(value) for key, value in cast("Mapping[str, Any]", data).items()}
    if isinstance(data, list | tuple):
        return [_plain(value) for value in cast("list[Any]", data)]
    return data
