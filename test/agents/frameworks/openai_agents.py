"""An agent of openai-agents."""

import asyncio

from agents import Agent, OpenAIChatCompletionsModel, Runner, set_tracing_disabled
from agents.mcp import MCPServerStdio, MCPServerStreamableHttp
from openai import AsyncOpenAI

from job import TIMEOUT, Job, done


async def main():
    job = Job()
    set_tracing_disabled(True)
    if job.http:
        server = MCPServerStreamableHttp({"url": job.url, "headers": job.headers, "timeout": TIMEOUT},
                                         client_session_timeout_seconds=TIMEOUT)
    else:
        server = MCPServerStdio({"command": job.command, "args": job.args, "env": job.env},
                                client_session_timeout_seconds=TIMEOUT)
    async with server, AsyncOpenAI(base_url=job.model, api_key="none", max_retries=0) as api:
        async def listed():
            return len(await server.list_tools())

        await job.bus_comes(listed)
        model = OpenAIChatCompletionsModel(model="stand-in", openai_client=api)
        agent = Agent(name="agent", mcp_servers=[server], model=model)
        done((await Runner.run(agent, job.message, max_turns=100)).final_output)


asyncio.run(main())
