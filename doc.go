// Package toolbus calls tools on a bus, makes tools from Go functions, and runs executors and dispatchers.
//
// # Calling
//
// [Connect] opens a connection, and [Conn.Client] returns a [Client]. It checks requests before it sends them, repeats
// a call only where that is safe, and checks outputs.
//
//	conn, err := toolbus.Connect(ctx, "", toolbus.Options{CredentialsFile: "me.token"})
//	client, err := conn.Client(toolbus.ClientOptions{})
//	resp, err := client.Call(ctx, toolbus.Call{Tool: "greet", Input: []byte(`{"name":"Ada"}`)})
//
// An operator makes the file, as does the user of a bus of toolbus dev: toolbus credentials issue --actor agent://me
// --out me.token. Tenant and actor of the client are those of the token.
//
// A nil error means success. Otherwise the error is usually an [Error]: one of the three other outcomes, a refusal of
// the bus, or no answer by the deadline. [CodeOf] and [EffectOf] read any error.
//
// Calls with the same [Call.Key] are one call: the second one joins the first one or replays its outcome. Without a
// key each [Client.Call] is a call of its own. The response has the key, and [Error.Key] or [KeyOf] returns it for an
// error: the same call with that key asks again after a lost answer, and runs again after a [RetryableError].
//
// # Tools
//
// A tool is a [Tool], which describes it, with one or more Go functions. [Add] makes JSON Schemas from the types of a
// function.
//
//	tools := toolbus.NewToolset()
//	err := toolbus.Add(tools, toolbus.Tool{ID: "greet", Class: toolbus.Pure},
//		func(ctx context.Context, run *toolbus.Run, in Person) (Greeting, error) {
//			return Greeting{Text: "hello " + in.Name}, nil
//		})
//
// The [EffectClass] is the most important field: it decides whether a call may run again after its executor has died. A
// [ToolError] is a failure that the tool declares. A [Run] holds the facts of one run, and sends chunks and progress to
// the caller.
//
// # Running
//
// An [Executor] runs tools, and a [Dispatcher] admits calls. Their Run methods serve until the context ends, and return
// when the running calls have ended. A dispatcher reads its [Toolset] once, so start a new dispatcher for a new tool.
// One process may be both; see [Serve].
//
// [ToolMain] makes a program of its own from the same functions. Any executor runs such a program by its manifest, for
// example that of `toolbus dev`. [Toolset.AddFolder] adds folders of such programs, in any language. Package
// toolbustest starts a whole bus in a test.
//
// Package admin is for operators and auditors: tokens, keys, the audit log, dead letters, health checks.
//
// # Memory
//
// This package does not change the settings of the garbage collector. Most memory of a call becomes garbage as soon as
// the call ends, so a program with executors, dispatchers or a busy [Client] uses less CPU time with a higher GOGC. If
// the live heap is at most about 50 MB, call [runtime/debug.SetGCPercent] with 400 in main; the heap then grows to five
// times the live heap. With a larger live heap, use a lower value. Limit the growth with
// [runtime/debug.SetMemoryLimit], well above the largest live heap: near that size or below, the runtime spends up to
// half of the CPU time on collection.
package toolbus
