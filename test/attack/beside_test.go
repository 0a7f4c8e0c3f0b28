package attack

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/seed-018f16cc/toolbus/admin"
	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/auth"
	"github.com/seed-018f16cc/toolbus/internal/deployment/processtest"
)

var floodTime = flag.Duration("flood", 10*time.Second, "with -full, how long each flood of TestBystanderOfFloods lasts")

const (
	bystanding  = 200   // calls of the bystander during each flood, and of a short one 20 a second
	mostMemory  = 400.0 // of a dispatcher, in MB
	calmAgain   = 5 * time.Second
	operateTime = 5 * time.Second // for what an operator asks during a flood
)

// beside has a deployment with two dispatchers, an attacker that floods it, and a bystander that calls meanwhile.
type beside struct {
	*siege
	time        time.Duration // of each flood
	dispatchers []*processtest.Process
	limit       float64  // of a server, in MB: the MemoryHigh of its unit
	system      *rawConn // hears which connections servers have ended
	operator    *admin.Client
	others      func(context.Context) error // a call of the bystander
	tenant      string                      // of the attacker; each flood has its own, with its own share of the log
	actor       string                      // the attacker
}

// TestBystanderOfFloods floods two dispatchers by the valid credential of one tenant. The calls of another tenant and
// the questions of an operator succeed meanwhile, in time. No server ends a connection of a dispatcher, no process
// takes more memory than it may, and soon after the flood all is as before.
func TestBystanderOfFloods(t *testing.T) {
	b := &beside{siege: besiege(t), time: 3 * time.Second, limit: unitMemory(t)}
	if *full {
		b.time = *floodTime
	}
	b.dispatchers = []*processtest.Process{b.dispatcher, b.startDispatcher()}
	b.startExecutor("slow")
	b.system = b.siege.system(0)
	b.must(b.system.subscribe("$SYS.ACCOUNT.*.DISCONNECT"))
	b.operator = b.operates()
	for _, f := range floods() {
		if *full || f.short {
			t.Run(strings.ReplaceAll(f.name, " ", "-"), func(t *testing.T) { b.row(t, f) })
		}
	}
}

