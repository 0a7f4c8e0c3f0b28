// Package toolbustest runs a whole bus in a test: a NATS server, a dispatcher, an executor with the tools under test,
// and a client.
//
//	func TestGreet(t *testing.T) {
//		bus := toolbustest.Start(t, tools) // as the program makes them
//		resp, err := bus.Call(t.Context(), toolbus.Call{Tool: "greet", Input: []byte(`{"name":"Ada"}`)})
//		…
//	}
//
// [Start] takes less than 0.2 s. At the end of the test it stops all goroutines, removes all files and closes all
// ports. Tests with buses of their own may run in parallel. Checks, limits and deadlines are those of production. The
// bus is declared to sync every write, so that tests may call side-effectful tools.
//
// [Bus.CrashAfterRun] and [Bus.CrashBeforeRun] let the executor of a run die, so that a test sees what the lookup of a
// tool answers, or that a second run of an idempotent tool changes nothing.
package toolbustest
