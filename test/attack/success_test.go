package attack

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-018f16cc/toolbus"
	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/auth"
	clientlib "github.com/seed-018f16cc/toolbus/internal/client"
	"github.com/seed-018f16cc/toolbus/subjects"
)

// payments are the runs of a side-effectful tool: each waits until it is let go. Its tool declares no lookup.
type payments struct {
	gates  sync.Map
	client *clientlib.Client // of their caller
}

// gate is what a payment waits for: started tells that it runs, and go on lets it end.
type gate struct{ started, goOn chan struct{} }

func (p *payments) gate(of string) gate {
	g, _ := p.gates.LoadOrStore(of, gate{make(chan struct{}, 9), make(chan struct{})})
	return g.(gate)
}

func (p *payments) pay(ctx context.Context, _ *toolbus.Run, in string) (string, error) {
	g := p.gate(in)
	g.started <- struct{}{}
	select {
	case <-g.goOn:
		return "paid " + in, nil
	case <-ctx.Done():
		return "", ctx.Err()
	}
}

// keyPrefix makes keys long enough.
const keyPrefix = "a key for payments "

// payment is a call of pay that is running.
type payment struct {
	d    *devDeployment
	tool string
	in   string
	key  subjects.Key
	done chan *envelope.Response
}

// pays starts a call of pay, with its input as its key, and returns when it runs.
func (d *devDeployment) pays(in string, timeout time.Duration) *payment {
	d.Helper()
	return d.paysBy("pay", in, timeout)
}

// paysBy does the same with another tool that waits.
func (d *devDeployment) paysBy(tool, in string, timeout time.Duration) *payment {
	d.Helper()
	if d.paid.client == nil {
		d.paid.client = d.payer()
	}
	p := &payment{d: d, tool: tool, in: in, done: make(chan *envelope.Response, 1)}
	accepted := make(chan Accepted, 1)
	go func() {
		r, err := d.paid.client.Call(context.WithoutCancel(d.Context()), clientlib.Call{
			Tool: tool, Input: []byte(strconv.Quote(in)), Key: keyPrefix + in, Timeout: timeout,
			OnAccepted: func(a Accepted) { accepted <- a },
		})
		if err != nil {
			d.Error(err)
		}
		p.done <- r
	}()
	select {
	case <-d.paid.gate(in).started:
	case r := <-p.done:
		d.Fatalf("%s did not start: %+v", in, r.Error.Details)
	}
	var err error
	p.key, err = subjects.ParseRef((<-accepted).Ref)
	d.ok(err)
	return p
}

// payer connects the caller of payments.
func (d *devDeployment) payer() *clientlib.Client {
	d.Helper()
	p := &party{Principal: auth.Principal{
		Tenant: "acme", Actor: "agent://payer", Role: auth.Agent, Scopes: []string{auth.ScopeAll},
	}}
	p.token, p.Principal = d.token(p.Principal)
	var err error
	inbox := subjects.Owner{Tenant: p.Tenant, Actor: p.Actor}.Inbox()
	p.nc, err = d.dial(p.token, p.Actor, nats.CustomInboxPrefix(inbox))
	d.ok(err)
	d.Cleanup(p.nc.Close)
	return d.client(p)
}

// event returns the newest event of the log as it is stored: its subject, its header as text, and where it is.
func (p *payment) event() (subject, text string, seq uint64) {
	p.d.Helper()
	stream, err := p.d.js.Stream(p.d.Context(), subjects.Partition(0).Stream())
	p.d.ok(err)
	msg, err := stream.GetLastMsgForSubject(p.d.Context(), p.key.Filter())
	p.d.ok(err)
	return msg.Subject, msg.Header["Tb-Event"][0], msg.Sequence
}

// claimed waits for the claim and returns it as fields by hand: records, of which each has fields.
func (p *payment) claimed() (records [][]string, by string, seq uint64) {
	subject, text, seq := p.event()
	if !strings.Contains(subject, ".c.") {
		p.d.Fatalf("the log ends with %s", subject)
	}
	for record := range strings.SplitSeq(strings.TrimSuffix(text, ";"), ";") {
		records = append(records, strings.Split(record, "|"))
	}
	return records, subject[strings.LastIndexByte(subject, '.')+1:], seq
}

