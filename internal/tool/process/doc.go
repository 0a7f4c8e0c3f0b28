// Package process runs tools that are programs. It starts one process per call, which reads JSON and writes NDJSON.
//
// # Protocol
//
// A tool reads one JSON object from standard input until the end of the file:
//
//	{"op":"execute"|"lookup","call_id":…,"tool_id":…,"tool_version":…,"fn":…,"input":{…},
//	 "digest":"sha256:…","context":{…},"idempotency_key":…,"attempt":1,"fence":123,"deadline_unix_ms":…,
//	 "dry_run":false,"traceparent":"00-…-…-01"}
//
// A program must ignore members that it does not know. The member digest is the build digest of the tool. The member
// context holds the members of the request's context that the manifest lists in context, by default no member. It is
// absent if it would be empty. The member traceparent is the W3C traceparent of this run, the parent of the spans that
// the tool makes.
//
// idempotency_key is the id of the call: 32 lower-case letters and digits, the same in every attempt and run of the
// call, and different for every other call of any tenant, actor, tool or function. It is derived from the caller's key,
// which the tool does not get, because two actors may use the same key. The tool commits its effect under
// idempotency_key, so that a lookup finds the effect of this call only, and uses it as the key for services that it
// calls. fence grows with every run of the call. A lookup has the fence of the run that it is asked about.
//
// deadline_unix_ms is a time of the clock of the tool's host. The tool writes one JSON object per line to standard
// output. While it runs, it may write any number of
//
//	{"type":"chunk"|"progress"|"log","data":<any JSON>}
//
// which reach callers if the manifest declares capabilities.streaming, and what it reports of itself:
//
//	{"type":"metric","name":…,"value":<number>,"kind":"counter"|"histogram"}
//	{"type":"attribute","name":…,"value":<number or text>}
//	{"type":"event","name":…}
//
// which are exported if the manifest declares the name in metrics, trace_attributes or event_names. Others are dropped:
// no such line ends the call. At the end it writes exactly one of
//
//	{"type":"output","output":<any JSON>,"side_effects":[{…}],"warnings":["…"]}
//	{"type":"error","error":{"code":"fetch_failed","message":"…","details":{…},
//	  "effect":"none|applied|unknown","retry_after_ms":500}}
//	{"type":"absent"}        only for op lookup: nothing is committed under this key
//
// This last line is the terminal line. Then the tool exits with status 0; after an error line any status is valid. All
// of standard output together has at most limits.output_bytes_max bytes. Blank lines and byte order marks are skipped.
// Standard error is free text. The executor keeps its beginning and end, and reports them when the run fails. If its
// last line begins with "error: ", what follows is the message of that failure.
//
// A result is not lost after its effect. Values that I-JSON cannot represent are replaced, with a warning, as
// ijson.Mend describes: integers beyond 2^53 become strings, NaN becomes null. If an output line cannot be read at all,
// the effect of the error is applied.
//
// The details of an error belong to the tool, except for the members that Toolbus defines: attempt, call_id, effect,
// http_status, owner, retry_after_ms, stderr, tool_code, tool_id, tool_result, tool_result_ref, tool_version, trace_id,
// violations and violations_truncated. If a tool sends a member with such a name, it is left out. http_status is the
// status that the manifest declares for the error. For the status of an upstream server, use another name, such as
// upstream_status.
//
// # Surroundings
//
// The command is not run by a shell. A command that contains a slash, and the working directory, are relative to the
// tool's folder. The environment holds only PATH, LANG, the variables that endpoint.env of the manifest sets, those
// that capabilities.env names and the executor has, and TRACEPARENT, the W3C traceparent of the run.
//
// Each run opens the program, and compares the file with the one whose digest is recorded. A binary in the folder of
// the tool is executed by that descriptor, so that no other file is run if the path changes. Programs find their path
// in /proc/self/exe; the name of their process in ps -o comm is 4. A script is executed by its path, which its
// interpreter opens.
//
// # The end of a run
//
// Every run has a supervisor (package supervisor), which ends all processes of the run: it kills daemons that the tool
// leaves when it exits. When a run must end, the tool's process group gets SIGTERM, and after the grace the supervisor
// kills all processes. That is deadline_unix_ms: the grace and 100 ms before the deadline of the call, but at most an
// eighth of the time of the run before it. So a terminal line that the tool writes during the grace still counts: its
// effect is that of the outcome. A kill or the end of the context ends a run in the same way. When the executor dies,
// the supervisor kills all processes. When the executor is frozen, the supervisor ends the run in the same way 50 ms
// after its deadline. Execute returns when no process is left. Tools cannot gain privileges with set-user-id programs,
// because a supervisor could not kill those. They cannot signal, trace or read processes outside of the run, as far as
// the kernel has Landlock.
//
// A terminal line counts only if the tool exits after it. If a tool writes its output and does not exit, it is ended
// with its context.
package process
