package attack

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/nats-io/nats.go"

	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/auth"
	clientlib "github.com/seed-018f16cc/toolbus/internal/client"
)

// holder is a token, and what it says.
type holder struct {
	auth.Principal
	token string
}

// bindings are tokens of carol that do not cover her call of run r0, which needs the scope pay.
func (d *devDeployment) bindings() map[string]holder {
	d.Helper()
	all := map[string]holder{}
	for name, p := range map[string]auth.Principal{
		"of another run": {Run: "r1"}, "of another run with all scopes": {Run: "r1", Scopes: []string{"*"}},
		"of another lane": {Run: "r0", Lane: "l1", Scopes: []string{"pay"}}, "of other scopes": {Scopes: []string{"read"}},
		"narrowed": {Chain: []string{"parent"}, Origin: auth.Agent},
	} {
		p.Tenant, p.Actor, p.Role = "acme", carol, auth.Agent
		token, p := d.token(p)
		all[name] = holder{p, token}
	}
	return all
}

// H13: a token that is bound to a run, a lane or scopes reads, cancels and hears the actor's other calls.
func TestBoundTokensReachNoOtherCalls(t *testing.T) {
	t.Parallel()
	d := deploy(t)
	d.bind(auth.Principal{Tenant: "acme", Actor: carol}, "l1", "r0", "r1")
	whole, _ := d.token(auth.Principal{Tenant: "acme", Actor: carol, Role: auth.Agent, Scopes: []string{"*"}})
	wide := answersOf("acme", carol)
	owner := d.as(whole, wide, "tb.chunk.acme."+inSubject(carol)+".")
	key, call, subject := uuid.NewString(), uuid.NewString(), "tb.call.acme."+inSubject(carol)+".hold"
	request := strings.Replace(rawRequest("hold", carol, call, "r0", key), `"in"`, `"secret of r0"`, 1)
	request = strings.Replace(request, `"timezone"`, `"scopes":["pay"],"timezone"`, 1)
	accepted := owner.say(subject, whole, wide, request)
	_, ref, _ := strings.Cut(accepted, `"ref":"`)
	ref, _, _ = strings.Cut(ref, `"`)
	if ref == "" {
		t.Fatal(accepted)
	}
	_, err := owner.await(func(m rawMsg) bool { return strings.HasPrefix(m.subject, "tb.chunk.") })
	d.ok(err)
	for name, h := range d.bindings() {
		d.reach(name, h, ref, call, key)
		d.misdirect(name, h, owner)
	}
	got := owner.ask("cancel", "acme", carol, whole, wide, `{"form":2,"ref":"`+ref+`","call_id":"`+call+`"}`)
	if !strings.Contains(got, `"told":"running"`) {
		t.Errorf("the owner cancels: %.600s", got)
	}
	d.recorded(refusals{{carol, "P-PRECOND-NOT_FOUND"}: true, {carol, "A-AUTH-SCOPE"}: true,
		{carol, "A-AUTH-IDENTITY"}: true})
	d.finish()
}

