package dispatcher

import (
	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/subjects"
)

// Lines returns how many keys the dispatcher keeps something of.
func (d *Dispatcher) Lines() int { return d.admission.Queues.Len() }

// Watching returns how many open attempts the dispatcher guards.
func (d *Dispatcher) Watching() int {
	open, _, _ := d.Deadlines.OpenAfter(envelope.LockKillPosition{}, 1<<30, subjects.Owner{})
	return len(open)
}
