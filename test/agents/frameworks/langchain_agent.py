"""An agent of LangChain with langchain-mcp-adapters. Each call has a session of its own, as by default."""

import asyncio
from datetime import timedelta

from langchain.agents import create_agent
from langchain_mcp_adapters.client import MultiServerMCPClient
from langchain_openai import ChatOpenAI

from job import TIMEOUT, Job, done


async def main():
    job = Job()
    if job.http:
        connection = {"transport": "streamable_http", "url": job.url, "headers": job.headers,
                      "timeout": timedelta(seconds=TIMEOUT), "sse_read_timeout": timedelta(seconds=TIMEOUT)}
    else:
        connection = {"transport": "stdio", "command": job.command, "args": job.args, "env": job.env}
    client = MultiServerMCPClient({"bus": connection})
    model = ChatOpenAI(model="stand-in", base_url=job.model, api_key="none", max_retries=0, streaming=True)
    agent = create_agent(model, await client.get_tools())
    state = await agent.ainvoke({"messages": [("user", job.message)]}, {"recursion_limit": 500})
    done(state["messages"][-1].content)


asyncio.run(main())
