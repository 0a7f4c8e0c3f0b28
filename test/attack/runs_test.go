package attack

import (
	"fmt"
	"strings"
	"testing"

	"github.com/seed-018f16cc/toolbus/admin"
	"github.com/seed-018f16cc/toolbus/envelope"
)

// runFlood is a connection of mallory that starts runs.
type runFlood struct {
	*raw
	answers string
	n       int
}

// start asks for n runs at once, each with a record of nearly 4 KiB, and returns the answers.
func (f *runFlood) start(n int) (all []string) {
	f.d.Helper()
	actors := strings.Repeat(`"`+mallory+`/`+strings.Repeat("x", 200)+`",`, 14) + `"` + mallory + `"`
	for range n {
		f.n++
		body := fmt.Sprintf(`{"form":2,"run_id":"flood%d","role_id":"agent","actors":[%s]}`, f.n, actors)
		word := fmt.Sprintf("flood%d", f.n)
		header := rawHeader("Tb-Token: "+f.token, "Tb-Answer: "+word, "Content-Type: application/json")
		f.d.ok(f.publish("tb.svc.run_start.evil."+inSubject(mallory), f.answers+word, header, body))
	}
	for i := f.n - n + 1; i <= f.n; i++ {
		subject := f.answers + fmt.Sprintf("flood%d", i)
		m, err := f.await(func(m rawMsg) bool { return m.subject == subject && len(m.body) > 0 })
		f.d.ok(err)
		all = append(all, string(m.body))
	}
	return all
}

// S4: runs of one agent, which has the scope for them, hold up nobody: neither lists and pushes of the operator, nor
// runs and calls of others. They end with its credential.
func TestRunFlood(t *testing.T) {
	t.Parallel()
	const most, atOnce = 1000, 50
	d := deploy(t)
	f := &runFlood{raw: d.as(d.crowd[mallory].token, answersOf("evil", mallory)), answers: answersOf("evil", mallory)}
	for range most / atOnce {
		for _, answer := range f.start(atOnce) {
			if !strings.Contains(answer, `"state":"active"`) {
				t.Fatalf("a run that is not started: %.600s", answer)
			}
		}
	}
	answer := f.start(1)[0]
	d.refused("one more", answer, "R-CAP-STORE")
	if !strings.Contains(answer, "1000 runs of this credential") {
		t.Errorf("the refusal does not say why: %.600s", answer)
	}
	large := `{"form":2,"run_id":"large","role_id":"agent","actors":[` +
		strings.Repeat(`"`+mallory+`/`+strings.Repeat("x", 200)+`",`, 30) + `"` + mallory + `"]}`
	d.refused("a large run", f.ask("run_start", "evil", mallory, f.token, f.answers, large), "I-REQ-LIMIT")

	c := d.operator()
	if n := active(d, c); n != most {
		t.Errorf("%d runs are listed as active", n)
	}
	d.restrict(d.crowd[alice].Principal, "alices") // pushes a policy, and starts a run
	d.bystander()
	_, err := c.RevokeTokens(t.Context(), envelope.RevokeRequest{Family: d.crowd[mallory].Family})
	d.ok(err)
	for n := most; n > 1; { // that of alice stays
		n = active(d, c)
	}
	d.finish()
}

// active returns the number of active runs.
func active(d *devDeployment, c *admin.Client) (n int) {
	d.Helper()
	for _, err := range c.Runs(d.Context(), envelope.RunListRequest{State: "active"}) {
		d.ok(err)
		n++
	}
	return n
}