// unitMemory returns the MemoryHigh of the unit of servers, in MB.
func unitMemory(t *testing.T) (gb float64) {
	t.Helper()
	text, err := os.ReadFile("../../deploy/systemd/toolbus-nats@.service")
	_, limit, _ := strings.Cut(string(text), "\nMemoryHigh=")
	if _, err := fmt.Sscanf(limit, "%fG\n", &gb); err != nil {
		t.Fatal(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	return gb * 1024
}

func (b *beside) operates() *admin.Client {
	b.Helper()
	file, _ := b.Credential(auth.Principal{Actor: operator, Role: auth.Operator})
	c, err := admin.Connect(b.Context(), b.URL, admin.Options{CredentialsFile: file, NATS: b.encrypted()})
	b.must(err)
	b.Cleanup(func() { _ = c.Close() })
	return c
}

// row runs a flood, and checks what it costs.
func (b *beside) row(t *testing.T, f flood) {
	inner := *b.siege
	inner.T = t
	b = &beside{siege: &inner, time: b.time, dispatchers: b.dispatchers, limit: b.limit, system: b.system,
		operator: b.operator, others: b.siege.call}
	b.tenant = "evil-" + strings.ReplaceAll(f.name, " ", "-")
	b.actor = "agent://" + b.tenant // hears no answers to a flood before
	_, b.attacker = b.Credential(auth.Principal{Tenant: b.tenant, Actor: b.actor, Role: auth.Agent,
		Scopes: []string{auth.ScopeAll}})
	attack := f.prepare(b)
	calm := b.calls(20, time.Second)
	b.ended()
	ctx, stop := context.WithTimeout(t.Context(), b.time)
	defer stop()
	var memory usedMemory
	var flooding sync.WaitGroup
	flooding.Go(func() { attack(ctx) })
	flooding.Go(func() { memory.watch(ctx, stop, b) })
	flooding.Go(func() { b.operate(ctx) })
	got := b.calls(min(bystanding, int(b.time/(50*time.Millisecond))), b.time)
	<-ctx.Done()
	over := time.Now()
	flooding.Wait()
	again := b.settles(calm, over)
	ended, others := b.ended()
	t.Logf("calm %s, flood %s, as before after %s; server %.0f MB, dispatcher %.0f MB; connections ended: %d of "+
		"dispatchers, %d of others", calm, got, again.Round(time.Millisecond), memory.server, memory.dispatcher, len(ended),
		others)
	b.judge(f, calm, got, ended, again, memory)
}

func (b *beside) judge(f flood, calm, got paced, ended []string, again time.Duration, memory usedMemory) {
	b.Helper()
	if len(got.failed) > 0 {
		b.Errorf("%d of %d calls of a bystander failed, the first ones: %q", len(got.failed), len(got.took),
			got.failed[:min(3, len(got.failed))])
	}
	if p := got.of(99); p > f.most+5*calm.of(99) { // a busy machine is slow without a flood, too
		b.Errorf("1 of 100 calls of a bystander took more than %s, and %s before the flood", p, calm.of(99))
	}
	if len(ended) > 0 {
		b.Errorf("servers ended connections of dispatchers: %q", ended)
	}
	if again > calmAgain {
		b.Errorf("it was as before %s after the flood", again)
	}
	if memory.dispatcher > mostMemory || memory.server > b.limit {
		b.Errorf("a server had %.0f MB, a dispatcher %.0f MB", memory.server, memory.dispatcher)
	}
}

// paced is how long calls took, in order, and why some failed.
type paced struct {
	took   []time.Duration
	failed []string
}

func (p paced) of(percent int) time.Duration {
	return p.took[len(p.took)*percent/100].Round(100 * time.Microsecond)
}

func (p paced) String() string {
	return fmt.Sprintf("p50 %s p99 %s max %s (%d of %d failed)", p.of(50), p.of(99), p.took[len(p.took)-1], len(p.failed),
		len(p.took))
}

// calls makes n calls of the bystander, at equal distances, whether those before have ended or not.
func (b *beside) calls(n int, within time.Duration) (p paced) {
	tick := time.NewTicker(within / time.Duration(n))
	defer tick.Stop()
	p.took = make([]time.Duration, n)
	var mu sync.Mutex
	var calling sync.WaitGroup
	for i := range n {
		calling.Go(func() {
			began := time.Now()
			err := b.others(context.WithoutCancel(b.Context()))
			p.took[i] = time.Since(began)
			if err != nil {
				mu.Lock()
				defer mu.Unlock()
				p.failed = append(p.failed, err.Error())
			}
		})
		<-tick.C
	}
	calling.Wait()
	slices.Sort(p.took)
	return p
}

// settles waits until calls of the bystander are as fast as they were before the flood and new connections are let in,
// and returns how long after its end that was.
func (b *beside) settles(calm paced, over time.Time) time.Duration {
	for time.Since(over) < 2*time.Minute {
		began := time.Now()
		_, token := b.Credential(auth.Principal{Actor: "agent://late", Role: auth.Agent})
		c, err := b.raw(token, "late")
		if err != nil {
			b.Logf("a new connection after the flood: %v", err)
			continue
		}
		_ = c.conn.Close()
		if p := b.calls(20, 400*time.Millisecond); len(p.failed) == 0 && p.of(50) < 3*calm.of(50)+150*time.Millisecond {
			return began.Sub(over)
		}
	}
	return time.Since(over)
}

// operate lists the runs and puts the policy in force again, in the middle of a flood.
func (b *beside) operate(ctx context.Context) {
	select {
	case <-time.After(b.time / 2):
	case <-ctx.Done():
		return
	}
	ctx, stop := context.WithTimeout(context.WithoutCancel(ctx), operateTime)
	defer stop()
	began := time.Now()
	err := b.push(ctx)
	b.Logf("an operator pushed a policy in %s", time.Since(began).Round(time.Millisecond))
	for _, failed := range b.operator.Runs(ctx, envelope.RunListRequest{}) {
		if failed != nil {
			err = errors.Join(err, fmt.Errorf("list runs: %w", failed))
			break
		}
	}
	if err != nil {
		b.Errorf("an operator beside the flood: %v", err)
	}
}

func (b *beside) push(ctx context.Context) error {
	all, err := b.operator.PolicyHistory(ctx)
	if err != nil {
		return fmt.Errorf("list policies: %w", err)
	}
	set, err := b.operator.Policy(ctx, all[0])
	if err != nil {
		return fmt.Errorf("read the policy: %w", err)
	}
	if _, err = b.operator.PushPolicy(ctx, set, all[0].Revision, "again"); err != nil {
		return fmt.Errorf("push the policy: %w", err)
	}
	return nil
}

// usedMemory is the most that a server and a dispatcher had, in MB.
type usedMemory struct{ server, dispatcher float64 }

// watch looks until ctx ends, and ends a flood by which a server outgrows its unit: this machine has other tenants.
func (m *usedMemory) watch(ctx context.Context, stop func(), b *beside) {
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for ctx.Err() == nil {
		for _, p := range b.Servers {
			m.server = max(m.server, b.memory(p))
		}
		for _, p := range b.dispatchers {
			m.dispatcher = max(m.dispatcher, b.memory(p))
		}
		if m.server > b.limit {
			stop()
		}
		<-tick.C
	}
}

// ended returns the connections of dispatchers that servers have ended since it was called before, with the reason, and
// how many of others.
func (b *beside) ended() (dispatchers []string, others int) {
	b.Helper()
	b.must(b.system.flush())
	for _, m := range b.system.received(func(m rawMsg) bool { return strings.HasSuffix(m.subject, ".DISCONNECT") }) {
		var said struct {
			Reason string
			Client struct{ Acc, Name string }
		}
		b.must(json.Unmarshal(m.body, &said))
		switch {
		case said.Reason == "Client Closed":
		case slices.Contains([]string{"TB", "AUTH", "SYS"}, said.Client.Acc):
			dispatchers = append(dispatchers, said.Client.Name+": "+said.Reason)
		default:
			others++
		}
	}
	b.system.mu.Lock()
	defer b.system.mu.Unlock()
	b.system.messages = nil
	return dispatchers, others
}

// send sends what next makes over connections, rate messages a second in all, until ctx ends. Where a server has ended
// one, or refuses one, it connects again.
func (b *beside) send(ctx context.Context, connections, rate int, next func() string) {
	var sent, lost atomic.Int64
	var sending sync.WaitGroup
	began := time.Now()
	for i := range connections {
		sending.Go(func() {
			tick := time.NewTicker(10 * time.Millisecond)
			defer tick.Stop()
			var mine int
			for ctx.Err() == nil {
				c, err := b.raw(b.attacker, "flood")
				if err != nil {
					lost.Add(1)
					<-tick.C
					continue
				}
				go c.listen()
				unblock := context.AfterFunc(ctx, func() { _ = c.conn.Close() })
				for err == nil && ctx.Err() == nil {
					owed := (i + int(time.Since(began).Seconds()*float64(rate))) / connections
					for ; mine < owed && err == nil; mine++ {
						err = c.send(next())
						sent.Add(1)
					}
					<-tick.C
				}
				if unblock() {
					lost.Add(1)
				}
				_ = c.conn.Close()
				<-c.done
			}
		})
	}
	sending.Wait()
	b.Logf("%d messages were sent, and %d connections of the attacker ended or refused", sent.Load(), lost.Load())
}
