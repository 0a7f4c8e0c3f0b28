// Package proxy is a TCP proxy for a NATS server. It parses the client protocol, and can drop, delay and duplicate
// single messages by kind: requests, writes of the call log, their acknowledgements, work acks, answers. It never
// breaks the framing, so client and server see a bad network, not an invalid peer.
//
// Later messages overtake a delayed one. All others keep their order. Random choices come from a seeded generator per
// connection, but timing determines which message gets which choice. So a seed repeats the kind of trouble, not its
// exact course.
package proxy
