// Package bus is Toolbus on NATS: the connection, the topology, the workers that pull, the
// follower that projects, the clock, and the client that agents use.
//
// [Dial] connects and refuses servers that are too old or take too small messages. [Ensure] creates or verifies the
// topology, which is data in topology.go. [Workers] pull work messages, as many as there are
// free slots. [Follower] reads the call log in order. [Client] makes calls; start there to
// use Toolbus from Go.
package bus
