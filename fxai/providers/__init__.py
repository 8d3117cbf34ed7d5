"""Floor 6. Providers: layers that give a language model, each in a room of its own that no other room knows."""

from __future__ import annotations

from fxai.providers.by_name import from_name

__all__ = ["from_name"]