// reach tries what a token must not reach: a call that it does not cover, by its reference, call id and key.
func (d *devDeployment) reach(name string, h holder, ref, call, key string) {
	d.Helper()
	wide := answersOf("acme", carol)
	own := wide + h.Family + "."
	r := d.as(h.token, own)
	for _, s := range []string{wide, "_INBOX.acme." + inSubject(carol) + ".", "tb.chunk.acme." + inSubject(carol) + "."} {
		d.ok(r.subscribe(s + ">"))
		d.ok(r.flush())
		if said := strings.Join(r.errors(), "\n"); !strings.Contains(said, `Subscription to "`+s+`>"`) {
			d.Errorf("%s: it hears %s>: %q", name, s, said)
		}
	}
	for _, named := range []string{"", `,"call_id":"` + call + `"`} {
		q := `{"form":2,"ref":"` + ref + `"` + named + `}`
		for _, op := range []string{"result", "why", "trace", "cancel"} {
			got := r.ask(op, "acme", carol, h.token, own, q)
			d.refused(name+": "+op, got, "P-PRECOND-NOT_FOUND", `"told"`, "deadline")
		}
		q = strings.Replace(q, `{`, `{"attempt":1,"fence":0,"index":0,"max_bytes":1000,`, 1)
		d.refused(name+": chunks", r.ask("chunks", "acme", carol, h.token, own, q), "P-PRECOND-NOT_FOUND", `"body"`)
	}
	for what, id := range map[string]string{"join by the key": uuid.NewString(), "ask under the call id": call} {
		request := strings.Replace(h.request("hold", id, key), `"in"`, `"secret of r0"`, 1)
		got := r.say("tb.call.acme."+inSubject(carol)+".hold", h.token, own, request)
		d.refused(name+": "+what, got, "A-AUTH-SCOPE", `"ref"`)
	}
}

// request is a request that the token covers.
func (h holder) request(tool, id, key string) string {
	request := rawRequest(tool, carol, id, h.Run, key)
	if h.Lane != "" {
		request = strings.Replace(request, `"actor_id"`, `"lane_id":"`+h.Lane+`","actor_id"`, 1)
	}
	return request
}

// misdirect asks for an answer where another token of the actor hears it.
func (d *devDeployment) misdirect(name string, h holder, hears *raw) {
	d.Helper()
	to := answersOf("acme", carol) + strings.ToLower(auth.NewID())
	r := d.as(h.token)
	d.ok(r.publish("tb.call.acme."+inSubject(carol)+".echo", to, rawHeader("Tb-Token: "+h.token),
		h.request("echo", uuid.NewString(), "")))
	m, err := hears.await(func(m rawMsg) bool { return m.subject == to })
	d.ok(err)
	d.refused(name+": answered elsewhere", string(m.body), "A-AUTH-IDENTITY", `"output"`)
}

// A client with a bound token gets its answers, its chunks and its large outputs, and reads its own calls.
func TestBoundClients(t *testing.T) {
	t.Parallel()
	d := deploy(t)
	d.bind(auth.Principal{Tenant: "acme", Actor: carol}, "l1", "r0", "r1")
	close(d.gate("own"))
	large := `"` + strings.Repeat("x", envelope.MaxInline) + `"`
	for name, h := range d.bindings() {
		nc, err := d.dial(h.token, name, nats.CustomInboxPrefix(h.Inbox()))
		d.ok(err)
		t.Cleanup(nc.Close)
		c, chunks := d.client(&party{Principal: h.Principal, token: h.token, nc: nc}), []string(nil)
		within := envelope.RequestContext{RunID: h.Run, LaneID: h.Lane}
		r, err := c.Call(t.Context(), clientlib.Call{
			Tool: "hold", Input: []byte(`"own"`), Key: auth.NewID(), Context: within,
			OnChunk: func(c envelope.Chunk) error { chunks = append(chunks, string(c.Data)); return nil },
		})
		if err != nil || r.Status != envelope.Success || !slices.Equal(chunks, []string{`"first"`, `"last"`}) {
			t.Errorf("%s: %+v, %v, chunks %q", name, r, err, chunks)
		}
		var own Accepted
		r, err = c.Call(t.Context(), clientlib.Call{Tool: "echo", Input: []byte(large), Key: auth.NewID(), Context: within,
			OnAccepted: func(a Accepted) { own = a }})
		if err != nil || r.Status != envelope.Success || string(r.Output) != large {
			t.Errorf("%s: a large output: %+v, %v", name, r.Error, err)
		}
		if own.Ref == "" {
			continue // the outcome came before the acceptance
		}
		if a, err := c.Result(t.Context(), envelope.CallRef{Ref: own.Ref}); err != nil || a.Response == nil {
			t.Errorf("%s: its own result: %v, %v", name, a, err)
		}
	}
	d.finish()
}
