package chaos

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/seed-018f16cc/toolbus/admin"
	"github.com/seed-018f16cc/toolbus/internal/chaos/checker"
	"github.com/seed-018f16cc/toolbus/internal/chaos/proxy"
	"github.com/seed-018f16cc/toolbus/internal/timer"
)

// Action is a kind of fault.
type Action string

// Kinds of faults.
const (
	Kill    Action = "kill"    // SIGKILL, and a start after some time
	Freeze  Action = "freeze"  // SIGSTOP, and SIGCONT after some time
	Restart Action = "restart" // SIGTERM, and a start after some time
	Replace Action = "replace" // Restart as another build
	Cut     Action = "cut"     // close the connections to the servers
	Storm   Action = "storm"   // lose, delay and double messages
	// Not with an older build.
	Push     Action = "push a policy"
	CloseRun Action = "close a run"
	Lock     Action = "lock a tool"
	// Only with Options.Identity.
	Rotate Action = "rotate keys"
	Revoke Action = "revoke"
	Expire Action = "expire all tokens" // kill the dispatchers until all tokens have expired
	Strand Action = "strand"            // cut all connections while no dispatcher answers the auth callout
)

// fault is one planned fault.
type fault struct {
	at    time.Duration
	what  Action
	whom  string // name of a node or line; "" is all lines
	lasts time.Duration
	kind  string // of a storm
}

func (f fault) String() string {
	whom := f.whom
	if whom == "" {
		whom = "all lines"
	}
	if f.what == Storm {
		return fmt.Sprintf("%s storm on %s for %s", f.kind, whom, f.lasts.Round(10*time.Millisecond))
	}
	return fmt.Sprintf("%s %s for %s", f.what, whom, f.lasts.Round(10*time.Millisecond))
}

// planFaults returns the faults of a run in order of time. It includes faults of a single server. Faults of several
// servers have their own plan.
func planFaults(o Options) []fault {
	seed, duration := o.Seed, o.Duration
	nodes := slices.Concat(dispatchers, o.workers(), o.gateways())
	all := slices.Concat(nodes, lines)
	if o.Servers == 1 {
		nodes = append(nodes, server)
	}
	random := rand.New(rand.NewPCG(seed, 3))
	var plan []fault
	at := time.Second
	for {
		at += 200*time.Millisecond + time.Duration(random.ExpFloat64()*float64(1200*time.Millisecond))
		if at > duration-time.Second {
			return plan
		}
		plan = append(plan, drawFault(random, at, nodes, all))
	}
}

func drawFault(random *rand.Rand, at time.Duration, nodes, all []string) fault {
	within := func(most time.Duration) time.Duration { return time.Duration(random.Int64N(int64(most))) }
	f := fault{at: at, whom: nodes[random.IntN(len(nodes))]}
	switch n := random.IntN(100); {
	case n < 25:
		f.what, f.lasts = Kill, within(2*time.Second)
	case n < 50:
		f.what, f.lasts = Freeze, 100*time.Millisecond+within(3*lease)
	case n < 60:
		f.what, f.lasts = Restart, within(time.Second)
	case n < 75:
		f.what, f.whom = Cut, all[random.IntN(len(all))]
	default:
		f.what, f.lasts = Storm, 500*time.Millisecond+within(4*time.Second)
		f.kind = proxy.Storms()[random.IntN(len(proxy.Storms()))]
		if f.whom = all[random.IntN(len(all))]; random.IntN(3) == 0 {
			f.whom = ""
		}
	}
	return f
}

// havoc injects the faults.
type havoc struct {
	cluster  *cluster
	tell     func(string)
	begun    time.Time
	watch    *watch
	weather  proxy.Trouble // background trouble of all proxies
	operator *admin.Client

	mu       sync.Mutex
	counts   map[string]int
	storms   map[string]int // number of active storms by line
	happened []happening
	held     []checker.Span
}

func (h *havoc) run(ctx context.Context, o Options) {
	var wg sync.WaitGroup
	defer wg.Wait()
	if o.Servers > 1 {
		wg.Go(func() { h.servers(ctx, o) })
	}
	if o.OldBinary != "" {
		wg.Go(func() { h.exchange(ctx, o) })
	}
	if o.Identity {
		wg.Go(func() { h.strangers(ctx, o) })
	}
	if o.Fault == "" {
		h.cluster.setAll(h.weather)
		h.others(ctx, planFaults(o))
	}
}

// others injects the planned faults, and returns when the last one is over.
func (h *havoc) others(ctx context.Context, plan []fault) {
	var wg sync.WaitGroup
	defer wg.Wait()
	for _, f := range plan {
		if !timer.Sleep(ctx, time.Until(h.begun.Add(f.at))) {
			return
		}
		wg.Go(func() {
			if h.cause(ctx, f) {
				h.count(f)
			}
		})
	}
}

func (h *havoc) cause(ctx context.Context, f fault) bool {
	if slices.Contains(dispatchers, f.whom) || isServer(f.whom) || f.what == Storm {
		defer h.holdUp(time.Now())
	}
	switch f.what {
	case Cut:
		h.cut(f.whom)
	case Storm:
		h.tell(f.String())
		h.storm(f, 1)
		timer.Sleep(ctx, f.lasts)
		h.storm(f, -1)
	default:
		h.tell(f.String())
		return h.cluster.nodes[f.whom].do(ctx, order{what: f.what, wait: f.lasts})
	}
	return true
}

// storm starts (1) or ends (-1) a storm. After the last one, only the background trouble remains.
func (h *havoc) storm(f fault, by int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for name := range h.cluster.proxies {
		if f.whom != "" && f.whom != name {
			continue
		}
		h.storms[name] += by
		switch {
		case by > 0:
			h.cluster.set(proxy.Storm(f.kind), name)
		case h.storms[name] == 0:
			h.cluster.set(h.weather, name)
		}
	}
}

func (h *havoc) total() (n int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, count := range h.counts {
		n += count
	}
	return n
}

func (h *havoc) count(f fault) {
	h.mu.Lock()
	defer h.mu.Unlock()
	name := string(f.what)
	if _, process := h.cluster.nodes[f.whom]; process && f.what != Cut && f.what != Storm {
		kind, _, _ := strings.Cut(f.whom, "-")
		name += " " + kind
	}
	h.counts[name]++
}
