// An agent of the AI SDK of Vercel.

import { createMCPClient } from "@ai-sdk/mcp";
import { StdioMCPTransport } from "@ai-sdk/mcp/mcp-stdio";
import { createOpenAICompatible } from "@ai-sdk/openai-compatible";
import { generateText, isStepCount } from "ai";

import { done, job, message, timeout } from "./job.mjs";

const client = await createMCPClient({
  transport: job.url
    ? { type: "http", url: job.url, headers: job.headers }
    : new StdioMCPTransport({ command: job.command, args: job.args, env: job.env, stderr: "ignore" }),
  initializationOptions: { timeout },
});
const model = createOpenAICompatible({ name: "stand-in", baseURL: job.model, apiKey: "none" });
const { text } = await generateText({
  model: model("stand-in"), tools: await client.tools(), stopWhen: isStepCount(100), prompt: message, maxRetries: 0,
});
await client.close();
done(text);
