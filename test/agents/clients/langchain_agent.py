"""An agent of LangChain with langchain-mcp-adapters, against a stand-in for the API of a model."""

import asyncio
import contextlib
import json
import pathlib
import sys

from langchain.agents import create_agent
from langchain_core.messages import ToolMessage
from langchain_mcp_adapters.callbacks import Callbacks
from langchain_mcp_adapters.client import MultiServerMCPClient
from langchain_mcp_adapters.tools import load_mcp_tools
from langchain_openai import ChatOpenAI

import model
import plans
import shared

world = shared.wire.World(sys.argv[1])
report = shared.Report()
told = []
waits = asyncio.Event()  # the tool `wait` has told of its progress


async def hear(done, total, message, context):
    told.append((done, total, message))
    if message == "it waits":
        waits.set()


def direct():
    """Returns the servers as an agent has them without the bus."""
    return MultiServerMCPClient(
        {name: {"transport": "stdio", **server} for name, server in world.servers.items()},
        callbacks=Callbacks(on_progress=hear))


def through(transport):
    """Returns the bus as the only server of an agent."""
    if transport == "stdio":
        command, args = shared.command(world)
        connection = {"transport": "stdio", "command": command, "args": args}
    else:
        connection = {"transport": "streamable_http", "url": world.door, "headers": shared.headers(world)}
    return MultiServerMCPClient({"toolbus": connection}, callbacks=Callbacks(on_progress=hear))


def agent(stand_in, tools, streamed):
    return create_agent(ChatOpenAI(
        model="stand-in", base_url=stand_in.url, api_key="none", streaming=streamed, max_retries=0), tools)


@contextlib.asynccontextmanager
async def sessions(client):
    """Yields the tools of all servers, each in one session."""
    async with contextlib.AsyncExitStack() as stack:
        tools = []
        for name in client.connections:
            session = await stack.enter_async_context(client.session(name))
            tools += await load_mcp_tools(session, callbacks=client.callbacks, server_name=name)
        yield tools


async def outputs(one, plan, streamed):
    """Runs a conversation, and returns what the model was shown of each call."""
    state = {"messages": [("user", json.dumps(plan))]}
    config = {"recursion_limit": 500}
    if streamed:
        async for state in one.astream(state, config, stream_mode="values"):
            pass
    else:
        state = await one.ainvoke(state, config)
    messages = state["messages"]
    report.expect(messages[-1].content == "done", f"the conversation ended with {messages[-1].content!r}")
    found = {m.tool_call_id: m.content for m in messages if isinstance(m, ToolMessage)}
    return [found[f"call_{number}"] for number in range(len(found))]


async def converse(transport, streamed):
    way = f"{transport}{' streamed' if streamed else ''}"
    mine, theirs, names, *folders = plans.plans(world, "langchain-" + way.replace(" ", "-"))
    bake = {"steps": 4}
    with model.Model(strict=False) as lenient:
        async with sessions(direct()) as tools:
            want = await outputs(agent(lenient, tools, streamed), [*mine, [["bake", bake]]], streamed)
    directly = told[:]
    told.clear()
    with model.Model() as strict:
        async with sessions(through(transport)) as tools:
            one = agent(strict, tools, streamed)
            try:
                got = await outputs(one, [*theirs, [[shared.behind("shop", "bake"), bake]]], streamed)
            except Exception as e:
                report.expect(False, f"{way}: the conversation failed: {type(e).__name__}: {e}")
                return
        plans.compare(report, way, [*names, "shop bake"], want, got, *folders)
        report.expect(told == directly and len(told) == 4, f"{way}: progress directly {directly}, through the bus {told}")
        await cancels(way, strict, transport)
        report.expect(strict.listed > 340, f"{way}: the model was shown {strict.listed} tools")
    told.clear()
    print(f"{way}: {len(got)} calls, {strict.listed} tools", flush=True)


async def cancels(way, stand_in, transport):
    """Ends a conversation in the middle of a call. Each call has a session of its own, as the adapters do by default.

    It does so after the progress is heard: this SDK kills a server that sends something while the client closes.
    """
    waits.clear()
    name = "langchain-" + way.replace(" ", "-")
    one = agent(stand_in, await through(transport).get_tools(), False)
    task = asyncio.create_task(outputs(one, [[[shared.behind("shop", "wait"), {"name": name}]]], False))
    with contextlib.suppress(TimeoutError):
        await asyncio.wait_for(waits.wait(), 15)
    report.expect(waits.is_set(), f"{way}: the call to be cancelled did not begin")
    task.cancel()
    # The SDK raises a group if the server still answers while the client closes, as the bus does over standard output.
    with contextlib.suppress(asyncio.CancelledError, ExceptionGroup):
        await task
    if transport == "stdio":  # over HTTP this version of the SDK only disconnects, which in sessions is no cancel
        heard = await asyncio.to_thread(shared.appears, pathlib.Path(world.through, name + ".cancelled"))
        report.expect(heard, f"{way}: the server did not hear of the cancel")
    after = await outputs(one, [[[shared.behind("shop", "add"), {"a": 1, "b": 1}]]], False)
    report.expect("2" in str(after), f"{way}: after the cancel: {after}")


async def main():
    await converse("stdio", False)
    await converse("http", True)


asyncio.run(main())
if report.failed:
    sys.exit(f"{report.failed} failures")
