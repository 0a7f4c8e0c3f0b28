"""The agent framework openai-agents, with its own client of MCP, against a stand-in for the API of a model."""

import asyncio
import contextlib
import json
import pathlib
import sys

from agents import Agent, OpenAIChatCompletionsModel, OpenAIResponsesModel, Runner, set_tracing_disabled
from agents.mcp import MCPServerStdio, MCPServerStreamableHttp
from openai import AsyncOpenAI

import model
import plans
import shared

world = shared.wire.World(sys.argv[1])
report = shared.Report()
set_tracing_disabled(True)
KINDS = {"chat": OpenAIChatCompletionsModel, "responses": OpenAIResponsesModel}


def direct():
    """Returns the servers as an agent has them without the bus."""
    return [MCPServerStdio({"command": s["command"], "args": s["args"], "env": s["env"]}, name=name,
                           client_session_timeout_seconds=60, cache_tools_list=True) for name, s in world.servers.items()]


def through(transport):
    """Returns the bus as the only server of an agent."""
    if transport == "stdio":
        command, args = shared.command(world)
        return [MCPServerStdio({"command": command, "args": args}, client_session_timeout_seconds=60, cache_tools_list=True)]
    return [MCPServerStreamableHttp({"url": world.door, "headers": shared.headers(world)},
                                    client_session_timeout_seconds=60, cache_tools_list=True)]


@contextlib.asynccontextmanager
async def agent(servers, stand_in, kind):
    async with contextlib.AsyncExitStack() as stack:
        for server in servers:
            await stack.enter_async_context(server)
        api = AsyncOpenAI(base_url=stand_in.url, api_key="none", max_retries=0)
        stack.push_async_callback(api.close)
        yield Agent(name="agent", mcp_servers=servers, model=KINDS[kind](model="stand-in", openai_client=api))


async def outputs(one, plan, streamed):
    """Runs a conversation, and returns what the model was shown of each call."""
    if streamed:
        result, seen = Runner.run_streamed(one, json.dumps(plan), max_turns=100), 0
        async for event in result.stream_events():
            seen += event.type == "run_item_stream_event" and event.name == "tool_output"
        want = sum(map(len, plan))
        report.expect(seen == want, f"{seen} of {want} outputs are in the stream")
    else:
        result = await Runner.run(one, json.dumps(plan), max_turns=100)
    report.expect(result.final_output == "done", f"the conversation ended with {result.final_output!r}")
    found = {i["call_id"]: i["output"] for i in result.to_input_list() if i.get("type") == "function_call_output"}
    return [found[f"call_{number}"] for number in range(len(found))]


async def converse(transport, kind, streamed):
    way = f"{transport} {kind}{' streamed' if streamed else ''}"
    mine, theirs, names, *folders = plans.plans(world, "openai-agents-" + way.replace(" ", "-"))
    with model.Model(strict=False) as lenient:
        async with agent(direct(), lenient, kind) as one:
            want = await outputs(one, mine, streamed)
    with model.Model() as strict:
        async with agent(through(transport), strict, kind) as one:
            try:
                got = await outputs(one, theirs, streamed)
            except Exception as e:
                report.expect(False, f"{way}: the conversation failed: {type(e).__name__}: {e}")
                return
            plans.compare(report, way, names, want, got, *folders)
            await cancels(way, one)
        report.expect(strict.listed > 340, f"{way}: the model was shown {strict.listed} tools")
    print(f"{way}: {len(got)} calls, {strict.listed} tools", flush=True)


async def cancels(way, one):
    """Ends a conversation in the middle of a call."""
    name = "openai-agents-" + way.replace(" ", "-")
    task = asyncio.create_task(Runner.run(one, json.dumps([[[shared.behind("shop", "wait"), {"name": name}]]])))
    begun = await asyncio.to_thread(shared.appears, pathlib.Path(world.through, name + ".begun"))
    report.expect(begun, f"{way}: the call to be cancelled did not begin")
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await task
    heard = await asyncio.to_thread(shared.appears, pathlib.Path(world.through, name + ".cancelled"))
    report.expect(heard, f"{way}: the server did not hear of the cancel")
    after = await outputs(one, [[[shared.behind("shop", "add"), {"a": 1, "b": 1}]]], False)
    report.expect("2" in str(after), f"{way}: after the cancel: {after}")


async def main():
    await converse("stdio", "chat", False)
    await converse("http", "responses", True)


asyncio.run(main())
if report.failed:
    sys.exit(f"{report.failed} failures")
