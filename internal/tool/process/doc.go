// Package process runs tools that are programs: JSON in, NDJSON out, one process per call.
//
// # Protocol
//
// A tool gets one JSON object on standard input, and then its end:
//
//	{"op":"execute"|"lookup","call_id":…,"tool_id":…,"tool_version":…,"fn":…,"input":{…},
//	 "context":{…},"idempotency_key":…,"attempt":1,"fence":123,"deadline_unix_ms":…,"dry_run":false}
//
// idempotency_key is the id of the call: 32 lower-case letters and digits, the same in every attempt and run of
// the call, and in no other call of any tenant, actor, tool or function. (The key that the caller gave is part of
// what it is made of, and is not told: two actors may use the same one.) It is the idempotency key for whatever
// the tool calls in turn, and what its effect is to be committed under, so that a lookup finds this call's effect
// and nobody else's. fence grows with every run of the call.
//
// The deadline is by the clock of the tool's host. The tool writes one JSON object per line on standard
// output. While it runs, any number of
//
//	{"type":"chunk"|"progress"|"log","data":<any JSON>}
//
// which reach callers if the manifest declares capabilities.streaming; and last, exactly once, one of
//
//	{"type":"output","output":<any JSON>,"side_effects":[{…}],"warnings":["…"]}
//	{"type":"error","error":{"code":"fetch_failed","message":"…","details":{…},
//	  "effect":"none|applied|unknown","retry_after_ms":500}}
//	{"type":"absent"}        only for op lookup: nothing is committed under this key
//
// and then exits with status 0 (after an error line any status will do). No line is longer than
// 1 MiB, and all of standard output together no longer than the manifest's output limit.
// Standard error is free text; its beginning and end are kept for failures.
//
// The details of an error are the tool's own but for six names that Toolbus gives itself: effect,
// http_status, retry_after_ms, stderr, tool_code and violations. A tool's details of these names are
// left out. http_status is what the manifest declares for the error; what some other server answered
// goes by another name, such as upstream_status.
//
// # Surroundings
//
// The command is never given to a shell. Relative to the tool's folder are a command with a
// slash and the working directory. The environment holds PATH and LANG, what the manifest's
// endpoint.env sets, and what capabilities.env names and the executor has; nothing else.
//
// # The end of a run
//
// Every run has a supervisor (package supervisor), so that it ends as a whole: daemons that the
// tool leaves are killed when it exits. When the context of a run ends, the tool's process group
// gets SIGTERM, and after the grace everything is killed; what the tool still says about its
// effect in the grace is kept, also where nobody takes its chunks any more. When the executor
// dies, everything is killed. When it is frozen, the supervisor ends the run in the same way, 50 ms after its
// deadline: nothing of a tool goes on for longer than that and the grace. Execute returns when nothing is left.
// Tools gain no privileges by set-user-id programs, since those would be beyond the reach of a supervisor's signals.
//
// A statement counts when the tool has exited after it: a tool that writes its output and then
// does not end is ended by the context like any other.
package process
