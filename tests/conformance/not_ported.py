"""The conformance cases that no test holds, each with the reason why it does not apply."""

from __future__ import annotations

from collections.abc import Mapping

__all__ = ["NOT_PORTED"]

_PROTOTYPES = (
    "`__proto__` and `constructor` are ordinary keys in Python: an object has no prototype that data could change, so "
    "there is nothing to refuse. What is refused instead (doubled keys, NaN, depth, size) is held by "
    "tool.secure_json/031 and by the tests of bad input."
)

NOT_PORTED: Mapping[str, str] = {
    "tool.secure_json/025": _PROTOTYPES,
    "tool.secure_json/026": _PROTOTYPES,
    "tool.secure_json/027": _PROTOTYPES,
}
