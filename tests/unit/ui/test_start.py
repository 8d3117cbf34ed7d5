"""A chat application that no lifespan starts, and turns that begin at once: each thing is done once."""

from __future__ import annotations
