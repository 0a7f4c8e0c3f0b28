package admin

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/seed-018f16cc/toolbus"
	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/operation"
	"github.com/seed-018f16cc/toolbus/internal/rpc"
	"github.com/seed-018f16cc/toolbus/internal/timer"
)

// Lock sets a safety lock on all calls, those of a tool, or those in a lane. Within 1 s, no
// dispatcher admits a call that it covers, and no executor starts one. A lock of the same target is replaced. Without
// a deadline of ctx it tries for 20 s. If another operator changes the lock of the target meanwhile, the error has
// [envelope.CodeChanged]. After any other error that is no refusal, it is not known whether the lock is in force.
func (c *Client) Lock(ctx context.Context, r envelope.LockRequest) (envelope.LocksResponse, error) {
	return c.changeLocks(ctx, operation.Lock, r)
}

// Unlock clears the safety lock of a target. Within 1 s, dispatchers admit calls that no other lock covers. Its errors
// are those of [Client.Lock].
func (c *Client) Unlock(ctx context.Context, r envelope.LockRequest) (envelope.LocksResponse, error) {
	return c.changeLocks(ctx, operation.Unlock, r)
}

// changeLocks sends a request about the locks that expects them to be as they were when it looked. So a copy of it
// that a dispatcher carries out late undoes nothing newer. If only locks of other targets have changed, it tries
// again.
func (c *Client) changeLocks(
	ctx context.Context, op operation.Operation[envelope.LockRequest, envelope.LocksResponse], r envelope.LockRequest,
) (a envelope.LocksResponse, err error) {
	ctx, cancel := urgently(ctx)
	defer cancel()
	before, err := ask(ctx, c, operation.Locks, struct{}{})
	for err == nil {
		r.Expect = before.Revision
		if a, err = ask(ctx, c, op, r); toolbus.CodeOf(err) != envelope.CodeChanged {
			return a, unsettled(err, "`toolbus lock` lists the locks in force")
		}
		moved := err
		now, unknown := ask(ctx, c, operation.Locks, struct{}{})
		if err = unknown; err == nil && now.Lock(r.LockTarget) != before.Lock(r.LockTarget) {
			return now, moved
		}
		before = now
	}
	return a, err
}

// urgent is how long a command of an operator is tried if its context has no deadline.
const urgent = 20 * time.Second

// unsettled adds to the error of a change without an answer that it may have taken effect, and how to find out.
func unsettled(err error, how string) error {
	if err == nil || toolbus.CodeOf(err) != "" {
		return err
	}
	return fmt.Errorf("it is not known whether the change took effect; %s: %w", how, err)
}

func urgently(ctx context.Context) (context.Context, context.CancelFunc) {
	if _, ok := ctx.Deadline(); ok {
		return context.WithCancel(ctx)
	}
	return context.WithTimeout(ctx, urgent)
}

// Locks returns the safety locks in force, oldest first.
func (c *Client) Locks(ctx context.Context) ([]envelope.Lock, error) {
	a, err := ask(ctx, c, operation.Locks, struct{}{})
	return a.Locks, err
}

// lockTakesEffect is the time after which no executor starts a call that a lock covers.
const lockTakesEffect = time.Second

// KillLocked ends the running calls that the safety lock of a target covers, and calls each for each one that it has
// ended. It takes at least 1 s: until then executors may start further ones. After an error it may have ended some,
// and can be called again.
func (c *Client) KillLocked(ctx context.Context, t envelope.LockTarget, each func(envelope.KilledCall)) error {
	for since := time.Now(); ; {
		began := time.Now()
		if err := c.killPages(ctx, t, each); err != nil {
			return err
		}
		if began.Sub(since) >= lockTakesEffect {
			return nil
		}
		if !timer.Sleep(ctx, lockTakesEffect-time.Since(since)) {
			return ctx.Err()
		}
	}
}

// killPages ends the calls of one look at all open calls.
func (c *Client) killPages(ctx context.Context, t envelope.LockTarget, each func(envelope.KilledCall)) error {
	q := envelope.LockKillRequest{LockTarget: t}
	for {
		a, err := ask(ctx, c, operation.LockKill, q)
		if err != nil {
			return err
		}
		for _, k := range a.Killed {
			each(k)
		}
		if !a.More {
			return nil
		}
		q.After = a.Next
	}
}

// diagnoseLocks returns the check of the safety locks: calls that a forgotten one covers are refused. It returns nil if
// this user may not ask, or no dispatcher answers.
func diagnoseLocks(ctx context.Context, inbox *rpc.Inbox) []Check {
	ctx, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	a, refusal, err := operation.Locks.Ask(ctx, inbox, struct{}{})
	switch {
	case refusal != nil || err != nil:
		return nil
	case len(a.Locks) == 0:
		return []Check{envelope.Well("safety locks", "none is set")}
	}
	var targets []string
	for _, l := range a.Locks[:min(len(a.Locks), maxDifferences)] {
		targets = append(targets, l.LockTarget.String())
	}
	if len(a.Locks) > maxDifferences {
		targets = append(targets, "…")
	}
	return []Check{envelope.Doubtful("safety locks",
		fmt.Sprintf("%d set, which refuse calls: %s", len(a.Locks), strings.Join(targets, ", ")),
		fmt.Sprintf("`toolbus lock` lists who set them and why; `toolbus unlock %s --reason TEXT` clears the first",
			a.Locks[0].Flag()))}
}
