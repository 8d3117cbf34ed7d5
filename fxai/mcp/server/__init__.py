"""MCP servers of our tools, from any source of them: a function tool, a toolkit with its layer, a source."""

__all__: list[str] = []
