"""Floor 6. Providers: layers that give a model, each in a room of its own that no other room knows."""

from __future__ import annotations

from fxai.providers.by_name import embedding_from_name, from_name, provider_names

__all__ = ["embedding_from_name", "from_name", "provider_names"]
