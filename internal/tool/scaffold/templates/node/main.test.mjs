// Run the tests with `node --test`.
import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { test } from "node:test";
import { fileURLToPath } from "node:url";

const program = fileURLToPath(new URL("main.mjs", import.meta.url));

// answer serves one call as an executor does, and returns the lines of the answer.
function answer(name) {
  const call = { op: "execute", fn: "run", input: { name } };
  const done = spawnSync(process.execPath, [program], { input: JSON.stringify(call), encoding: "utf8" });
  assert.equal(done.status, 0, done.stderr);
  return done.stdout.trim().split("\n").map((line) => JSON.parse(line));
}

test("success", () => {
  assert.deepEqual(answer("Ada").at(-1), { type: "output", output: { text: "Hello Ada" } });
});

test("error", () => {
  assert.equal(answer("nobody").at(-1).error.code, "unknown_name");
});
