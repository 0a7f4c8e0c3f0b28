"""The official Python SDK, version 1, as its documentation shows it: a ClientSession, which validates structured content
against the output schema of the tool."""

import asyncio
import contextlib
import os
import pathlib
import sys

import anyio
from mcp import ClientSession, McpError, StdioServerParameters, types
from mcp.client.stdio import stdio_client
from mcp.client.streamable_http import streamablehttp_client

import shared

world = shared.wire.World(sys.argv[1])
report = shared.Report()
nowhere = open(os.devnull, "w")  # for what the servers of the direct side log


@contextlib.asynccontextmanager
async def direct(server):
    s = world.servers[server]
    async with stdio_client(StdioServerParameters(command=s["command"], args=s["args"], env=s["env"]), nowhere) as streams:
        async with ClientSession(*streams) as session:
            await session.initialize()
            yield session


@contextlib.asynccontextmanager
async def through(transport):
    if transport == "stdio":
        command, args = shared.command(world)
        async with stdio_client(StdioServerParameters(command=command, args=args)) as streams:
            async with ClientSession(*streams) as session:
                await session.initialize()
                yield session
    else:
        async with streamablehttp_client(world.door, headers=shared.headers(world)) as (read, write, _):
            async with ClientSession(read, write) as session:
                await session.initialize()
                yield session


async def names(session):
    found, cursor = [], None
    while True:
        page = await session.list_tools(cursor=cursor) if cursor else await session.list_tools()
        found += [t.name for t in page.tools]
        if not (cursor := page.nextCursor):
            return found


async def outcome(session, tool, arguments):
    """Returns a result as JSON, or what the client raised."""
    try:
        result = await session.call_tool(tool, arguments)
        return result.model_dump(mode="json", by_alias=True, exclude_none=True)
    except McpError as e:
        return {"raised": f"McpError: {e}"}
    except Exception as e:
        return {"raised": type(e).__name__ + ": " + str(e).splitlines()[0].replace(tool, "TOOL")}


async def compare(way, bus, sessions):
    mine, theirs = shared.folders(world, f"python-one-{way}")
    for (server, tool, a), (_, _, b) in zip(shared.chosen(mine, "Ada"), shared.chosen(theirs, "Ada")):
        want = await outcome(sessions[server], tool, a)
        got = await outcome(bus, shared.behind(server, tool), b)
        got = shared.without_ours(got)
        report.expect(shared.same(want, mine, got, theirs),
                      f"{way}: {server} {tool}: directly {want}, through the bus {got}")


async def progress(way, session, tool, arguments):
    told = []

    async def hear(done, total, message):
        told.append((done, total, message))

    result = await session.call_tool(tool, arguments, progress_callback=hear)
    report.expect(not result.isError, f"{way}: {tool}: {result}")
    return told


async def streams(way, bus, sessions):
    for server, tool, arguments in (
        ("shop", "bake", {"steps": 4}), ("everything", "trigger-long-running-operation", {"duration": 0.4, "steps": 4}),
    ):
        want = await progress(way, sessions[server], tool, arguments)
        got = await progress(way, bus, shared.behind(server, tool), arguments)
        report.expect(want == got and len(got) == 4, f"{way}: {tool}: progress directly {want}, through the bus {got}")


async def cancels(way, bus):
    """Cancels a call with a notification that names the request, which gets no answer then."""
    name = f"python-one-{way}"
    file = pathlib.Path(world.through, name + ".cancelled")
    begun = anyio.Event()

    async def hear(*_):
        begun.set()

    number = bus._request_id  # the SDK shows the id of a request nowhere else
    task = asyncio.create_task(bus.call_tool(shared.behind("shop", "wait"), {"name": name}, progress_callback=hear))
    with anyio.fail_after(30):
        await begun.wait()
    await bus.send_notification(types.ClientNotification(types.CancelledNotification(
        params=types.CancelledNotificationParams(requestId=number, reason="enough"))))
    heard = await asyncio.to_thread(shared.appears, file)
    report.expect(heard, f"{way}: the server did not hear of the cancel")
    report.expect(not task.done(), f"{way}: the cancelled call was answered")
    task.cancel()
    after = await bus.call_tool(shared.behind("shop", "add"), {"a": 1, "b": 1})
    report.expect(after.structuredContent == {"result": 2}, f"{way}: after the cancel: {after}")


async def errors(way, bus):
    try:
        said = await bus.call_tool("no_such_tool", {})
        report.expect(False, f"{way}: a tool that is not there: {said}")
    except McpError as e:
        report.expect(e.error.code == -32602, f"{way}: a tool that is not there: {e.error}")
    refused = await bus.call_tool(shared.behind("shop", "add"), {"a": "x"})
    text = refused.content[-1].text
    report.expect(refused.isError and "integer" in text, f"{way}: an input of the wrong type: {refused}")


async def main():
    async with contextlib.AsyncExitStack() as stack:
        sessions = {s: await stack.enter_async_context(direct(s)) for s in shared.SERVERS}
        tools = {s: await names(sessions[s]) for s in sessions}
        for way in ("stdio", "http"):
            async with through(way) as bus:
                shared.check_names(report, way, await names(bus), tools)
                await compare(way, bus, sessions)
                await streams(way, bus, sessions)
                await cancels(way, bus)
                await errors(way, bus)
            print(way, "done", flush=True)


asyncio.run(main())
if report.failed:
    sys.exit(f"{report.failed} failures")
