package chaos

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/seed-018f16cc/toolbus"
	"github.com/seed-018f16cc/toolbus/internal/chaos/check"
	"github.com/seed-018f16cc/toolbus/internal/chaos/proxy"
	"github.com/seed-018f16cc/toolbus/internal/wait"
)

// Action is one kind of trouble.
type Action string

// The actions.
const (
	Kill    Action = "kill"    // SIGKILL, and a new start after a while
	Freeze  Action = "freeze"  // SIGSTOP, and SIGCONT after a while
	Restart Action = "restart" // SIGTERM, and a new start after a while
	Replace Action = "replace" // by another build, as Restart
	Cut     Action = "cut"     // connections to the server
	Storm   Action = "storm"   // messages are lost, delayed and doubled
	// With identity.
	Rotate Action = "rotate keys"
	Revoke Action = "revoke"
	Expire Action = "expire all tokens" // since no dispatcher is there to renew them
	Strand Action = "strand"            // all connections are cut, and no dispatcher is there to let anybody in
)

// fault is one piece of trouble: when, what, to whom, for how long.
type fault struct {
	at    time.Duration
	what  Action
	whom  string // "" is everybody
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

// planFaults returns the trouble of a run, in order. A single server has its part in it; what is done to
// several is in their own plan.
func planFaults(o Options) []fault {
	seed, duration := o.Seed, o.Duration
	nodes := append(append([]string{}, dispatchers...), executors...)
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
		plan = append(plan, drawFault(random, at, nodes))
	}
}

func drawFault(random *rand.Rand, at time.Duration, nodes []string) fault {
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
		f.what, f.whom = Cut, anyLine(random)
	default:
		f.what, f.lasts = Storm, 500*time.Millisecond+within(4*time.Second)
		f.kind = stormNames[random.IntN(len(stormNames))]
		if f.whom = anyLine(random); random.IntN(3) == 0 {
			f.whom = ""
		}
	}
	return f
}

func anyLine(random *rand.Rand) string {
	all := append(append(append([]string{}, dispatchers...), executors...), lines...)
	return all[random.IntN(len(all))]
}

var stormNames = []string{"acks", "writes", "requests", "work", "everything"}

// longDelay is longer than anybody waits for one answer of the server.
const longDelay = 3 * time.Second

// storm returns the odds of one kind of storm, on top of the weather that there always is.
func storm(kind string) proxy.Trouble {
	t := weather()
	switch kind {
	case "acks":
		t[proxy.PubAck] = proxy.Odds{Drop: 0.4, Delay: 0.2, Double: 0.2, Most: longDelay}
	case "writes":
		t[proxy.Write] = proxy.Odds{Drop: 0.2, Delay: 0.3, Double: 0.3, Most: longDelay}
	case "requests":
		t[proxy.Request] = proxy.Odds{Drop: 0.2, Delay: 0.2, Double: 0.4, Most: time.Second}
		t[proxy.Answer] = proxy.Odds{Drop: 0.3, Delay: 0.2, Double: 0.2, Most: time.Second}
		t[proxy.Service] = proxy.Odds{Drop: 0.2, Delay: 0.2, Double: 0.2, Most: time.Second}
	case "work":
		t[proxy.WorkAck] = proxy.Odds{Drop: 0.4, Delay: 0.3, Double: 0.2, Most: longDelay}
		t[proxy.Beat] = proxy.Odds{Drop: 0.3, Delay: 0.3, Most: time.Second}
		t[proxy.Control] = proxy.Odds{Drop: 0.3, Delay: 0.3, Double: 0.3, Most: time.Second}
		t[proxy.Desk] = proxy.Odds{Drop: 0.3, Delay: 0.3, Double: 0.3, Most: longDelay}
	case "everything":
		for _, kind := range breakable {
			t[kind] = proxy.Odds{Drop: 0.08, Delay: 0.15, Double: 0.15, Most: 500 * time.Millisecond}
		}
		t[proxy.Audit] = proxy.Odds{Drop: 0.02, Delay: 0.02, Double: 0.02, Most: 500 * time.Millisecond}
	}
	return t
}

// breakable are the messages of which any may be lost at any time. Records of AUDIT go in batches,
// which are lost as a whole; what the server delivers, and what it is asked for, is only lost with
// its connection.
var breakable = []proxy.Kind{
	proxy.Request, proxy.Service, proxy.Write, proxy.PubAck, proxy.WorkAck, proxy.Answer, proxy.Beat, proxy.Chunk,
	proxy.Control, proxy.Desk,
}

// weather is the trouble that there is all the time.
func weather() proxy.Trouble {
	t := proxy.Trouble{}
	for _, kind := range breakable {
		t[kind] = proxy.Odds{Drop: 0.01, Delay: 0.02, Double: 0.02, Most: 200 * time.Millisecond}
	}
	return t
}

// havoc carries out the plan, and returns when its last fault is over.
type havoc struct {
	cluster *cluster
	tell    func(string)
	begun   time.Time
	watch   *watch
	// operator is nil without identity.
	operator *toolbus.Client

	mu       sync.Mutex
	counts   map[string]int
	storms   map[string]int // on each line
	happened []happening
	deaf     []check.Span
}

func (h *havoc) run(ctx context.Context, o Options) {
	var wg sync.WaitGroup
	defer wg.Wait()
	if o.Servers > 1 {
		wg.Go(func() { h.servers(ctx, o) })
	}
	if o.Beside != "" {
		wg.Go(func() { h.exchange(ctx, o) })
	}
	if o.Identity {
		wg.Go(func() { h.strangers(ctx, o) })
	}
	if o.Only == "" {
		h.cluster.setAll(weather())
		h.others(ctx, planFaults(o))
	}
}

// others makes the trouble that is not that of several servers.
func (h *havoc) others(ctx context.Context, plan []fault) {
	var wg sync.WaitGroup
	defer wg.Wait()
	for _, f := range plan {
		if !wait.For(ctx, time.Until(h.begun.Add(f.at))) {
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
	if slices.Contains(dispatchers, f.whom) && f.what != Storm {
		defer h.unheard(time.Now())
	}
	switch f.what {
	case Cut:
		h.cut(f.whom)
	case Storm:
		h.tell(f.String())
		h.storm(f, 1)
		wait.For(ctx, f.lasts)
		h.storm(f, -1)
	default:
		h.tell(f.String())
		return h.cluster.nodes[f.whom].do(ctx, order{what: f.what, wait: f.lasts})
	}
	return true
}

// storm begins (1) or ends (-1) a storm; the last that ends leaves only the weather.
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
			h.cluster.set(storm(f.kind), name)
		case h.storms[name] == 0:
			h.cluster.set(weather(), name)
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
	if isServer(f.whom) {
		name += " nats"
	}
	h.counts[name]++
}
