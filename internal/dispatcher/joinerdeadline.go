package dispatcher

import (
	"context"
	"time"

	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/call"
)

// keepJoinerDeadlines answers joiners at their own deadlines until ctx ends.
func (d *Dispatcher) keepJoinerDeadlines(ctx context.Context) {
	keep(ctx, d.joinerDeadlines.Wake, func() time.Duration {
		over, pause := d.joinerDeadlines.Next(d.Now())
		for _, l := range over {
			d.safely("the deadline of a joiner", func() { d.releaseJoiner(l) })
		}
		return pause
	})
}

// releaseJoiner sends a joiner, if it still waits at its deadline, the answer that its call goes on.
func (d *Dispatcher) releaseJoiner(l envelope.JoinerLeft) {
	now := call.At(d.Now())
	w, s, ok := d.leave(l, func(w waiter) bool { return w.due != 0 && w.due <= now })
	if ok { // not an outcome: the attempt is decided later
		e := envelope.NewError(envelope.CodeTimeout, "this caller's deadline has passed; the call goes on for the others")
		d.dismiss(w, s, l.Attempt, e.WithFix("ask again with the same key for the outcome").WithEffect(effectSoFar(s)))
	}
}
