// The tool TOOL_ID. One process serves one call: it reads one JSON object, and writes lines of JSON.
import { readFileSync } from "node:fs";

const write = (line) => process.stdout.write(JSON.stringify(line) + "\n");

// run returns the last line of the answer.
function run({ name }) {
  if (name === "nobody") {
    // The manifest declares the error. The effect says whether the call has changed anything.
    const error = { code: "unknown_name", message: "there is nobody of that name", effect: "none" };
    return { type: "error", error };
  }
  write({ type: "progress", data: { done: 1, total: 2 } });
  write({ type: "chunk", data: "Hello" });
  return { type: "output", output: { text: `Hello ${name}` } };
}

const call = JSON.parse(readFileSync(0, "utf8"));
write(run(call.input));
