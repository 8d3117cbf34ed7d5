"""Level 6. Providers of models: packages that are independent of each other, each with a layer for its models.

Use `from_name` to create the layer of a model from a string such as `"openai:gpt-5.5"`.
"""

from __future__ import annotations

from fxai.providers.by_name import embedding_from_name, from_name, provider_names

__all__ = ["embedding_from_name", "from_name", "provider_names"]
