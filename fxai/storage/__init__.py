"""Floor 3. Storage: files, locks and databases that are their owner's alone, for whatever keeps something on disk."""

from __future__ import annotations

__all__: list[str] = []  # nothing for users: the floors above import its modules
