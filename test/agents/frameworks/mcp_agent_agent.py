"""An agent of mcp-agent. It puts the name of the server before those of tools."""

import asyncio

from mcp_agent.agents.agent import Agent
from mcp_agent.app import MCPApp
from mcp_agent.config import LoggerSettings, MCPServerSettings, MCPSettings, OpenAISettings, Settings
from mcp_agent.workflows.llm.augmented_llm import RequestParams
from mcp_agent.workflows.llm.augmented_llm_openai import OpenAIAugmentedLLM

from job import TIMEOUT, Job, done


async def main():
    job = Job()
    if job.http:
        server = MCPServerSettings(transport="streamable_http", url=job.url, headers=job.headers,
                                   http_timeout_seconds=TIMEOUT, read_timeout_seconds=TIMEOUT)
    else:
        server = MCPServerSettings(command=job.command, args=job.args, env=job.env, read_timeout_seconds=TIMEOUT)
    app = MCPApp(name="test", settings=Settings(
        execution_engine="asyncio", logger=LoggerSettings(type="none"), mcp=MCPSettings(servers={"bus": server}),
        openai=OpenAISettings(api_key="none", base_url=job.model, default_model="stand-in")))
    async with app.run():
        async with Agent(name="agent", instruction="Follow the plan.", server_names=["bus"]) as agent:
            model = await agent.attach_llm(OpenAIAugmentedLLM)
            done((await model.generate_str(job.message, RequestParams(max_iterations=100, model="stand-in")))[-4:])


asyncio.run(main())
