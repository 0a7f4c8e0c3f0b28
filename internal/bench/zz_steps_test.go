package bench

import (
	"context"
	"fmt"
	"os"
	"sort"
	"sync"
	"testing"
	"time"

	"github.com/seed-018f16cc/toolbus/bus"
	"github.com/seed-018f16cc/toolbus/call"
	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/app"
)

func TestZZSteps(t *testing.T) {
	if os.Getenv("STEPS") == "" {
		t.Skip()
	}
	n := 16
	fmt.Sscan(os.Getenv("STEPS"), &n)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	o := Options{Dir: t.TempDir()}.withDefaults()
	h, err := o.startHost(ctx, "x", Embedded, Default)
	if err != nil {
		t.Fatal(err)
	}
	defer h.close()
	r, _ := o.registry(1)
	var mu sync.Mutex
	marks := map[string]map[string]time.Time{}
	mark := func(p string, s call.State) {
		now := time.Now()
		mu.Lock()
		id := s.ID
		if id == "" {
			mu.Unlock()
			return
		}
		if marks[id] == nil {
			marks[id] = map[string]time.Time{}
		}
		marks[id][p] = now
		mu.Unlock()
	}
	var cs []*app.Conn
	for i := range 2 {
		c, err := app.Connect(ctx, "x", app.Options{URL: h.url, Topology: topology(), Connect: h.connect})
		if err != nil {
			t.Fatal(i, err)
		}
		cs = append(cs, c)
	}
	go app.RunDispatcher(ctx, cs[0], app.DispatcherOptions{Registry: r, Fsync: true, Version: "0.1.0", Pause: mark})
	go app.RunExecutor(ctx, cs[1], app.ExecutorOptions{Registry: r, Adapters: Adapters(), Slots: 256, Pause: mark})
	nc, _ := bus.Dial(h.url, "c", h.connect...)
	cl, _ := bus.NewClient(nc, bus.ClientOptions{})
	p := &product{client: cl, tools: 1}
	if err := p.ready(ctx); err != nil {
		t.Fatal(err)
	}
	in := input(256)
	ids := &numbers{}
	start := map[string]time.Time{}
	end := map[string]time.Time{}
	acc := map[string]time.Time{}
	l, err := closed(ctx, ids, n, 2*time.Second, func(ctx context.Context, k uint64) error {
		s := time.Now()
		var a time.Time
		var ref string
		_, err := cl.Call(ctx, bus.Call{Tool: toolID(0), Fn: fnEcho, Input: in, Key: key(k), Accepted: func(x envelope.Accepted) { a = time.Now(); ref = x.Ref }})
		e := time.Now()
		mu.Lock()
		if len(ref) > 16 {
			for i := range ref {
				if ref[i] == '.' {
					ref = ref[i+1:]
					break
				}
			}
			start[ref], end[ref], acc[ref] = s, e, a
		}
		mu.Unlock()
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	fmt.Printf("%.0f/s p50 %.2f p95 %.2f\n", l.perSecond(), l.percentile(50), l.percentile(95))
	mu.Lock()
	defer mu.Unlock()
	steps := []string{"after-admit", "accepted", "after-effect", "before-decide", "after-decide", "before-reply", "before-ack", "end"}
	ds := map[string][]float64{}
	for id, s := range start {
		m := marks[id]
		if m == nil {
			continue
		}
		m["end"] = end[id]
		m["accepted"] = acc[id]
		for _, st := range steps {
			if !m[st].IsZero() {
				ds[st] = append(ds[st], m[st].Sub(s).Seconds()*1000)
			}
		}
	}
	for _, st := range steps {
		v := ds[st]
		sort.Float64s(v)
		if len(v) > 0 {
			fmt.Printf("%-14s n=%d p10 %.2f p50 %.2f p90 %.2f p99 %.2f\n", st, len(v), v[len(v)/10], v[len(v)/2], v[len(v)*9/10], v[len(v)*99/100])
		}
	}
}
