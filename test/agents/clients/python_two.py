"""The official Python SDK, version 2: its Client, over both transports and in both eras. It validates structured content
against the output schema of the tool."""

import asyncio
import contextlib
import os
import pathlib
import sys

import anyio
import httpx2
import pydantic
from mcp import Client, MCPError, StdioServerParameters
from mcp.client.stdio import stdio_client
from mcp.client.streamable_http import streamable_http_client

import shared

world = shared.wire.World(sys.argv[1])
report = shared.Report()
nowhere = open(os.devnull, "w")  # for what the servers of the direct side log
ERAS = {"legacy": "2025-11-25", "auto": "2026-07-28"}  # by mode; auto is the default


@contextlib.asynccontextmanager
async def direct(server):
    s = world.servers[server]
    parameters = StdioServerParameters(command=s["command"], args=s["args"], env=s["env"])
    async with Client(stdio_client(parameters, errlog=nowhere), mode="legacy") as client:
        yield client


@contextlib.asynccontextmanager
async def through(transport, era):
    if transport == "stdio":
        command, args = shared.command(world)
        async with Client(StdioServerParameters(command=command, args=args), mode=era) as client:
            yield client
    else:
        async with httpx2.AsyncClient(headers=shared.headers(world), timeout=60) as http:
            async with Client(streamable_http_client(world.door, http_client=http), mode=era) as client:
                yield client


async def names(client):
    found, cursor = [], None
    while True:
        page = await client.list_tools(cursor=cursor)
        found += [t.name for t in page.tools]
        if not (cursor := page.next_cursor):
            return found


async def outcome(client, tool, arguments):
    """Returns a result as JSON, or what the client raised."""
    try:
        result = await client.call_tool(tool, arguments)
        return result.model_dump(mode="json", by_alias=True, exclude_none=True)
    except MCPError as e:
        return {"raised": f"MCPError: {e}"}
    except pydantic.ValidationError:  # its text depends on the era
        return {"raised": "ValidationError"}
    except Exception as e:
        return {"raised": type(e).__name__ + ": " + str(e).splitlines()[0].replace(tool, "TOOL")}


async def compare(way, bus, clients):
    folder = "python-two-" + way.replace(" ", "-")
    mine, theirs = shared.folders(world, folder)
    for (server, tool, a), (_, _, b) in zip(shared.chosen(mine, "Ada"), shared.chosen(theirs, "Ada")):
        want = shared.without_ours(await outcome(clients[server], tool, a))
        got = shared.without_ours(await outcome(bus, shared.behind(server, tool), b))
        report.expect(shared.same(want, mine, got, theirs),
                      f"{way}: {server} {tool}: directly {want}, through the bus {got}")


async def progress(way, client, tool, arguments):
    told = []

    async def hear(done, total, message):
        told.append((done, total, message))

    result = await client.call_tool(tool, arguments, progress_callback=hear)
    report.expect(not result.is_error, f"{way}: {tool}: {result}")
    return told


async def streams(way, bus, clients):
    for server, tool, arguments in (
        ("shop", "bake", {"steps": 4}), ("everything", "trigger-long-running-operation", {"duration": 0.4, "steps": 4}),
    ):
        want = await progress(way, clients[server], tool, arguments)
        got = await progress(way, bus, shared.behind(server, tool), arguments)
        report.expect(want == got and len(got) == 4, f"{way}: {tool}: progress directly {want}, through the bus {got}")


async def cancels(way, bus):
    """Cancels a call as Python does: by its scope."""
    name = "python-two-" + way.replace(" ", "-")
    file = pathlib.Path(world.through, name + ".cancelled")
    begun = anyio.Event()

    async def hear(*_):
        begun.set()

    async with anyio.create_task_group() as group:
        async def wait():
            await bus.call_tool(shared.behind("shop", "wait"), {"name": name}, progress_callback=hear)
            report.expect(False, f"{way}: the cancelled call ended")

        group.start_soon(wait)
        with anyio.fail_after(30):
            await begun.wait()
        group.cancel_scope.cancel()
    heard = await asyncio.to_thread(shared.appears, file)
    report.expect(heard, f"{way}: the server did not hear of the cancel")
    after = await bus.call_tool(shared.behind("shop", "add"), {"a": 1, "b": 1})
    report.expect(after.structured_content == {"result": 2}, f"{way}: after the cancel: {after}")


async def errors(way, bus):
    try:
        said = await bus.call_tool("no_such_tool", {})
        report.expect(False, f"{way}: a tool that is not there: {said}")
    except MCPError as e:
        report.expect(e.code == -32602, f"{way}: a tool that is not there: {e}")
    refused = await bus.call_tool(shared.behind("shop", "add"), {"a": "x"})
    text = refused.content[-1].text
    report.expect(refused.is_error and "integer" in text, f"{way}: an input of the wrong type: {refused}")


async def main():
    async with contextlib.AsyncExitStack() as stack:
        clients = {s: await stack.enter_async_context(direct(s)) for s in shared.SERVERS}
        tools = {s: await names(clients[s]) for s in clients}
        for transport in ("stdio", "http"):
            for era in ERAS:
                way = f"{transport} {era}"
                async with through(transport, era) as bus:
                    report.expect(bus.protocol_version == ERAS[era], f"{way}: it speaks {bus.protocol_version}")
                    shared.check_names(report, way, await names(bus), tools)
                    await compare(way, bus, clients)
                    await streams(way, bus, clients)
                    await cancels(way, bus)
                    await errors(way, bus)
                print(way, "done", flush=True)


asyncio.run(main())
if report.failed:
    sys.exit(f"{report.failed} failures")
