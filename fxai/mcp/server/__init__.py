"""MCP servers for your own tools. Import the public names from `fxai.mcp`."""

__all__: list[str] = []
