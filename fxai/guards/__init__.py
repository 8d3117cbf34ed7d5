"""Level 5. Guards: values that allow, change, or refuse what models and tools receive and return."""

from __future__ import annotations

from fxai.guards.guard import Guard, GuardReturn, Refuse, Streaming, rewrite_text

__all__ = ["Guard", "GuardReturn", "Refuse", "Streaming", "rewrite_text"]
