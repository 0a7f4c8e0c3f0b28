package bench

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"time"

	"github.com/nats-io/nats.go"
	"golang.org/x/sync/errgroup"

	"github.com/seed-018f16cc/toolbus/internal/auth/tokensource"
	"github.com/seed-018f16cc/toolbus/internal/bench/usage"
	"github.com/seed-018f16cc/toolbus/internal/client/link"
)

// Sizes and targets of the identity scenario.
const (
	identityCPU     = 1.05 // factor of the CPU time of a call
	identityWrites  = 1.01 // factor; segments of the record are cut by time, so that the numbers are never equal
	connectTime     = 20.0 // in ms
	connectOneByOne = 1000
	manyConnections = 5000
	connectAtOnce   = 8
	quickShare      = 8   // the quick run opens 1/quickShare of the connections
	perToken        = 200 // connections of one token; dispatchers permit more
)

// guarded compares a deployment that has accounts and tokens with one that has none, in alternating rounds on two
// servers. Then it opens many connections to the first.
func guarded(ctx context.Context, o Options, r *Report) (err error) {
	res := Result{Scenario: Identity}
	var hosts []*host
	var sides []*side
	mode := Process
	if o.Mode == Embedded {
		mode = Embedded // for profiling
	}
	for _, start := range []func() (*host, error){
		func() (*host, error) { return o.startHost(ctx, "open", mode, Interval) },
		func() (*host, error) { return o.startGuarded(ctx, "guarded", mode) },
	} {
		h, err := start()
		if err != nil {
			return err
		}
		defer h.close()
		s, _, err := toolbusSide(ctx, h, o, 256)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, s.stop()) }()
		hosts, sides = append(hosts, h), append(sides, s)
	}
	ids := &numbers{} // keys must be unique, because a repeated key is not run
	for _, n := range o.Callers {
		if err := o.compare(ctx, ids, sides, n, &res); err != nil {
			return err
		}
	}
	err = o.connections(ctx, ids, hosts[1], sides[1], &res)
	r.Results = append(r.Results, res)
	return err
}

// compare measures both sides with a number of callers.
func (o Options) compare(ctx context.Context, ids *numbers, sides []*side, callers int, res *Result) error {
	for i := range o.Rounds + 1 {
		for _, s := range sides {
			if i == 0 {
				s.rounds = nil
			}
			m, err := s.round(ctx, ids, Row{Callers: callers}, o.Duration)
			if err != nil {
				return err
			}
			if i > 0 {
				s.rounds = append(s.rounds, m)
			}
		}
	}
	var cpu []float64
	for i, m := range sides[0].rounds {
		cpu = append(cpu, sides[1].rounds[i].cpu()/m.cpu())
	}
	without, with := sides[0].stats(), sides[1].stats()
	name := fmt.Sprintf("%d callers: ", callers)
	o.say("identity: %sCPU %.2f (%.2f to %.2f), %.0f to %.0f us; calls/s %.2f; allocations %.0f to %.0f; "+
		"durable writes %.2f to %.2f", name, median(cpu), slices.Min(cpu), slices.Max(cpu), without.CPU, with.CPU,
		with.PerSecond/without.PerSecond, without.Allocs, with.Allocs, without.Writes, with.Writes)
	res.Facts = append(res.Facts, identityFacts(name, with, without)...)
	res.Checks = append(res.Checks, atMost(name+"CPU of a call, with / without", median(cpu), identityCPU),
		atMost(name+"durable writes, with / without", with.Writes/without.Writes, identityWrites))
	return nil
}

// identityFacts returns the costs of a call with tokens relative to those without. An embedded server has no CPU time
// of its own.
func identityFacts(name string, with, without *Stats) []Fact {
	facts := []Fact{{name + "CPU of a call, with", with.CPU, "us"}}
	if without.ServerCPU > 0 {
		facts = append(facts, Fact{name + "server CPU, with / without", with.ServerCPU / without.ServerCPU, ""})
	}
	return append(facts, Fact{name + "our CPU, with / without", with.OwnCPU / without.OwnCPU, ""},
		Fact{name + "calls/s, with / without", with.PerSecond / without.PerSecond, ""})
}

// connections opens many connections, first one by one and then several at a time, and measures calls while all are
// open.
func (o Options) connections(ctx context.Context, ids *numbers, h *host, s *side, res *Result) error {
	single, all := connectOneByOne, manyConnections
	if o.Quick {
		single, all = single/quickShare, all/quickShare
	}
	g := &guests{h: h}
	defer g.close()
	alone, err := g.open(ctx, single, 1)
	if err != nil {
		return err
	}
	g.close()
	before, err := closed(ctx, ids, 4, o.Duration, s.call)
	if err != nil {
		return err
	}
	began := time.Now()
	together, err := g.open(ctx, all, connectAtOnce)
	if err != nil {
		return err
	}
	took := time.Since(began)
	after, err := closed(ctx, ids, 4, o.Duration, s.call)
	if err != nil {
		return err
	}
	memory, err := usage.ResidentMB(cmp.Or(h.pid, os.Getpid()))
	if err != nil {
		return err
	}
	res.Facts = append(res.Facts,
		Fact{"connecting, p50", alone.percentile(50), "ms"}, Fact{"connecting, p99", alone.percentile(99), "ms"},
		Fact{fmt.Sprintf("%d connections, %d at a time", all, connectAtOnce), took.Seconds(), "s"},
		Fact{"one of those, p50", together.percentile(50), "ms"}, Fact{"one of those, p99", together.percentile(99), "ms"},
		Fact{"server, with all of them", memory, "MB"},
		Fact{"four callers, p50 before", before.percentile(50), "ms"},
		Fact{"four callers, p50 with all of them", after.percentile(50), "ms"},
		Fact{"four callers, p99 before", before.percentile(99), "ms"},
		Fact{"four callers, p99 with all of them", after.percentile(99), "ms"})
	res.Checks = append(res.Checks, atMost("connecting, p99 ms", alone.percentile(99), connectTime))
	return g.alive()
}

// guests are idle connections.
type guests struct {
	h     *host
	conns []*nats.Conn
}

// open opens n connections, at at a time, and returns how long each took.
func (g *guests) open(ctx context.Context, n, at int) (l load, err error) {
	held := make([]*tokensource.Source, (n+perToken-1)/perToken)
	for i := range held {
		if held[i], err = g.h.agent(fmt.Sprintf("guest-%d", i)); err != nil {
			return l, err
		}
	}
	l.latencies, g.conns = make([]time.Duration, n), make([]*nats.Conn, n)
	var group errgroup.Group
	group.SetLimit(at)
	for i := range n {
		group.Go(func() (err error) {
			start := time.Now()
			g.conns[i], err = link.DialHolding(ctx, "bench-guest", link.Options{URL: g.h.url, Caller: owner()}, held[i/perToken])
			l.latencies[i] = time.Since(start)
			return err
		})
	}
	err = group.Wait()
	slices.Sort(l.latencies)
	return l, err
}

// alive returns an error if a connection was lost.
func (g *guests) alive() error {
	for _, nc := range g.conns {
		if !nc.IsConnected() || nc.Stats().Reconnects > 0 {
			return errors.New("a connection was lost while others were opened")
		}
	}
	return nil
}

func (g *guests) close() {
	for _, nc := range g.conns {
		if nc != nil {
			nc.Close()
		}
	}
	g.conns = nil
}
