package bench

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/nats-io/nats.go"
	"golang.org/x/sync/errgroup"

	"github.com/seed-018f16cc/toolbus"
	"github.com/seed-018f16cc/toolbus/bus"
	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/bench/proc"
	"github.com/seed-018f16cc/toolbus/subjects"
)

// What a flood is, and what it may cost others.
const (
	floodMessages = 50_000
	floodRate     = 5_000 // a second
	largeMessages = 2_000 // of more than an envelope may have
	largeRate     = 500
	floodInputs   = 6 // large ones, at once
	floodInput    = 50_000_000
	floodOversize = envelope.MaxEnvelope + 1
	bystanderRate = 50   // calls a second
	floodGrowth   = 50.0 // ms, of a bystander's p99
	// floodMemory is what a dispatcher may take, in MB: its queues, what the connection holds, its room for inputs, and as
	// much garbage as the collector lets gather.
	floodMemory = 700.0
)

// burst is the kind that comes all at once.
const burst = "burst"

// floods are the kinds of floods, as roles of a node.
func floods() []string {
	return []string{"malformed", "denied", "oversize", "questions", "large", burst}
}

// flooded measures what floods by one actor cost the calls of another one of its tenant.
func flooded(ctx context.Context, o Options, r *Report) error {
	res := Result{Scenario: Flood}
	quiet, _, err := o.bystand(ctx, "", &res)
	if err != nil {
		return err
	}
	for _, kind := range floods() {
		l, memory, err := o.bystand(ctx, kind, &res)
		if err != nil {
			return err
		}
		res.Checks = append(res.Checks, atMost(kind+": memory of the dispatcher, MB", memory, floodMemory))
		if kind != burst { // which takes as long as it takes to read it
			res.Checks = append(res.Checks,
				atMost(kind+": growth of the bystander's p99, ms", l.percentile(99)-quiet.percentile(99), floodGrowth))
		}
	}
	r.Results = append(r.Results, res)
	return nil
}

// bystand measures calls at a bystander's pace during a flood, or in peace, on a bus of its own.
func (o Options) bystand(ctx context.Context, kind string, res *Result) (l load, memory float64, err error) {
	d, err := o.startDrain(ctx)
	if err != nil {
		return l, 0, err
	}
	defer func() { err = errors.Join(err, d.close()) }()
	call := func(ctx context.Context, n uint64) error {
		r, err := d.client.Call(ctx, toolbus.Call{
			Tool: toolID(0), Fn: fnEcho, Input: input(256), Key: key(n), Timeout: time.Minute,
		})
		if err == nil && r.Status != envelope.Success {
			err = fmt.Errorf("the bystander is told %s: %s", r.Error.Code, r.Error.Message)
		}
		return err
	}
	if _, err := open(ctx, &d.ids, bystanderRate, o.Duration/2, call); err != nil { // warm-up
		return l, 0, err
	}
	sent := make(chan error, 1)
	go func() { sent <- o.sendFlood(ctx, d.host, kind) }()
	for done := false; !done; {
		part, err := open(ctx, &d.ids, bystanderRate, o.Duration, call)
		if err != nil {
			return l, 0, err
		}
		l.took += part.took
		l.latencies = append(l.latencies, part.latencies...)
		now, err := proc.ResidentMB(d.dispatcher.pid)
		if err != nil {
			return l, 0, err
		}
		memory = max(memory, now)
		select {
		case err := <-sent:
			if err != nil {
				return l, 0, err
			}
			done = true
		default:
		}
	}
	slices.Sort(l.latencies)
	name := word(kind, "quiet")
	o.say("flood: %s: p50 %.1f ms, p99 %.1f ms, %d calls in %.0f s, dispatcher %.0f MB", name, l.percentile(50),
		l.percentile(99), len(l.latencies), l.took.Seconds(), memory)
	res.Facts = append(res.Facts, Fact{name + ": p50", l.percentile(50), "ms"},
		Fact{name + ": p99", l.percentile(99), "ms"}, Fact{name + ": dispatcher", memory, "MB"})
	return l, memory, nil
}

// sendFlood returns once a flood is sent, by a process of its own; there is none without a kind.
func (o Options) sendFlood(ctx context.Context, h *host, kind string) error {
	if kind == "" {
		return nil
	}
	c, err := o.startChild(ctx, h.dir, kind, "bench", "node", kind, "--server", h.url)
	if err == nil {
		c.stop()
	}
	return err
}

// flood sends messages of a kind, as fast as they say, and says when it has. Then it waits for the end of ctx.
func flood(ctx context.Context, url, kind string, ready func()) error {
	nc, err := bus.Dial(url, "bench-flooder")
	if err != nil {
		return err
	}
	defer nc.Close()
	const tenant, actor = "default", "flooder"
	if kind == "large" {
		return floodLarge(ctx, nc, tenant, actor, ready)
	}
	msg := &nats.Msg{
		Subject: subjects.Call(tenant, actor, toolID(0)), Reply: subjects.Answers(tenant, actor) + "word",
		Data:   []byte("x"),
		Header: nats.Header{subjects.HeaderContentType: {envelope.ContentJSON}},
	}
	switch kind {
	case "denied":
		msg.Data = fmt.Appendf(nil, `{"call_id":%q,"tool_id":%q,"tool_version":"9.x","fn":%q,"input":%s,`+
			`"context":{"actor_id":%q,"trace_id":%q,"timezone":"UTC","env":"dev"},`+
			`"constraints":{"timeout_ms":10000,"idempotency_key":"key-0123456789abcdef"}}`,
			uuid.NewString(), toolID(0), fnEcho, input(256), actor, uuid.NewString())
	case "oversize":
		msg.Data = []byte(`{"input":"` + strings.Repeat("x", floodOversize) + `"}`)
	case "questions":
		msg.Subject, msg.Data = subjects.Service(subjects.OpDescribe, tenant, actor), []byte(`{"form":2}`)
	}
	n, rate := floodMessages, floodRate
	if kind == "oversize" {
		n, rate = largeMessages, largeRate
	}
	began := time.Now()
	for i := range n {
		if err := nc.PublishMsg(msg); err != nil {
			return err
		}
		if kind != burst && !until(ctx, began.Add(time.Duration(i)*time.Second/time.Duration(rate))) {
			return nil
		}
	}
	if err := nc.FlushTimeout(time.Minute); err != nil {
		return err
	}
	ready()
	<-ctx.Done()
	return nil
}

// floodLarge makes calls with large inputs, so many at once.
func floodLarge(ctx context.Context, nc *nats.Conn, tenant, actor string, ready func()) error {
	c, err := toolbus.NewClient(nc, toolbus.ClientOptions{Tenant: tenant, Actor: actor})
	if err != nil {
		return err
	}
	defer c.Close()
	for n := 0; ctx.Err() == nil; n++ {
		var g errgroup.Group
		for i := range floodInputs {
			in := fmt.Sprintf(`{"n":%d,"s":%q}`, n*floodInputs+i, strings.Repeat("x", floodInput))
			g.Go(func() error {
				_, err := c.Call(ctx, toolbus.Call{
					Tool: toolID(0), Fn: fnEcho, Input: []byte(in), Key: uuid.NewString(), Timeout: time.Minute,
				})
				return err
			})
		}
		if err := g.Wait(); err != nil && ctx.Err() == nil {
			return err
		}
		if n == 0 {
			ready()
		}
	}
	return nil
}
