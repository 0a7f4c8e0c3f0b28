package chaos

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"

	"github.com/seed-018f16cc/toolbus/admin"
	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/chaos/checker"
	"github.com/seed-018f16cc/toolbus/internal/chaos/effects"
	"github.com/seed-018f16cc/toolbus/internal/timer"
)

const (
	// sentenceEvery is the time of a run per actor whose credentials are revoked.
	sentenceEvery = 20 * time.Second
	// grace is how long such an actor makes calls before the revocation, and at least after it.
	grace = 3 * time.Second
	// pleaEvery is the interval of its calls. It is short, so that messages are in transit at any time.
	pleaEvery = 50 * time.Millisecond
)

// A revoked actor makes calls until it was refused enough times, or for patience at most. While no dispatcher runs,
// none refuses it.
const (
	enough   = 40
	patience = 30 * time.Second
)

// condemnedScene is the scene of those calls. They are not repeated at the end.
const condemnedScene = "condemned"

// condemned returns the number of actors whose credentials are revoked. Their callers come after the other callers.
func (o Options) condemned() int {
	if !o.Identity {
		return 0
	}
	return max(1, int(o.Duration/sentenceEvery))
}

// revocations revokes one actor after the other while it makes calls.
func (r *run) revocations(ctx context.Context) {
	n := r.condemned()
	for i := range n {
		at := r.driver.begun.Add(time.Duration(i+1) * r.Duration / time.Duration(n+1))
		if !timer.Sleep(ctx, time.Until(at)-grace) {
			return
		}
		r.sentence(ctx, callers+2*i)
	}
}

// sentence makes an actor call over its own connection and through a gateway connection, and revokes it meanwhile.
func (r *run) sentence(ctx context.Context, caller int) {
	var pleas sync.WaitGroup
	defer pleas.Wait()
	calling, stop := context.WithCancel(ctx)
	defer stop()
	var refused atomic.Int64
	for by := range 2 {
		pleas.Go(func() { r.driver.plead(ctx, calling, caller+by, &refused) })
	}
	timer.Sleep(ctx, grace)
	done, err := r.havoc.revoke(ctx, actorOf(caller))
	if err != nil {
		return // the run has ended
	}
	r.Tell(actorOf(caller) + " is revoked")
	r.mu.Lock()
	r.revoked = append(r.revoked, done)
	r.mu.Unlock()
	r.havoc.count(fault{what: Revoke})
	timer.Sleep(ctx, time.Second)
	refused.Store(0)
	for timer.Sleep(ctx, grace) && refused.Load() < enough && time.Since(done.At) < patience {
	}
}

// revoke retries until a dispatcher has revoked an actor.
func (h *havoc) revoke(ctx context.Context, actor string) (checker.Revocation, error) {
	err := h.order(ctx, func(ctx context.Context, c *admin.Client) error {
		_, err := c.RevokeTokens(ctx, envelope.RevokeRequest{Tenant: tenant, Actor: actor})
		return err
	})
	return checker.Revocation{Actor: actor, At: time.Now()}, err
}

// orderTime is the timeout of one request of the operator.
const orderTime = 2 * time.Second

// order repeats a request of the operator until it succeeds or ctx ends.
func (h *havoc) order(ctx context.Context, want func(context.Context, *admin.Client) error) error {
	r := timer.Backoff{Pause: 50 * time.Millisecond, MaxPause: time.Second, Try: orderTime}
	return r.Until(ctx, func(ctx context.Context) (bool, error) {
		return want(ctx, h.operator) == nil, nil
	})
}

// plead makes calls until calling ends, and counts the refusals with code A-AUTH-REVOKED.
func (d *driver) plead(ctx, calling context.Context, caller int, refused *atomic.Int64) {
	var all sync.WaitGroup
	defer all.Wait()
	specs := effects.Specs()
	for n := 0; timer.Sleep(calling, pleaEvery); n++ {
		p := play{
			scene: condemnedScene, spec: specs[n%len(specs)], key: fmt.Sprintf("condemned-%d-%06d", caller, n),
			input: effects.Input{N: int64(n), WorkMS: 50},
		}
		all.Go(func() {
			r := d.ask(ctx, &p, ask{caller: caller, callID: uuid.NewString(), timeout: grace, raw: n % 2}, p.scene, false)
			if r != nil && r.Error != nil && r.Error.Code == envelope.CodeRevoked {
				refused.Add(1)
			}
		})
	}
}
