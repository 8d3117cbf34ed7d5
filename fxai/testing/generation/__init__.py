"""How data is made that a JSON Schema takes, place by place: what `fxai.testing.strategies` offers is built of this."""

__all__: list[str] = []
