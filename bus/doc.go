// Package bus connects to NATS, creates and checks the topology, measures bus time, publishes with acknowledgement and
// reads streams.
//
// [Dial] connects and refuses servers that are too old or take too small messages. [Ensure] creates or verifies the
// topology, which is data in topology.go. [Publish] waits for the acknowledgement of the server; over a connection made
// with [Shared] all messages share one inbox and one timer. [ErrorCode] and its siblings read the errors of
// JetStream, whose numbers stay the same from one version of the server to the next. Connections write many messages
// with one system call while they come in bursts (docs/decisions/0029-writes-are-coalesced.md). Start reading at
// dial.go and topology.go.
package bus
