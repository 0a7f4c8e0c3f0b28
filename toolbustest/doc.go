// Package toolbustest runs a whole bus in a test: a NATS server, a dispatcher, an executor with the tools under test,
// and a client.
//
//	func TestGreet(t *testing.T) {
//		bus := toolbustest.Start(t, tools) // as the program makes them
//		resp, err := bus.Call(t.Context(), toolbus.Call{Tool: "greet", Input: []byte(`{"name":"Ada"}`)})
//		…
//	}
//
// It takes less than a fifth of a second, and nothing of it outlives the test: no goroutine, no file, no port. Tests
// with buses of their own may run in parallel. Every check, limit and deadline is that of production, and the server
// counts as one that syncs every write, so that side-effectful tools may be called. Start with [Start].
package toolbustest
