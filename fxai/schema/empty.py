"""The closed empty object, which operations without parameters take.

>>> Empty()
Empty()
"""

from __future__ import annotations

from typing import final

import msgspec

__all__ = ["Empty"]


@final
class Empty(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """An object without properties, closed to any: what is taken where there is nothing to say."""
