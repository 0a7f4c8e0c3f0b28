// The tool TOOL_ID. One process serves one call: it reads one JSON object, and writes lines of JSON.
import {
  closeSync, existsSync, fsyncSync, mkdirSync, openSync, readFileSync, renameSync, writeFileSync,
} from "node:fs";

const write = (line) => process.stdout.write(JSON.stringify(line) + "\n");

// The folder of the variable stands for the service that the tool changes. fileOf returns the effect of a call in it.
const effects = process.env.EFFECTS;
const fileOf = (key) => `${effects}/${key}`;

// find returns the output that a run has committed under the key of its call.
const find = (key) => (existsSync(fileOf(key)) ? JSON.parse(readFileSync(fileOf(key), "utf8")) : undefined);

// commit commits the effect and the output under the key of the call: both or neither, also at a power cut.
function commit(key, output) {
  mkdirSync(effects, { recursive: true });
  writeFileSync(`${fileOf(key)}.new`, JSON.stringify(output));
  sync(`${fileOf(key)}.new`); // before the rename: otherwise a power cut may leave an empty file
  renameSync(`${fileOf(key)}.new`, fileOf(key));
  sync(effects);
}

// sync waits until a file or a folder is on the disk.
function sync(name) {
  const opened = openSync(name);
  fsyncSync(opened);
  closeSync(opened);
}

// run returns the last line of the answer.
function run(key, { name }) {
  if (name === "nobody") {
    // The manifest declares the error. The effect says whether the call has changed anything.
    const error = { code: "unknown_name", message: "there is nobody of that name", effect: "none" };
    return { type: "error", error };
  }
  let output = find(key); // of an earlier run
  if (output === undefined) {
    output = { text: `Hello ${name}` };
    commit(key, output);
  }
  return { type: "output", output };
}

// lookup returns what a run has committed. A lookup changes nothing.
function lookup(key) {
  const output = find(key);
  return output === undefined ? { type: "absent" } : { type: "output", output };
}

const call = JSON.parse(readFileSync(0, "utf8"));
write(call.op === "lookup" ? lookup(call.idempotency_key) : run(call.idempotency_key, call.input));
