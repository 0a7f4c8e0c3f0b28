package dispatcher

import (
	"time"

	"github.com/seed-018f16cc/toolbus/call"
	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/question"
)

// partAt tells a joiner at its own deadline, in bus time, that its call goes on: it comes before that of the attempt.
func (d *Dispatcher) partAt(due time.Time, l question.Leave) {
	time.AfterFunc(due.Sub(d.Now()), func() {
		switch {
		case d.over.Load():
		case due.After(d.Now()): // bus time was measured anew meanwhile
			d.partAt(due, l)
		default:
			d.safely("the deadline of a joiner", func() { d.part(l) })
		}
	})
}

// part tells a joiner at its deadline that its call goes on, if it still waits.
func (d *Dispatcher) part(l question.Leave) {
	now := call.At(d.Now())
	w, s, ok := d.leave(l, func(w waiter) bool { return w.due != 0 && w.due <= now })
	if ok { // that is no outcome: the attempt has one of its own, later
		e := envelope.NewError(envelope.CodeTimeout, "this caller's deadline has passed; the call goes on for the others")
		d.dismiss(w, s, l.Attempt, e.WithFix("ask again with the same key for the outcome").WithEffect(effectSoFar(s)))
	}
}
