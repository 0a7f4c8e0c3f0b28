package chaos

import (
	"context"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/seed-018f16cc/toolbus/admin"
	"github.com/seed-018f16cc/toolbus/internal/chaos/checker"
	"github.com/seed-018f16cc/toolbus/internal/deployment/deploymenttest"
	"github.com/seed-018f16cc/toolbus/internal/timer"
)

// mischief is a kind of fault with tokens.
type mischief struct {
	lasts time.Duration
	cause func(ctx context.Context, h *havoc)
}

// mischiefs returns all kinds.
func mischiefs() []mischief {
	return []mischief{
		{0, rotateKeys},
		{reconnecting, reconnectAll},
		{expiry, expireAll},
	}
}

const (
	// reconnecting is how long no dispatcher answers the auth callout.
	reconnecting = 2 * time.Second
	// expiry is how long no dispatcher renews tokens: longer than their lifetime.
	expiry = deploymenttest.TokenLife + 2*time.Second
	// onItsWay is how long the delivery of a message may take after the end of a fault that delayed it.
	onItsWay = time.Second
)

// strangers injects faults of every kind, in an order that the seed determines, repeatedly.
func (h *havoc) strangers(ctx context.Context, o Options) {
	random := rand.New(rand.NewPCG(o.Seed, 7))
	for {
		began := false
		all := mischiefs()
		for _, i := range random.Perm(len(all)) {
			timer.Sleep(ctx, 3*time.Second+time.Duration(random.Int64N(int64(6*time.Second))))
			if m := all[i]; ctx.Err() == nil && time.Since(h.begun)+m.lasts <= o.Duration-time.Second {
				m.cause(ctx, h)
				began = true
			}
		}
		if !began {
			return
		}
	}
}

func rotateKeys(ctx context.Context, h *havoc) {
	err := h.order(ctx, func(ctx context.Context, c *admin.Client) error {
		_, err := c.RotateKeys(ctx, false)
		return err
	})
	if err == nil {
		h.tell("keys are rotated")
		h.count(fault{what: Rotate})
	}
}

// reconnectAll cuts all connections while no dispatcher answers the auth callout.
func reconnectAll(ctx context.Context, h *havoc) {
	h.tell("dispatchers killed, and all connections cut")
	h.leave(ctx, reconnecting, func() {
		for _, name := range lines {
			h.cut(name)
		}
		for _, name := range slices.Concat(executors, swifts) {
			h.cut(name)
		}
	})
	h.count(fault{what: Strand})
}

// expireAll keeps the dispatchers down until every token has expired.
func expireAll(ctx context.Context, h *havoc) {
	h.tell("dispatchers killed until every token has expired")
	h.leave(ctx, expiry, func() {})
	h.count(fault{what: Expire})
}

// leave kills all dispatchers for the time lasts, and calls then meanwhile.
func (h *havoc) leave(ctx context.Context, lasts time.Duration, then func()) {
	var all sync.WaitGroup
	from := time.Now()
	for _, name := range dispatchers {
		all.Go(func() { h.insist(ctx, name, order{what: Kill, wait: lasts}) })
	}
	timer.Sleep(ctx, lasts/4)
	then()
	all.Wait()
	h.holdUp(from)
}

func (h *havoc) cut(name string) {
	for _, p := range h.cluster.proxies[name] {
		p.Cut()
	}
}

// holdUp records that dispatchers, servers or messages to them may have been delayed from then until now.
func (h *havoc) holdUp(from time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.held = append(h.held, checker.Span{From: from, To: time.Now().Add(onItsWay)})
}
