// Package toolbus is the front door of Toolbus: it calls tools on a bus, makes tools of Go functions, and runs them.
//
// # Calling
//
// [Connect] opens a connection, and [Conn.Client] makes a [Client], which keeps the duties of a caller: it checks what
// it sends, tries again what may be tried again, and checks what it gets.
//
//	conn, err := toolbus.Connect(ctx, "", toolbus.Options{})
//	client, err := conn.Client(toolbus.ClientOptions{Actor: "agent://me"})
//	resp, err := client.Call(ctx, toolbus.Call{Tool: "greet", Input: []byte(`{"name":"Ada"}`)})
//
// A nil error means success. Every other end of a call is an [Error]: one of the three other outcomes, what the bus
// refused, or that nobody answered by the deadline. [CodeOf] and [EffectOf] read any error.
//
// Calls with the same [Call.Key] are one call: the second one joins the first one or replays its success. Without a
// key each [Client.Call] is a call of its own. The response has the key, and [Error.Key] or [KeyOf] returns it for an
// error: the same call with that key asks again after a lost answer, and runs again after a [RetryableError].
//
// # Tools
//
// A tool is a Go function, and a [Tool] that says what it is. [Add] makes schemas of the function's types.
//
//	tools := toolbus.NewToolset()
//	err := toolbus.Add(tools, toolbus.Tool{ID: "greet", Class: toolbus.Pure},
//		func(ctx context.Context, run *toolbus.Run, in Person) (Greeting, error) {
//			return Greeting{Text: "hello " + in.Name}, nil
//		})
//
// The [EffectClass] is what matters most: it says what may be done with a call whose executor has died. A [ToolError]
// is a failure that the tool declares. [Run] is what a run is told, and how it tells of its progress.
//
// # Running
//
// [Conn.Executor] runs tools, and [Conn.Dispatcher] admits calls of them; each Run goes on until its context ends, and
// returns when the calls in hand have ended. Dispatchers learn of tools when they are made, so that a new tool needs
// new ones; one process may be both, with the same [Toolset].
//
// The same functions are a program of their own with [ToolMain], which any executor runs by its manifest, such as that
// of `toolbus dev`: [Toolset.AddFolder] adds folders of such programs, in any language. In a test, package toolbustest
// has a whole bus with the tools ready in an instant.
//
// Package admin has the calls of operators and auditors: tokens, keys, the audit log, dead letters, health checks.
//
// # Memory
//
// This package leaves the garbage collector of the program as it is. Nearly all memory that calls take is soon garbage,
// so a program with executors, dispatchers or a busy [Client] spends less CPU time with a higher GOGC. Call
// [runtime/debug.SetGCPercent] with 400 in main if at most some 50 MB are alive, and less if there are more: the heap
// grows to five times that size. Limit that by [runtime/debug.SetMemoryLimit], well above the memory that is alive at
// the most: with a limit near that or below, the runtime spends up to half of the CPU time on collecting.
package toolbus
