// What the two official TypeScript clients share: both validate structured content against the output schema of the tool.
// A client is made by the script that names its version.

import { deepStrictEqual } from "node:assert";
import { existsSync, readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { join } from "node:path";
import { setTimeout as pause } from "node:timers/promises";

export const world = JSON.parse(readFileSync(process.argv[2], "utf8"));
export const require = createRequire(join(world.modules, "script.js"));
export const token = () => readFileSync(world.token, "utf8").trim();
export const door = ["mcp", "--search-only=false", "--server", world.bus];

const Ajv = require("ajv").default;
const Ajv2020 = require("ajv/dist/2020").default;
const apiName = /^[a-zA-Z0-9_-]{1,48}$/;
let failed = 0;

export function expect(ok, text) {
  if (!ok) {
    failed++;
    console.log("FAIL", text.length < 1000 ? text : text.slice(0, 600) + " … " + text.slice(-300));
  }
  return ok;
}

export function end() {
  process.exit(failed ? 1 : 0);
}

// behind returns the name of a tool at the door.
const behind = (server, tool) => `${server}_${tool.replaceAll(".", "_")}`;

function chosen(folder) {
  const text = readFileSync(new URL("chosen.json", import.meta.url), "utf8");
  return JSON.parse(text.replaceAll("{dir}", folder).replaceAll("{name}", "Ada"));
}

// compiles compiles a schema with no loader, with the draft that it names, else with 2020-12.
function compiles(schema) {
  const options = { strict: false, validateFormats: false, logger: false };
  const draft07 = /draft-0[67]\/schema#?$/.test(schema.$schema ?? "");
  try {
    (draft07 ? new Ajv(options) : new Ajv2020(options)).compile(schema);
    return "";
  } catch (e) {
    return e.message;
  }
}

async function tools(client) {
  const found = [];
  let cursor;
  do {
    const page = await client.listTools(cursor ? { cursor } : undefined);
    found.push(...page.tools);
    cursor = page.nextCursor;
  } while (cursor);
  return found;
}

async function lists(way, bus, servers) {
  const listed = await tools(bus);
  const names = new Set(listed.map((t) => t.name));
  const wrong = listed.filter((t) => !apiName.test(t.name)).map((t) => t.name);
  expect(!wrong.length, `${way}: ${wrong.length} names that model APIs refuse, as ${wrong.slice(0, 3)}`);
  for (const t of listed) {
    for (const member of ["inputSchema", "outputSchema"]) {
      if (t[member]) {
        const why = compiles(t[member]);
        expect(!why, `${way}: ${member} of ${t.name}: ${why}`);
      }
    }
  }
  let want = 0;
  for (const client of Object.values(servers)) want += (await tools(client)).length;
  names.delete("toolbus_search_tools");
  expect(names.size === want, `${way}: ${names.size} of ${want} tools are listed`);
}

// outcome returns a result, or what the client threw.
async function outcome(client, call, tool, args) {
  try {
    return await call(client, { name: tool, arguments: args });
  } catch (e) {
    return { thrown: `${e.name}: ${e.message}`.replaceAll(tool, "TOOL").split("\n")[0] };
  }
}

// withoutOurs returns a result without what the bus may add to it.
function withoutOurs(result) {
  const { _meta = {}, resultType: _, ...rest } = structuredClone(result);
  const ours = Object.keys(_meta).filter((k) => k.startsWith("io.toolbus/"));
  const left = Object.entries(_meta).filter(([k]) => !ours.includes(k) && k !== "io.modelcontextprotocol/serverInfo");
  if (left.length) rest._meta = Object.fromEntries(left);
  const last = rest.content?.at(-1);
  if (last?.type === "text" && (ours.includes("io.toolbus/code") || last.text.startsWith("Warning: "))) {
    rest.content = rest.content.slice(0, -1);
  }
  return rest;
}

function same(want, mine, got, theirs) {
  try {
    const plain = (value, folder) => JSON.parse(JSON.stringify(value).replaceAll(folder, ""));
    deepStrictEqual(plain(got, theirs), plain(want, mine));
    return true;
  } catch {
    return false;
  }
}

async function compare(way, bus, servers, call) {
  const folder = `typescript-${way.replaceAll(" ", "-")}`;
  const [mine, theirs] = [join(world.direct, folder), join(world.through, folder)];
  const there = chosen(theirs);
  for (const [i, [server, tool, args]] of chosen(mine).entries()) {
    const want = withoutOurs(await outcome(servers[server], call, tool, args));
    const got = withoutOurs(await outcome(bus, call, behind(server, tool), there[i][2]));
    expect(same(want, mine, got, theirs),
      `${way}: ${server} ${tool}: directly ${JSON.stringify(want)}, through the bus ${JSON.stringify(got)}`);
  }
}

async function streams(way, bus, servers, call) {
  for (const [server, name, args] of [
    ["shop", "bake", { steps: 4 }], ["everything", "trigger-long-running-operation", { duration: 0.4, steps: 4 }],
  ]) {
    const told = { direct: [], through: [] };
    const hear = (side) => ({ onprogress: ({ progress, total, message }) => told[side].push([progress, total, message]) });
    await call(servers[server], { name, arguments: args }, hear("direct"));
    await call(bus, { name: behind(server, name), arguments: args }, hear("through"));
    // The client drops progress that comes right before a result, which is the last of the reference server.
    const least = server === "shop" ? 4 : 3;
    const [a, b] = [told.direct, told.through].map((all) => JSON.stringify(all.slice(0, least)));
    expect(a === b && told.through.length >= least, `${way}: ${name}: progress directly ${a}, through the bus ${b}`);
  }
}

async function appears(file) {
  for (let waited = 0; waited < 15000; waited += 20) {
    if (existsSync(file)) return true;
    await pause(20);
  }
  return false;
}

async function cancels(way, bus, call) {
  const name = `typescript-${way.replaceAll(" ", "-")}`;
  const stop = new AbortController();
  let thrown;
  const waiting = call(bus, { name: behind("shop", "wait"), arguments: { name } },
    { signal: stop.signal, onprogress: () => stop.abort("enough") }).catch((e) => (thrown = e));
  await waiting;
  expect(thrown, `${way}: the cancelled call ended`);
  expect(await appears(join(world.through, `${name}.cancelled`)), `${way}: the server did not hear of the cancel`);
  const after = await call(bus, { name: behind("shop", "add"), arguments: { a: 1, b: 1 } });
  expect(after.structuredContent?.result === 2, `${way}: after the cancel: ${JSON.stringify(after)}`);
}

async function errors(way, bus, call) {
  const unknown = await outcome(bus, call, "no_such_tool", {});
  expect(/unknown tool/i.test(unknown.thrown ?? ""), `${way}: a tool that is not there: ${JSON.stringify(unknown)}`);
  const refused = await call(bus, { name: behind("shop", "add"), arguments: { a: "x" } });
  expect(refused.isError && /integer/.test(refused.content.at(-1).text),
    `${way}: an input of the wrong type: ${JSON.stringify(refused)}`);
}

// run runs everything. direct connects to a server, through to the bus in one of the ways, and call calls a tool.
export async function run(direct, through, ways, call) {
  const servers = {};
  for (const [name, server] of Object.entries(world.servers)) servers[name] = await direct(server);
  for (const way of ways) {
    const bus = await through(way);
    const label = way.join(" ");
    for (const step of [lists, compare, streams]) {
      try {
        await step(label, bus, servers, call);
      } catch (e) {
        expect(false, `${label}: ${step.name}: ${e.stack}`);
      }
    }
    for (const step of [cancels, errors]) {
      try {
        await step(label, bus, call);
      } catch (e) {
        expect(false, `${label}: ${step.name}: ${e.stack}`);
      }
    }
    await bus.close();
    console.log(`${label}: done`);
  }
  for (const client of Object.values(servers)) await client.close();
  end();
}
