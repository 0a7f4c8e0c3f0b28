package attack

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/audit"
	"github.com/seed-018f16cc/toolbus/internal/audit/reader"
	"github.com/seed-018f16cc/toolbus/internal/audit/writer"
	"github.com/seed-018f16cc/toolbus/internal/auth"
	"github.com/seed-018f16cc/toolbus/internal/call"
	"github.com/seed-018f16cc/toolbus/kv"
	"github.com/seed-018f16cc/toolbus/subjects"
)

// An executor ends pure and idempotent calls of its pool, which any executor of the pool may do, and writes into its
// claims and decisions other facts than their requests state. It does the same with calls that nobody has made. No such
// word is on record: each call ends as its executor ended it, with the facts of its request. The executor has refusals.
func TestForgedFacts(t *testing.T) {
	t.Parallel()
	const forged = "forged"
	d := deploy(t)
	in := d.crowd[insider].instance
	attacker := d.rawDial(rawOptions{token: d.crowd[insider].token, name: auth.ConnectionName(in)})
	changes := map[string]func(*call.State, *call.Owner){
		"actor":   func(_ *call.State, o *call.Owner) { o.Actor = "agent://" + forged },
		"tenant":  func(s *call.State, _ *call.Owner) { s.Tenant = forged },
		"role":    func(_ *call.State, o *call.Owner) { o.Role = forged },
		"lane":    func(_ *call.State, o *call.Owner) { o.Lane = forged },
		"run":     func(_ *call.State, o *call.Owner) { o.Run = forged },
		"policy":  func(_ *call.State, o *call.Owner) { o.Policy = forged + ".b.c" },
		"trace":   func(_ *call.State, o *call.Owner) { o.Trace = forged },
		"fn":      func(s *call.State, _ *call.Owner) { s.Fn = forged },
		"version": func(s *call.State, _ *call.Owner) { s.Version = forged },
		"hash":    func(s *call.State, _ *call.Owner) { s.ArgsHash = forged },
	}
	for _, tool := range []string{"weigh", "look"} {
		for name, change := range changes {
			p := d.paysBy(tool, tool+"-"+name, 50*time.Second)
			for _, e := range p.forged(in, change) {
				d.stores(attacker, kv.EventSubject(e), kv.EncodeEvent(e), stolen)
			}
			close(d.paid.gate(p.in).goOn)
			p.wants(<-p.done, "paid "+p.in)
			for _, e := range p.forged(in, change) { // nobody has made these calls, and they are past their deadline
				e.State.ID = auth.NewID()
				e.State.Attempts[0].Deadline = call.At(time.Now().Add(-time.Hour))
				d.stores(attacker, kv.EventSubject(e), kv.EncodeEvent(e), stolen)
			}
			p.wants(p.again(), "paid "+p.in)
		}
	}
	d.bystander()
	d.ok(writer.WaitRecorded(t.Context(), d.js))
	ended, refused := 0, false
	for end := time.Now().Add(20 * time.Second); !refused && time.Now().Before(end); { // that is recorded by itself
		ended = 0
		for l, err := range reader.Lines(t.Context(), reader.Streams(d.js), reader.Filter{}) {
			d.ok(err)
			if strings.Contains(l.Text, forged) {
				t.Errorf("on record: %s", l.Text)
			}
			refused = refused || l.Rule == audit.RuleExecutor && l.Actor == "executor://"+in
			if l.Status == envelope.Success && (l.ToolName == "weigh" || l.ToolName == "look") && l.LogSeq != 0 {
				ended++
			}
		}
	}
	if want := 2 * len(changes); ended != want || !refused {
		t.Errorf("%d calls ended on record, want %d; a refusal of the executor: %t", ended, want, refused)
	}
	d.finish()
}

// forged returns a claim and a decision of the call by an instance, as if it had ended the call, with other facts.
func (p *payment) forged(instance string, change func(*call.State, *call.Owner)) []call.Event {
	p.d.Helper()
	stream, err := p.d.js.Stream(p.d.Context(), subjects.Partition(0).Stream())
	p.d.ok(err)
	msg, err := stream.GetMsg(p.d.Context(), 1, jetstream.WithGetMsgSubject(p.key.Filter()))
	p.d.ok(err)
	e, err := kv.DecodeEvent(msg.Subject, msg.Header)
	p.d.ok(err)
	s := call.Fold(e, msg.Sequence)
	a := &s.Attempts[0]
	change(&s, &a.Owner)
	nonce := instance + ".forged"
	a.Claim = &call.Claim{By: subjects.Instance(s.Pool, instance), Nonce: nonce, Count: 1, At: a.At}
	claim := call.Event{Kind: call.Claimed, Attempt: 1, Nonce: nonce, State: s}
	decision := claim
	decision.Kind, decision.State.Attempts = call.Decided, slices.Clone(s.Attempts)
	decision.State.Attempts[0].Decision = &call.Decision{
		Nonce: nonce, Status: envelope.Success, Effect: envelope.EffectNone, By: call.ByExecutor, At: a.At,
	}
	return []call.Event{claim, decision}
}
