// An agent of Mastra. It puts the name of the server before those of tools.

import { Agent } from "@mastra/core/agent";
import { MCPClient } from "@mastra/mcp";

import { done, job, message, timeout } from "./job.mjs";

const server = job.url
  ? { url: new URL(job.url), requestInit: { headers: job.headers }, timeout }
  : { command: job.command, args: job.args, env: job.env, timeout };
const client = new MCPClient({ servers: { bus: server }, timeout });
const agent = new Agent({
  id: "agent", name: "agent", instructions: "Follow the plan.", tools: await client.listTools(),
  model: { id: "stand-in/stand-in", url: job.model, apiKey: "none" },
});
const { text } = await agent.generate(message, { maxSteps: 100 });
await client.disconnect();
done(text);
