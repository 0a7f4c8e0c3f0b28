// Package app is the only place where the parts of Toolbus meet: it connects to the bus, builds
// a dispatcher or an executor out of the pure cores and the NATS adapters, and runs them with
// everything they need around them.
//
// A tour, from the leaves: envelope (what travels), subjects (where), call (the protocol as pure
// functions), settle (deciding), tool (what a tool is), audit (what auditors are told); bus, kv,
// streaming, record and work put these on NATS; internal/tool/process and internal/tool/native run tools; dispatcher
// and executor are the two halves of a call. Here, [Open] opens the bus, [RunDispatcher] and [RunExecutor] are the two
// processes, and each says in which order it shuts down.
package app
