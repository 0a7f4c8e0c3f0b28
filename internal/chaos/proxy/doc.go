// Package proxy is a TCP proxy before a NATS server that understands the client protocol well
// enough to drop, delay and duplicate single messages by what they are: requests, writes of the
// call log, their acknowledgements, work acks, answers. It never breaks the framing, so what its
// clients and the server see is a bad network and not a bad peer.
//
// A delayed message is overtaken by those behind it; everything else keeps its order. Choices
// come from a seeded generator per connection, but which message meets which choice depends on
// timing: a seed repeats the kind of trouble, not its exact course.
package proxy
