package chaos

import (
	"context"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/seed-018f16cc/toolbus/internal/timer"
	"github.com/seed-018f16cc/toolbus/subjects"
)

// piece is a kind of fault of several servers.
type piece struct {
	name  string
	says  string
	least time.Duration // shortest duration
	cause func(ctx context.Context, h *havoc, d *dice)
}

// pieces returns all kinds.
func pieces() []piece {
	return []piece{
		{"leader", "leader of the call log killed", 0, killLeader},
		{"rolling", "servers restarted one after the other", 0, restartAll},
		{"freeze", "server frozen together with an executor", frozen, freezeServer},
		{"all", "all servers killed at once", 0, killAll},
	}
}

// frozen is how long a server is frozen: long enough for all others to notice, and longer than the permitted lag of the
// audit record.
const frozen = 20 * time.Second

// Pieces returns the names of the faults of several servers.
func Pieces() (names []string) {
	for _, p := range pieces() {
		names = append(names, p.name)
	}
	return names
}

// dice draws the faults of the servers.
type dice struct {
	*rand.Rand
	partitions int
}

func (d *dice) within(most time.Duration) time.Duration { return time.Duration(d.Int64N(int64(most))) }
func (d *dice) executor() string                        { return executors[d.IntN(len(executors))] }

// happening is a fault of the servers that was injected.
type happening struct {
	what     string
	from, to time.Time // to is when all streams had all replicas again
}

// servers injects faults of every kind, in an order that the seed determines, repeatedly. It waits until the servers
// have recovered from the fault before.
func (h *havoc) servers(ctx context.Context, o Options) {
	d := &dice{rand.New(rand.NewPCG(o.Seed, 5)), o.Partitions}
	some := slices.DeleteFunc(pieces(), func(p piece) bool { return o.Fault != "" && p.name != o.Fault })
	for {
		began := false
		for _, i := range d.Perm(len(some)) {
			h.whole(ctx)
			timer.Sleep(ctx, time.Second+d.within(3*time.Second))
			if p := some[i]; ctx.Err() == nil && time.Since(h.begun)+p.least <= o.Duration-time.Second {
				h.piece(ctx, p, d)
				began = true
			}
		}
		if !began {
			return
		}
	}
}

func (h *havoc) piece(ctx context.Context, p piece, d *dice) {
	h.tell(p.says)
	happened := happening{what: p.says, from: time.Now()}
	p.cause(ctx, h, d)
	h.whole(ctx)
	h.holdUp(happened.from)
	happened.to = time.Now()
	h.mu.Lock()
	defer h.mu.Unlock()
	h.counts[p.says]++
	h.happened = append(h.happened, happened)
}

// wholeTime is the longest wait for all replicas.
const wholeTime = time.Minute

// whole waits until every stream has all replicas.
func (h *havoc) whole(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, wholeTime)
	defer cancel()
	for now := time.Now(); timer.Sleep(ctx, lookEvery) && !h.watch.whole(now, len(h.cluster.servers)); {
	}
}

// insist injects a fault. It waits while another fault of the process is in progress.
func (h *havoc) insist(ctx context.Context, name string, o order) {
	for !h.cluster.nodes[name].do(ctx, o) && timer.Sleep(ctx, 10*time.Millisecond) {
	}
}

func killLeader(ctx context.Context, h *havoc, d *dice) {
	part, lasts := subjects.Partition(d.IntN(d.partitions)), d.within(2*time.Second)
	if leader := h.watch.leader(part.Stream()); leader != "" {
		h.insist(ctx, leader, order{what: Kill, wait: lasts})
	}
}

func restartAll(ctx context.Context, h *havoc, d *dice) {
	for _, i := range d.Perm(len(h.cluster.servers)) {
		h.whole(ctx)
		h.insist(ctx, h.cluster.servers[i].name, order{what: Restart, wait: d.within(time.Second)})
	}
}

func freezeServer(ctx context.Context, h *havoc, d *dice) {
	name, executor := h.cluster.servers[d.IntN(len(h.cluster.servers))].name, d.executor()
	if leader := h.watch.leader(subjects.Partition(0).Stream()); leader != "" && d.IntN(2) == 0 {
		name = leader
	}
	var both sync.WaitGroup
	both.Go(func() { h.insist(ctx, name, order{what: Freeze, wait: frozen}) })
	both.Go(func() { h.insist(ctx, executor, order{what: Freeze, wait: frozen}) })
	both.Wait()
}

func killAll(ctx context.Context, h *havoc, d *dice) {
	var all sync.WaitGroup
	for _, s := range h.cluster.servers {
		lasts := d.within(2 * time.Second)
		all.Go(func() { h.insist(ctx, s.name, order{what: Kill, wait: lasts}) })
	}
	all.Wait()
}
