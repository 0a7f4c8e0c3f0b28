package chaos

import (
	"context"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/seed-018f16cc/toolbus/internal/timer"
)

// exchange replaces dispatchers and executors one by one, in random order: by the newer build, then by the older and by
// the newer again, until half of the run is over. One dispatcher stays of the newer build.
func (h *havoc) exchange(ctx context.Context, o Options) {
	random := rand.New(rand.NewPCG(o.Seed, 6))
	all := slices.Concat(dispatchers[1:], executors)
	h.replaceAll(ctx, random, all, o.Binary, "newer")
	for again := true; again && ctx.Err() == nil; again = time.Since(h.begun) < o.Duration/2 {
		h.replaceAll(ctx, random, all, o.OldBinary, "older")
		h.replaceAll(ctx, random, all, o.Binary, "newer")
	}
}

// between is the longest pause before the next process is replaced.
const between = time.Second

func (h *havoc) replaceAll(ctx context.Context, random *rand.Rand, all []string, build, what string) {
	for _, i := range random.Perm(len(all)) {
		if !timer.Sleep(ctx, time.Duration(random.Int64N(int64(between)))) {
			return
		}
		h.tell(all[i] + " is replaced by the " + what + " build")
		h.insist(ctx, all[i], order{what: Restart, build: build})
		h.count(fault{what: Replace})
	}
}
