"""The conformance cases that no test holds, each with the reason why it does not apply."""

from __future__ import annotations

from collections.abc import Mapping

__all__ = ["NOT_PORTED"]

_PROTOTYPES = (
    "`__proto__` and `constructor` are ordinary keys in Python: an object has no prototype that data could change, so "
    "there is nothing to refuse. What is refused instead (doubled keys, NaN, depth, size) is held by "
    "tool.secure_json/031 and by the tests of bad input."
)

_IN_BETA = (
    "the advisor tool exists in the provider's beta API alone, whose tools we do not offer ready-made; that wrong args "
    "are refused before the request is held by VE-034 and by the tests of each tool that is offered"
)

_POLICIES = (
    "a tool says whether a call must be asked for and nothing else; that a call is refused by a rule is what `before` "
    "of an aspect is for, and what the model may not call at all is left out of its toolkit"
)

_KEPT_AFTER_SUCCESS = (
    "a turn that fails leaves the history as it was, so that the same turn can be tried again: half of a text, or a "
    "question without its answer, would be shown to the model as if it had been said; what came is in the stream"
)

_STOP_CONDITIONS = (
    "an agent has no stop conditions yet (`step_count_is`, `has_tool_call`, a predicate): they come with its builders; "
    "until then a run ends by itself, or its budget of rounds ends it, which is a failure that holds the history"
)

_ON_STEP = (
    "an agent has no `on_step` yet: it comes with its builders; until then the steps of a run, numbered from 1, stand "
    "in its answer, and its stream shows them as they come"
)

_TOOL_ORDER = (
    "there is no option for the order: tools are sent in the order of the toolkit, which VE-116 holds, and whoever "
    "makes a toolkit decides it"
)

NOT_PORTED: Mapping[str, str] = {
    "tool.secure_json/025": _PROTOTYPES,
    "tool.secure_json/026": _PROTOTYPES,
    "tool.secure_json/027": _PROTOTYPES,
    "VE-060": _IN_BETA,
    "VE-100": _STOP_CONDITIONS,
    "VE-101": _STOP_CONDITIONS,
    "VE-102": _STOP_CONDITIONS,
    "VE-103": _STOP_CONDITIONS,
    "VE-115": _TOOL_ORDER,
    "VE-124": _ON_STEP,
    "VE-125": _ON_STEP,
    "VE-133": _POLICIES,
    "VE-134": _POLICIES,
    "chat.history/118": _KEPT_AFTER_SUCCESS,
}
