// The command line of MCP Inspector: lists with --strict, calls, progress, a cancel, and errors, over both transports and
// in both eras.

import { spawn } from "node:child_process";
import { existsSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as pause } from "node:timers/promises";
import { door, end, expect, token, world } from "./typescript.mjs";

const program = join(world.modules, ".bin", "mcp-inspector");

function start(transport, era, args) {
  const target = transport === "stdio"
    ? [world.toolbus, ...door]
    : [world.door, "--transport", "http", "--header", `Authorization: Bearer ${token()}`];
  const [command, ...rest] = target;
  const child = spawn(world.node, [program, "--cli", ...args, "--protocol-era", era, "--format", "json",
    ...(transport === "stdio" ? ["--", command, ...rest] : [command, ...rest])],
  { stdio: ["ignore", "pipe", "pipe"] });
  child.said = child.warned = "";
  child.stdout.on("data", (data) => (child.said += data));
  child.stderr.on("data", (data) => (child.warned += data));
  child.ended = new Promise((resolve) => child.on("close", (code) => resolve(code)));
  return child;
}

async function inspect(transport, era, code, want, ...args) {
  const child = start(transport, era, args);
  const got = await child.ended;
  expect(got === code && want.test(child.said + child.warned),
    `${transport} ${era}: ${args.join(" ")}: exit ${got}, want ${code} and ${want}:\n${child.said}\n${child.warned}`);
  return child.said;
}

async function cancels(transport, era) {
  const name = `inspector-${transport}-${era}`;
  const there = async (file) => {
    for (let waited = 0; waited < 15000; waited += 20) {
      if (existsSync(join(world.through, file))) return true;
      await pause(20);
    }
    return false;
  };
  const child = start(transport, era,
    ["--method", "tools/call", "--tool-name", "shop_wait", "--tool-args-json", JSON.stringify({ name })]);
  expect(await there(`${name}.begun`), `${name}: the call did not begin: ${child.said}${child.warned}`);
  child.kill("SIGTERM");
  await child.ended;
  expect(await there(`${name}.cancelled`), `${name}: the server did not hear of the cancel`);
}

const call = (tool, args) => ["--method", "tools/call", "--tool-name", tool, "--tool-args-json", JSON.stringify(args)];
for (const transport of ["stdio", "http"]) {
  for (const era of ["legacy", "modern"]) {
    const listed = await inspect(transport, era, 0, /many_getUser0/, "--method", "tools/list", "--strict");
    expect(listed.includes('"shop_bake"') && listed.includes("filesystem_read_text_file"),
      `${transport} ${era}: the list lacks tools`);
    await inspect(transport, era, 0, /Light rain/, ...call("everything_get-structured-content", { location: "Chicago" }));
    await inspect(transport, era, 0, /baked in 3 steps/, ...call("shop_bake", { steps: 3 }));
    await inspect(transport, era, 5, /because of no tea/, ...call("shop_fail", { reason: "no tea" }));
    if (era === "modern" || transport === "stdio") await cancels(transport, era);
    console.log(`${transport} ${era}: done`);
  }
}
end();
