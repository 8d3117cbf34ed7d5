"""The conformance cases that no test holds, each with the reason why it does not apply."""

from __future__ import annotations

from collections.abc import Mapping

__all__ = ["NOT_PORTED", "TO_COME"]

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

_NO_REGISTRY = (
    "there is no registry of hosts by name: a host is a layer or a source of tools, a value that a program is given; "
    "one that was not given it is refused by the checkers, and names the missing service where it slipped past them"
)

_NO_CONTEXT = (
    "there is no `with_context`: what a model is to know is said in its prompt or its instructions; a method that a "
    "value does not have is refused by both checkers and by Python, on models and builders alike"
)

_NO_MANIFEST = (
    "there is no file that lists connections: an MCP server is a value that a program makes by `mcp.stdio` or "
    "`mcp.http`, with its environment, so that there is no entry of another type to skip and none that gets lost"
)

_DYNAMIC_ALONE = (
    "tools of an MCP server are dynamic, whatever is known of them: `server.only(...)` takes the named ones alone, and "
    "a tool with types of our own is a `Tool.make` whose handler calls the connection"
)

_OWN_LANGUAGE = (
    "a fact of the compiler, the virtual machine or the notation of a language of its own; here that is Python's: its "
    "functions, types and blocks are used as they are"
)

_NO_SESSION = (
    "the protocol's own page on streamable HTTP has 400 for a request that names no session, and 404 for one whose "
    "session is unknown: tests/unit/mcp/server/test_guard.py holds both"
)

_EFFECT_IDS = (
    "effects have no numbers: an effect is known by the key that it is given, which LM-P15 holds, so that there is no "
    "order of registration to be set back"
)

_PROXIES = (
    "a reference is an object of a class, with the attributes that its class declares and that checkers know; there is "
    "no proxy that would have to answer `in` and a listing of keys as if it were one"
)

NOT_PORTED: Mapping[str, str] = {
    "LM112": _EFFECT_IDS,
    "LM152": _PROXIES,
    "LM153": _PROXIES,
    "CO034": _NO_MANIFEST,
    "CO-M02": _NO_MANIFEST,
    "VE-182": _DYNAMIC_ALONE,
    "CO042": _NO_REGISTRY,
    "CO043": _NO_REGISTRY,
    "CO045": _NO_REGISTRY,
    "CO058": _OWN_LANGUAGE,
    "CO075": _OWN_LANGUAGE,
    "CO076": _OWN_LANGUAGE,
    "CO077": _OWN_LANGUAGE,
    "CO-D16": _NO_CONTEXT,
    "CO-S09": _OWN_LANGUAGE,
    "tool.secure_json/025": _PROTOTYPES,
    "tool.secure_json/026": _PROTOTYPES,
    "tool.secure_json/027": _PROTOTYPES,
    "VE-060": _IN_BETA,
    "VE-133": _POLICIES,
    "VE-134": _POLICIES,
    "chat.history/118": _KEPT_AFTER_SUCCESS,
    "mcp.protocol/196": _NO_SESSION,
}

_TELEMETRY = "it is about the attributes of spans: the room for telemetry is to come, and the case is ported with it"

_OWN_IDS = "nobody chooses how ids are made: those of calls are the provider's, those of approvals are secrets"

TO_COME: Mapping[str, str] = {
    "id/198": _OWN_IDS,
    "telemetry/200": _TELEMETRY,
}
"""The cases that are not among the files beside this one, each with the reason."""
