"""An agent of google-adk, with the API of Gemini."""

import asyncio

from google.adk.agents import LlmAgent
from google.adk.models import Gemini
from google.adk.runners import InMemoryRunner
from google.adk.tools.mcp_tool.mcp_session_manager import StdioConnectionParams, StreamableHTTPConnectionParams
from google.adk.tools.mcp_tool.mcp_toolset import McpToolset
from google.genai import types
from mcp import StdioServerParameters

from job import TIMEOUT, Job, done


async def main():
    job = Job()
    if job.http:
        params = StreamableHTTPConnectionParams(url=job.url, headers=job.headers, timeout=TIMEOUT)
    else:
        server = StdioServerParameters(command=job.command, args=job.args, env=job.env)
        params = StdioConnectionParams(server_params=server, timeout=TIMEOUT)
    toolset = McpToolset(connection_params=params)
    model = Gemini(model="gemini-stand-in", base_url=job.model.removesuffix("/v1"), client_kwargs={"api_key": "none"})
    runner = InMemoryRunner(agent=LlmAgent(name="agent", model=model, tools=[toolset]), app_name="test")
    session = await runner.session_service.create_session(app_name="test", user_id="user")
    said = None
    async for event in runner.run_async(
            user_id="user", session_id=session.id,
            new_message=types.Content(role="user", parts=[types.Part(text=job.message)])):
        if event.is_final_response() and event.content:
            said = event.content.parts[0].text
    await toolset.close()
    done(said)


asyncio.run(main())
