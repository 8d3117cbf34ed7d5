"""OpenAI's own tools: those that it runs, those that we run, and the parameters that they are called with."""

__all__: list[str] = []
