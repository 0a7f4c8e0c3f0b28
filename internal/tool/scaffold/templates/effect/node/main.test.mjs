// Run the tests with `node --test`.
import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { mkdtempSync, readdirSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, test } from "node:test";
import { fileURLToPath } from "node:url";

const program = fileURLToPath(new URL("main.mjs", import.meta.url));
const folder = mkdtempSync(join(tmpdir(), "tool-"));
after(() => rmSync(folder, { recursive: true }));

// answer serves one call as an executor does, and returns the last line of the answer.
function answer(name, op = "execute") {
  const input = JSON.stringify({ op, fn: "run", input: { name }, idempotency_key: "key1" });
  const done = spawnSync(process.execPath, [program], { input, env: { EFFECTS: folder }, encoding: "utf8" });
  assert.equal(done.status, 0, done.stderr);
  return JSON.parse(done.stdout.trim().split("\n").at(-1));
}

test("success", () => {
  const want = { type: "output", output: { text: "Hello Ada" } };
  assert.deepEqual(answer("Ada", "lookup"), { type: "absent" });
  assert.deepEqual(answer("Ada"), want);
  assert.deepEqual(answer("Ada"), want);
  assert.deepEqual(answer("Ada", "lookup"), want);
  assert.equal(readdirSync(folder).length, 1);
});

test("error", () => {
  assert.equal(answer("nobody").error.code, "unknown_name");
});