func joined(records [][]string) string {
	var b strings.Builder
	for _, r := range records {
		b.WriteString(strings.Join(r, "|") + ";")
	}
	return b.String()
}

// The fields of the records that attackers change, by place.
const (
	factsClass, factsLookup = 6, 14
	claimNonce, claimFence  = 1, 3
	pure, yes               = "1", "1" // values of the class and the lookup
)

// The decisions of attackers: nonce, position, status, code, effect, by whom (an executor), time.
var (
	hasSucceeded = []string{"d", ".forged", "", "1", "", "2", "1", "9"}
	isUnknown    = []string{"d", ".forged", "", "3", "S-TOOL-UNKNOWN", "3", "1", "9"}
)

// stolen is the outcome that an attacker stores.
const stolen = `{"response":{"call_id":"5b7c2f6e-6c1f-4d0e-9c53-0a4f9f7f6a01","status":"success","output":"stolen",` +
	`"metrics":{"duration_ms":1,"cpu_ms":0,"memory_peak_mb":0,"queue_ms":0,"attempts":1},` +
	`"provenance":{"tool_id":"pay","tool_version":"0.1.0","attempt":1,"fence":1,"replayed":false,"final":true}}}`

// fake makes of a log that was claimed at seq by an instance that its attempt has ended.
func fake(records [][]string, by string, seq uint64, decision []string, change func(facts, claim []string)) string {
	var facts, claim []string
	forged := slices.Clone(records)
	for i, r := range forged {
		forged[i] = slices.Clone(r)
		switch r[0] {
		case "f":
			for len(forged[i]) <= factsLookup {
				forged[i] = append(forged[i], "")
			}
			facts = forged[i]
		case "c":
			claim = forged[i]
		}
	}
	claim[claimNonce] = by + claim[claimNonce]
	claim[claimFence] = strconv.FormatUint(seq, 10)
	change(facts, claim)
	for facts[len(facts)-1] == "" {
		facts = facts[:len(facts)-1]
	}
	for i, r := range forged {
		if r[0] == "f" {
			forged[i] = facts
		}
	}
	return joined(append(forged, decision))
}

// A second executor of the pool writes that a side-effectful call has succeeded, while the one that claimed it runs it.
// It changes in the log whatever could make it the one that may say so.
func TestStrangersSuccess(t *testing.T) {
	t.Parallel()
	d := deploy(t)
	in := d.crowd[insider].instance
	attacker := d.rawDial(rawOptions{token: d.crowd[insider].token, name: auth.ConnectionName(in)})
	forgeries := map[string]func(facts, claim []string){
		"as-it-is":       func(_, _ []string) {},
		"own-claim":      func(_, claim []string) { claim[claimNonce] = in + ".1" },
		"lookup":         func(facts, _ []string) { facts[factsLookup] = yes },
		"no-word-of-one": func(facts, _ []string) { facts[factsLookup] = "" },
		"pure":           func(facts, _ []string) { facts[factsClass] = pure },
		"pure-no-lookup": func(facts, _ []string) { facts[factsClass], facts[factsLookup] = pure, "" },
	}
	for name, change := range forgeries {
		p := d.pays(name, 50*time.Second)
		records, by, seq := p.claimed()
		lie := fake(records, by, seq, hasSucceeded, change)
		for range 3 {
			d.stores(attacker, p.key.Outcome(1, in), lie, stolen)
		}
		close(d.paid.gate(name).goOn)
		p.wants(<-p.done, "paid "+name)
		d.stores(attacker, p.key.Outcome(1, in), lie, stolen)
		p.wants(p.again(), "paid "+name)
	}
	d.onlyReal()
	d.finish()
}

// stores publishes an event and returns when it is stored.
func (d *devDeployment) stores(c *rawConn, subject, event, body string) {
	d.Helper()
	stream, err := d.js.Stream(d.Context(), subjects.Partition(0).Stream())
	d.ok(err)
	before := stream.CachedInfo().State.LastSeq
	d.ok(c.publish(subject, "", rawHeader("Tb-Event: "+event), body))
	d.ok(c.flush())
	if said := c.errors(); len(said) > 0 {
		d.Fatalf("the server says %q", said)
	}
	for {
		msg, err := stream.GetLastMsgForSubject(d.Context(), subject)
		if err == nil && msg.Sequence > before {
			return
		}
		if err := d.Context().Err(); err != nil {
			d.Fatal(err)
		}
	}
}

