"""Generators of data from a JSON Schema. `fxai.testing.strategies` is built from this package."""

__all__: list[str] = []
