// Calls of the official TypeScript client whose connection is cut in the middle of the answer. The client asks again with
// the same key, through another connection. Arguments: the file of the world, and the URL of the proxy that cuts.

import { end, expect, require, token, world } from "../clients/typescript.mjs";
import { readFileSync } from "node:fs";
import { join } from "node:path";

const { Client, StreamableHTTPClientTransport } = require("@modelcontextprotocol/client");
const most = 600, atOnce = 8;

async function connected(url, mode) {
  const client = new Client({ name: "cut", version: "1" }, { versionNegotiation: { mode } });
  await client.connect(new StreamableHTTPClientTransport(new URL(url), {
    requestInit: { headers: { Authorization: `Bearer ${token()}` } },
  }));
  return client;
}

let cut = 0;
async function sell(n, mode, whole) {
  const params = {
    name: "shop_sell", arguments: { goods: `cut ${n}` },
    _meta: { "io.toolbus/idempotency_key": `the-key-of-cut-number-${n}` },
  };
  const client = await connected(process.argv[3], mode);
  await client.callTool(params, { timeout: 20_000 }).catch(() => { cut++; });
  await client.close().catch(() => {});
  const result = await whole[mode].callTool(params, { timeout: 20_000 });
  expect(!result.isError, `${n}: ${JSON.stringify(result)}`);
}

const modes = ["legacy", "auto"];
const whole = Object.fromEntries(await Promise.all(modes.map(async (m) => [m, await connected(world.door, m)])));
let next = 0;
await Promise.all(Array.from({ length: atOnce }, async () => {
  for (let n = next++; n < most; n = next++) {
    await sell(n, modes[n % 2], whole);
  }
}));
const sold = readFileSync(join(world.through, "sold.txt"), "utf8").split("\n").filter((line) => line.startsWith("cut "));
expect(cut === most, `${cut} of ${most} calls were cut`);
expect(sold.length === most && new Set(sold).size === most, `${most} calls had ${sold.length} effects`);
console.log(`${cut} cut, ${sold.length} effects`);
end();