func (p *payment) wants(r *envelope.Response, output string) {
	p.d.Helper()
	if r == nil || r.Status != envelope.Success || string(r.Output) != strconv.Quote(output) || !r.Provenance.Final {
		p.d.Errorf("%s: the caller was told %+v", p.in, r)
	}
}

// onlyReal holds the record against what happened: nobody but the real executor has ended anything.
func (d *devDeployment) onlyReal() {
	d.Helper()
	in := d.crowd[insider].instance
	stream, err := d.js.Stream(d.Context(), subjects.AuditStream)
	d.ok(err)
	info, err := stream.Info(d.Context())
	d.ok(err)
	for seq := info.State.FirstSeq; seq <= info.State.LastSeq; seq++ {
		msg, err := stream.GetMsg(d.Context(), seq)
		d.ok(err)
		if strings.Contains(string(msg.Data), in) {
			d.Errorf("%s is on record as one that ended a call: %s", in, msg.Data)
		}
	}
}

// An executor of the pool writes for a running call what no build reads: in the place of an event, or of an outcome.
// Its callers have an outcome by their deadline all the same, and its work is acknowledged.
func TestUnreadableDecision(t *testing.T) {
	t.Parallel()
	d := deploy(t)
	in := d.crowd[insider].instance
	attacker := d.rawDial(rawOptions{token: d.crowd[insider].token, name: auth.ConnectionName(in)})
	for i, garbage := range []string{"99;f|x", "3;f|garbage", "garbage"} {
		name := fmt.Sprint("ends-", i)
		p := d.pays(name, 50*time.Second)
		d.stores(attacker, p.key.Outcome(1, in), garbage, "garbage")
		close(d.paid.gate(name).goOn)
		p.wants(<-p.done, "paid "+name)

		name = fmt.Sprint("does-not-end-", i)
		p = d.pays(name, 2*time.Second)
		d.stores(attacker, p.key.Outcome(1, in), garbage, "garbage")
		p.unknown()
	}
	for _, tool := range []string{"weigh", "look"} { // nobody claims an idempotent or a pure call
		p := d.paysBy(tool, tool+"-does-not-end", 2*time.Second)
		d.stores(attacker, p.key.Outcome(1, in), "99;f|x", "garbage")
		p.unknown()
	}
	p := d.pays("an-outcome", 50*time.Second)
	records, by, seq := p.claimed()
	lie := fake(records, by, seq, isUnknown, func(_, _ []string) {})
	d.stores(attacker, p.key.Outcome(1, in), lie, "garbage")
	p.unknown()
	close(d.paid.gate("an-outcome").goOn)
	d.acknowledged()
	d.finish()
}

// again asks for the outcome under the same key.
func (p *payment) again() *envelope.Response {
	p.d.Helper()
	r, err := p.d.paid.client.Call(p.d.Context(), clientlib.Call{
		Tool: p.tool, Input: []byte(strconv.Quote(p.in)), Key: keyPrefix + p.in,
	})
	p.d.ok(err)
	return r
}

// unknown wants the call to have ended with an unknown effect. The client of a busy machine says at the deadline that
// it has no answer yet, which is no outcome: then it asks for that.
func (p *payment) unknown() {
	p.d.Helper()
	r := <-p.done
	if r != nil && !r.Provenance.Final && r.Error.Code == envelope.CodeTimeout {
		r = p.again()
	}
	if r == nil || r.Status != envelope.TerminalError || r.Error.Details.Effect != envelope.EffectUnknown ||
		!r.Provenance.Final {
		p.d.Errorf("%s: the caller was told %+v, %+v", p.in, r, r.Error)
	}
}

// acknowledged waits until no work is left but the victim's.
func (d *devDeployment) acknowledged() {
	d.Helper()
	name := subjects.Worker("default", subjects.Queue("", 0))
	cons, err := d.js.Consumer(d.Context(), subjects.Partition(0).Stream(), name)
	d.ok(err)
	var info *jetstream.ConsumerInfo
	for end := time.Now().Add(20 * time.Second); time.Now().Before(end); {
		info, err = cons.Info(d.Context())
		d.ok(err)
		if info.NumAckPending == 1 && info.NumPending == 0 {
			return
		}
	}
	d.Errorf("%d messages wait to be acknowledged", info.NumAckPending)
}
