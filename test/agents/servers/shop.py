"""A server of MCP made with FastMCP of the official Python SDK: structured output, errors, progress, a result that is no
object, and a call that notices its cancellation. SHOP_FOLDER is the folder for its files."""

import asyncio
import os
import pathlib
from typing import Any

from mcp.server.fastmcp import Context, FastMCP, Image
from mcp.types import CallToolResult, ImageContent, TextContent, ToolAnnotations
from pydantic import BaseModel, Field

folder = pathlib.Path(os.environ["SHOP_FOLDER"])
server = FastMCP("shop", log_level="CRITICAL", instructions="Buy before you sell.\nPrices are in cents.")


class Address(BaseModel):
    street: str
    city: str | None = None


class Person(BaseModel):
    """A customer."""

    name: str
    age: int = Field(ge=0, le=2**63 - 1)
    addresses: list[Address] = []


@server.tool(title="Add two numbers", annotations=ToolAnnotations(readOnlyHint=True, openWorldHint=False))
def add(a: int, b: int = 1) -> int:
    """Adds two integers."""
    return a + b


@server.tool()
def customer(name: str, age: int = 30) -> Person:
    """Returns a customer."""
    return Person(name=name, age=age, addresses=[Address(street="1 Main St")])


@server.tool()
def register(person: Person, notify: bool = False) -> dict[str, Any]:
    """Registers a customer."""
    return {"registered": person.name, "notified": notify, "addresses": len(person.addresses)}


@server.tool()
def prices(goods: list[str]) -> list[int]:
    """Returns prices: the result is no object."""
    return [len(one) for one in goods]


@server.tool(structured_output=False)
def receipt(goods: str) -> str:
    """Returns text alone."""
    return f"Receipt\n\n  1 x {goods}\n"


@server.tool(structured_output=False)
def shelves() -> list[Any]:
    """Returns several blocks of content."""
    return ["first", Image(data=b"\x89PNG\r\n", format="png"), {"a": [1, 2]}]


@server.tool()
def nothing() -> None:
    """Returns no value."""


@server.tool()
def fail(reason: str) -> int:
    """Fails."""
    raise ValueError(f"it failed:\n  because of {reason}\n\tand that is all")


@server.tool()
def compile_program(lines: int) -> CallToolResult:
    """Fails with the output of a compiler."""
    text = "\n".join(f"main.c:{n}: error: 'x{n}' undeclared" for n in range(1, lines + 1))
    return CallToolResult(
        content=[TextContent(type="text", text=text), ImageContent(type="image", data="iVBORw==", mimeType="image/png")],
        structuredContent={"errors": lines},
        isError=True,
        _meta={"example.com/exit": 2},
    )


@server.tool(annotations=ToolAnnotations(destructiveHint=False, idempotentHint=False))
def sell(goods: str) -> int:
    """Sells goods: each sale is a line of a file. Returns the number of sales."""
    with open(folder / "sold.txt", "a", encoding="utf-8") as file:
        file.write(goods + "\n")
    return len((folder / "sold.txt").read_text(encoding="utf-8").splitlines())


@server.tool()
async def bake(steps: int, ctx: Context) -> str:
    """Reports progress."""
    for step in range(1, steps + 1):
        await ctx.report_progress(step, steps, f"step {step}")
        await asyncio.sleep(0.05)
    return f"baked in {steps} steps"


@server.tool()
async def wait(name: str, ctx: Context) -> str:
    """Waits until it is cancelled, for at most 20 seconds. The files NAME.begun and NAME.cancelled show it."""
    (folder / f"{name}.begun").touch()
    try:
        await ctx.report_progress(1, 2, "it waits")
        await asyncio.sleep(20)
    except asyncio.CancelledError:
        (folder / f"{name}.cancelled").touch()
        raise
    return "nobody cancelled it"


server.run()
