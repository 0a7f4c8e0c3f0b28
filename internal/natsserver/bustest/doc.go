// Package bustest starts an embedded NATS server with the topology for tests, and writes events of calls directly into
// the call log.
package bustest
