package attack

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/seed-018f16cc/toolbus"
	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/auth"
	clientlib "github.com/seed-018f16cc/toolbus/internal/client"
)

// An executor writes claims of attempts that no dispatcher has opened into the log of an idempotent call of its pool,
// and names another actor as their owner, with an hour to go. No dispatcher counts them among the open calls of that
// actor.
func TestClaimsOfFurtherAttempts(t *testing.T) {
	t.Parallel()
	const mayOpen = 20
	d := deployWith(t, toolbus.DispatcherOptions{OpenPerActor: mayOpen})
	in := d.crowd[insider].instance
	attacker := d.rawDial(rawOptions{token: d.crowd[insider].token, name: auth.ConnectionName(in)})
	p := d.paysBy("weigh", "further", 2*time.Second)
	_, text, seq := p.event()
	_, facts, _ := strings.Cut(text, ";f|")
	facts, _, _ = strings.Cut(facts, ";")
	fields := strings.Split(facts, "|")
	fields[2], fields[3] = "0.1.0", "default" // which the subject of a request says, and that of a claim does not
	for n := 2; n < 2+mayOpen; n++ {
		event := fmt.Sprintf("3;f|%s;a|id|%s||||||||d.1|%d|%d|3600000||%d;c|.1||1|1;",
			strings.Join(fields, "|"), alice, seq, time.Now().UnixMilli(), n)
		d.stores(attacker, p.key.Claim(n, in), event, "")
	}
	d.followed()
	r, err := d.victim.client.Call(t.Context(), clientlib.Call{
		Tool: "echo", Input: []byte(strconv.Quote("as before")), Timeout: 5 * time.Second,
	})
	if err != nil || r.Status != envelope.Success {
		t.Errorf("another actor's call: %+v, %v", r.Error, err)
	}
	<-p.done
	d.finish()
}

// followed returns when the dispatcher has observed all that is in the log: a call that joined another is told the
// outcome by its follower.
func (d *devDeployment) followed() {
	d.Helper()
	p := d.paysBy("weigh", "followed", 50*time.Second)
	joined, ended := make(chan struct{}, 1), make(chan *envelope.Response, 1)
	go func() {
		r, err := d.paid.client.Call(d.Context(), clientlib.Call{
			Tool: p.tool, Input: []byte(strconv.Quote(p.in)), Key: keyPrefix + p.in,
			OnAccepted: func(Accepted) { joined <- struct{}{} },
		})
		if err != nil {
			d.Error(err)
		}
		ended <- r
	}()
	<-joined
	close(d.paid.gate(p.in).goOn)
	p.wants(<-p.done, "paid "+p.in)
	p.wants(<-ended, "paid "+p.in)
}
