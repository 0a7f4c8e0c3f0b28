// The official TypeScript client, version 1, in its default mode.

import { door, require, run, token, world } from "./typescript.mjs";

const { Client } = require("@modelcontextprotocol/sdk/client/index.js");
const { StdioClientTransport, getDefaultEnvironment } = require("@modelcontextprotocol/sdk/client/stdio.js");
const { StreamableHTTPClientTransport } = require("@modelcontextprotocol/sdk/client/streamableHttp.js");

async function connected(transport) {
  const client = new Client({ name: "typescript-one", version: "1" });
  await client.connect(transport);
  return client;
}

const direct = (server) => connected(new StdioClientTransport({ ...server, stderr: "ignore" }));
const through = ([transport]) => connected(transport === "stdio"
  ? new StdioClientTransport({ command: world.toolbus, args: door, env: getDefaultEnvironment() })
  : new StreamableHTTPClientTransport(new URL(world.door), {
    requestInit: { headers: { Authorization: `Bearer ${token()}` } },
  }));

await run(direct, through, [["stdio", "one"], ["http", "one"]],
  (client, params, options) => client.callTool(params, undefined, options));
