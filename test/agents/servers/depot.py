"""A server of MCP made with FastMCP: large results, results that come late, and a start that takes DEPOT_START seconds.
DEPOT_FOLDER is the folder for its file, depot.txt, which has a line for each call of `work`."""

import asyncio
import os
import pathlib
import time

from mcp.server.fastmcp import FastMCP
from mcp.types import ToolAnnotations

folder = pathlib.Path(os.environ["DEPOT_FOLDER"])
server = FastMCP("depot", log_level="CRITICAL")


def goods(size):
    return "".join(f"{n:09}\n" for n in range(size // 10))


@server.tool(structured_output=False)
def large(size: int) -> str:
    """Returns a text of this size, in bytes."""
    return goods(size)


@server.tool()
def ledger(size: int) -> str:
    """Returns a text of this size twice: as text, and as structured content."""
    return goods(size)


@server.tool(structured_output=False)
async def late(seconds: float, size: int) -> str:
    """Returns a text of this size after some seconds, in which it reports no progress."""
    await asyncio.sleep(seconds)
    return goods(size)


@server.tool(annotations=ToolAnnotations(destructiveHint=False, idempotentHint=False))
async def work(seconds: float, name: str) -> str:
    """Works for some seconds, and reports no progress."""
    with open(folder / "depot.txt", "a", encoding="utf-8") as file:
        file.write(name + "\n")
    await asyncio.sleep(seconds)
    return f"{name} is done"


time.sleep(float(os.environ.get("DEPOT_START", "0")))
server.run()
