"""What a provider says beside the content: ids, signatures, encrypted reasoning, cache marks.

Metadata is plain data under the provider's name. It goes wherever the part goes, to history, to JSON and back to the
provider, and nobody but that provider's adapter reads it.

>>> merge_metadata({"acme": {"id": "a"}}, {"acme": {"signature": "S"}, "other": {"x": 1}})
{'acme': {'id': 'a', 'signature': 'S'}, 'other': {'x': 1}}
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias, cast

import msgspec

__all__ = ["Carrier", "Metadata", "merge_metadata"]

Metadata: TypeAlias = Mapping[str, Any]
"""Provider name to that provider's data, which is plain JSON data."""

# Plain JSON data is held as Python dicts and lists, which have no hash. Equality still sees all of it.
_OUTSIDE_HASH = frozenset({"metadata", "params", "result", "encoded_result"})


class Carrier(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """What every part and every message is: an immutable record that carries provider metadata.

    Equality compares everything. The hash leaves out metadata and JSON payloads, so that parts can be members of sets
    and keys of maps whatever they carry.
    """

    metadata: Metadata = {}

    def __hash__(self) -> int:
        held = (getattr(self, name) for name in self.__struct_fields__ if name not in _OUTSIDE_HASH)
        return hash((self.__class__.__name__, *held))


def merge_metadata(*several: Metadata) -> Metadata:
    """One metadata of several: providers side by side, one provider's keys together, the later value winning."""
    merged: dict[str, Any] = {}
    for metadata in several:
        for provider, said in metadata.items():
            before = merged.get(provider)
            if isinstance(before, Mapping) and isinstance(said, Mapping):
                merged[provider] = {**cast("Metadata", before), **cast("Metadata", said)}
            else:
                merged[provider] = said
    return merged
