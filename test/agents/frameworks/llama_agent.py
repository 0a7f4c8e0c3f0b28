"""An agent of llama-index with llama-index-tools-mcp. Each call has a session of its own, as by default."""

import asyncio

from llama_index.core.agent.workflow import FunctionAgent
from llama_index.llms.openai_like import OpenAILike
from llama_index.tools.mcp import BasicMCPClient, McpToolSpec

from job import TIMEOUT, Job, done


async def main():
    job = Job()
    if job.http:
        client = BasicMCPClient(job.url, headers=job.headers, timeout=TIMEOUT)
    else:
        client = BasicMCPClient(job.command, args=job.args, env=job.env, timeout=TIMEOUT)
    model = OpenAILike(model="stand-in", api_base=job.model, api_key="none", is_chat_model=True,
                       is_function_calling_model=True, max_retries=0, context_window=100_000_000)
    agent = FunctionAgent(tools=await McpToolSpec(client).to_tool_list_async(), llm=model, timeout=3 * TIMEOUT)
    done(str(await agent.run(job.message, max_iterations=100)))


asyncio.run(main())
