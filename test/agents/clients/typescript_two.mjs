// The official TypeScript client, version 2, in both eras.

import { door, require, run, token, world } from "./typescript.mjs";

const { Client, StreamableHTTPClientTransport } = require("@modelcontextprotocol/client");
const { StdioClientTransport, getDefaultEnvironment } = require("@modelcontextprotocol/client/stdio");

async function connected(transport, mode) {
  const client = new Client({ name: "typescript-two", version: "2" }, { versionNegotiation: { mode } });
  await client.connect(transport);
  return client;
}

const modes = { legacy: "legacy", auto: "auto" };
const direct = (server) => connected(new StdioClientTransport({ ...server, stderr: "ignore" }), "legacy");
const through = ([transport, , era]) => connected(transport === "stdio"
  ? new StdioClientTransport({ command: world.toolbus, args: door, env: getDefaultEnvironment() })
  : new StreamableHTTPClientTransport(new URL(world.door), {
    requestInit: { headers: { Authorization: `Bearer ${token()}` } },
  }), modes[era]);

const ways = ["stdio", "http"].flatMap((transport) => Object.keys(modes).map((era) => [transport, "two", era]));
await run(direct, through, ways, (client, params, options) => client.callTool(params, options));
