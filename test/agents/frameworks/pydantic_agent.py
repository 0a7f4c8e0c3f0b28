"""An agent of pydantic-ai."""

import asyncio

from fastmcp.client.transports import StdioTransport
from pydantic_ai import Agent
from pydantic_ai.mcp import MCPToolset
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers.openai import OpenAIProvider

from job import TIMEOUT, Job, done


async def main():
    job = Job()
    more = {"headers": job.headers} if job.http else {}
    toolset = MCPToolset(job.url if job.http else StdioTransport(job.command, job.args, env=job.env, keep_alive=False),
                         read_timeout=TIMEOUT, init_timeout=TIMEOUT, tool_error_behavior="failed",
                         cache_tools=not job.late, **more)
    model = OpenAIChatModel("stand-in", provider=OpenAIProvider(base_url=job.model, api_key="none"))
    agent = Agent(model, toolsets=[toolset])

    async def listed():
        return len(await toolset.list_tools())

    async with toolset:
        await job.bus_comes(listed)
        done((await agent.run(job.message)).output)


asyncio.run(main())
