"""Approvals: requests bound to what they ask for, and answers that are held to it.

A request is bound to a digest of the tool (its names, kind, schemas, failure mode and, of a composite, the tools
inside) and of the parameters, and signed by the `ApprovalKey`. What is approved is run exactly so, once, or not at all.

>>> from fxai.tools.tool import Tool
>>> wipe = Tool.make("wipe", parameters=str, needs_approval=True)
>>> digest_of(wipe, "a") == digest_of(wipe, "a"), digest_of(wipe, "a") == digest_of(wipe, "b")
(True, False)
>>> digest_of(wipe, "a") == digest_of(wipe.rename("clean"), "a")
False
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from typing import Any, cast, final

import msgspec

from fxai.effects.context import ContextOf
from fxai.effects.effect import Ask, EffectOf
from fxai.effects.service import Clock
from fxai.messages.errors import ApprovalProblem
from fxai.messages.message import ToolApprovalRequestPart, ToolCallPart
from fxai.messages.part import ApprovalRequest, ToolCall
from fxai.models.approval_services import ApprovalKey, ApprovalLedger
from fxai.schema.codec import Schema
from fxai.schema.json_schema import JsonSchema
from fxai.tools.tool import Tool
from fxai.tools.toolkit import Toolkit

__all__ = ["Authority", "authority", "digest_of"]

_EXACT = 2**53


@final
class Authority(msgspec.Struct, frozen=True, eq=False):
    """Who asks for approvals here, and says which answers count."""

    key: ApprovalKey
    ledger: ApprovalLedger
    clock: Clock

    def request(self, call: ToolCall, tool: Tool[Any, Any, Any]) -> ApprovalRequest:
        """A request for the call, signed."""
        now, lifetime = self.clock.now(), self.key.lifetime
        request = ApprovalRequest(
            f"approval_{os.urandom(12).hex()}",
            call.id,
            digest_of(tool, call.params),
            None if lifetime is None else now + lifetime,
        )
        return msgspec.structs.replace(request, signature=self.key.sign(_signed_text(request)))

    def is_signed(self, request: ToolApprovalRequestPart) -> bool:
        """Whether the request was asked here, as it stands."""
        try:
            text = _signed_text(request)
        except ValueError:  # an end that is no number
            return False
        return self.key.signed(text, request.signature)

    def problem(
        self, request: ToolApprovalRequestPart, call: ToolCallPart, tool: Tool[Any, Any, Any]
    ) -> ApprovalProblem | None:
        """Why a yes to the request does not count for the call as it stands; None: it does."""
        if not self.is_signed(request):
            return "forged"
        if call.params_text is not None or not _is_digest(request.digest, tool, call.params):
            return "altered"
        late = request.expires is not None and request.expires < self.clock.now()
        return "expired" if late else None


def authority() -> EffectOf[Authority]:
    """Who asks here: the key, the ledger and the clock of the context, or the process's own."""
    return Ask(_found)


def _found(context: ContextOf[Any]) -> Authority:
    return Authority(context.fetch(ApprovalKey), context.fetch(ApprovalLedger), context.fetch(Clock))


def _is_digest(digest: str, tool: Tool[Any, Any, Any], params: Any) -> bool:
    try:
        return digest_of(tool, params) == digest
    except (TypeError, ValueError):  # parameters that no model and no JSON can have said
        return False


def _signed_text(request: ApprovalRequest | ToolApprovalRequestPart) -> bytes:
    bound = ["fxai approval 1", request.approval_id, request.tool_call_id, request.digest, request.expires]
    return _canonical(bound)


def digest_of(tool: Tool[Any, Any, Any], params: Any) -> str:
    """The digest that an approval of a call is bound to: SHA-256 over the tool and the parameters, in hexadecimal.

    It is the same in every process, and after the parameters went through JSON: member order and `1` against `1.0`
    do not count.

    Raises:
        TypeError: the parameters are no plain JSON data.
        ValueError: they hold NaN or an infinity, which JSON cannot say.
    """
    import hashlib  # few programs ask for approvals

    return hashlib.sha256(_canonical([_said_of(tool), params])).hexdigest()


def _said_of(tool: Tool[Any, Any, Any]) -> dict[str, Any]:
    """Everything that makes the tool the one that it is, as plain data."""
    validation: object = tool.validation
    inside: Any = getattr(validation, "toolkit", None)
    provider = tool.provider
    return {
        "kind": tool.identity.kind,
        "made": tool.identity.name,
        "name": tool.name,
        "schemas": [_document(schema) for schema in (tool.parameters, tool.success, tool.failure)],
        "failure_mode": tool.failure_mode,
        "validation": validation if isinstance(validation, str) else getattr(validation, "__qualname__", "function"),
        "provider": None if provider is None else [provider.id, provider.name, msgspec.to_builtins(provider.args)],
        "inside": [_said_of(one) for one in inside] if isinstance(inside, Toolkit) else [],
    }


def _document(schema: Schema[Any] | JsonSchema) -> Any:
    return (schema if isinstance(schema, JsonSchema) else schema.document).to_dict()


def _canonical(data: Any) -> bytes:
    return json.dumps(_plain(data), sort_keys=True, separators=(",", ":"), allow_nan=False).encode()


def _plain(data: Any) -> Any:
    """The data with whole numbers written in one way: another JSON reader may have made `1` of `1.0`."""
    if isinstance(data, float):
        return int(data) if data.is_integer() and abs(data) < _EXACT else data
    if isinstance(data, Mapping):
        return {key: _plain(value) for key, value in cast("Mapping[str, Any]", data).items()}
    if isinstance(data, list | tuple):
        return [_plain(value) for value in cast("list[Any]", data)]
    return data
