"""An MCP server with two tools."""

from returns.result import Failure, Result, Success

from fxai import BoundToolkit, fx, mcp, tool

CENTS = {"tea": 250, "bread": 400}


@tool
def price(item: str) -> Result[int, str]:
    """Return the price of an item, in cents."""
    if item in CENTS:
        return Success(CENTS[item])
    return Failure(f"unknown item. Known items: {', '.join(CENTS)}")


@tool
def total(items: list[str]) -> int:
    """Return the total price of the known items, in cents."""
    return sum(CENTS.get(item, 0) for item in items)


server = mcp.serve_stdio(BoundToolkit.make(price, total), name="shop")

if __name__ == "__main__":
    fx.run(server)
