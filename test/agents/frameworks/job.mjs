// The job of an agent, as job.py reads it.

import { readFileSync } from "node:fs";

export const job = JSON.parse(readFileSync(process.argv[2], "utf-8"));
export const message = JSON.stringify(job.plan);
export const timeout = 150_000; // milliseconds, longer than a server takes to start

// done ends the agent with what the model said last.
export function done(text) {
  console.log(`final: ${text}`);
  process.exit(0);
}
