package workqueue

import "github.com/nats-io/nats.go"

// delivery is one handing-out of a message by a consumer.
type delivery struct {
	origin
	consumer string
	counted  uint64 // by the consumer, over all its messages
}

// repeats knows the last deliveries that came over a connection. What lies between the server and this process may
// bring one twice; taken for a message of its own, the second would run what has run, or been handed back, already.
type repeats struct {
	known map[delivery]bool
	order [maxRepeats]delivery // a ring of what is known
	next  int
}

// maxRepeats bounds how many deliveries are remembered: far more than come in the time that one can be late.
const maxRepeats = 4096

// has reports whether the delivery has come before, and remembers it.
func (r *repeats) has(m *nats.MsgMetadata) bool {
	d := delivery{origin{m.Stream, m.Sequence.Stream}, m.Consumer, m.Sequence.Consumer}
	if r.known[d] {
		return true
	}
	if r.known == nil {
		r.known = make(map[delivery]bool, maxRepeats)
	}
	delete(r.known, r.order[r.next])
	r.known[d], r.order[r.next] = true, d
	r.next = (r.next + 1) % maxRepeats
	return false
}

// forget begins anew, as a server that comes again may with its counts.
func (r *repeats) forget() { *r = repeats{} }
