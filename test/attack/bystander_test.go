package attack

import (
	"crypto/rand"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/seed-018f16cc/toolbus/envelope"
	clientlib "github.com/seed-018f16cc/toolbus/internal/client"
	"github.com/seed-018f16cc/toolbus/internal/encoding/format"
	"github.com/seed-018f16cc/toolbus/subjects"
)

// Calls of others all succeed while somebody attacks: by messages that the server refuses, and by questions that
// dispatchers refuse and put on record. How long calls took is told. Calm and attack take turns, so that both have the
// same share of the machine.
func TestBystanders(t *testing.T) {
	t.Parallel()
	d := deploy(t)
	var calm, attacked []time.Duration
	for range 3 {
		calm = append(calm, d.pace()...)
		var attackers sync.WaitGroup
		over := make(chan struct{})
		for _, as := range []string{mallory, bob, insider} {
			attackers.Go(func() { d.pester(d.crowd[as], over) })
		}
		attacked = append(attacked, d.pace()...)
		close(over)
		attackers.Wait()
	}
	slices.Sort(calm)
	slices.Sort(attacked)
	of := func(took []time.Duration, percent int) time.Duration { return took[len(took)*percent/100] }
	t.Logf("p50 and p99 of a bystander: %s and %s; while others attack: %s and %s",
		of(calm, 50), of(calm, 99), of(attacked, 50), of(attacked, 99))
	d.finish()
}

// pace returns how long calls of a bystander take.
func (d *devDeployment) pace() []time.Duration {
	d.Helper()
	took := make([]time.Duration, 80)
	for i := range took {
		began := time.Now()
		r, err := d.victim.client.Call(d.Context(), clientlib.Call{Tool: "echo", Input: []byte(strconv.Quote(rand.Text()))})
		d.ok(err)
		if took[i] = time.Since(began); r.Status != envelope.Success {
			d.Fatalf("%+v", r.Error)
		}
	}
	return took
}

// pester attacks until it is over, by 2,000 messages a second.
func (d *devDeployment) pester(p *party, over <-chan struct{}) {
	guess, err := format.Marshal(format.Message, envelope.CallRef{Ref: d.victim.Ref, CallID: "guess"})
	d.ok(err)
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		for range 20 {
			d.ok(p.nc.Publish(subjects.Call("acme", alice, "echo"), []byte("{}")))
			d.ok(p.nc.Publish(subjects.Service(subjects.OpResult, p.Tenant, p.Actor), guess))
		}
		select {
		case <-tick.C:
		case <-over:
			return
		}
	}
}
