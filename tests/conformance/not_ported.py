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

NOT_PORTED: Mapping[str, str] = {
    "tool.secure_json/025": _PROTOTYPES,
    "tool.secure_json/026": _PROTOTYPES,
    "tool.secure_json/027": _PROTOTYPES,
    "VE-060": _IN_BETA,
}
