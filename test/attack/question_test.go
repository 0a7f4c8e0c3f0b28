package attack

import (
	"slices"
	"testing"

	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/auth"
	clientlib "github.com/seed-018f16cc/toolbus/internal/client"
	"github.com/seed-018f16cc/toolbus/internal/operation"
	"github.com/seed-018f16cc/toolbus/subjects"
)

// vouch gives each row the token of its connection.
func (d *devDeployment) vouch(table []asked) []asked {
	for i := range table {
		table[i].token = d.crowd[table[i].as].token
	}
	return table
}

// Nobody learns of a call of others by a question, however well it is guessed which one, and nobody asks what is not
// for their role.
func TestQuestions(t *testing.T) {
	t.Parallel()
	d := deploy(t)
	v, done := d.victim, make(chan Accepted, 1)
	var ended Accepted
	for ended.Ref == "" { // an outcome may come before its acceptance
		_, err := v.client.Call(t.Context(), clientlib.Call{Tool: "echo", Input: []byte(`"ended"`), Key: auth.NewID(),
			OnAccepted: func(a Accepted) { done <- a }})
		d.ok(err)
		select {
		case ended = <-done:
		default:
		}
	}
	var table []asked
	for _, of := range []Accepted{v.Accepted, ended} {
		for _, as := range []string{bob, mallory, operator} {
			refs := []envelope.CallRef{{Ref: of.Ref}, {Ref: of.Ref, CallID: "0"}}
			if as != bob { // of that tenant, whoever knows the call id is told: it is for joiners
				refs = append(refs, envelope.CallRef{Ref: of.Ref, CallID: of.CallID})
			}
			for _, q := range refs {
				for _, op := range []string{subjects.OpResult, subjects.OpCancel, subjects.OpWhy, subjects.OpTrace} {
					table = append(table, asked{name: op, as: as, op: op, q: q, want: envelope.CodeNotFound})
				}
				table = append(table, asked{name: "chunks", as: as, op: subjects.OpChunks,
					q:    envelope.ChunksRequest{Ref: q.Ref, CallID: q.CallID, Attempt: 1, MaxBytes: 1000},
					want: envelope.CodeNotFound})
			}
			table = append(table, asked{name: "output", as: as, op: subjects.OpPayload,
				q: envelope.PayloadRequest{Ref: of.Ref, SHA256: "00"}, want: envelope.CodeNotFound})
		}
	}
	key, err := subjects.ParseRef(ended.Ref)
	d.ok(err)
	ref, id := key.Tool, key.ID
	for _, wild := range []string{
		ref + ".*", ref + ".>", "*." + id, "*.*", ">", "." + id, ref + ".", "$KV.calls." + ended.Ref,
	} {
		for _, as := range []string{alice, mallory} {
			if got := d.say(asked{name: wild, as: as, token: d.crowd[as].token, op: subjects.OpResult,
				q: envelope.CallRef{Ref: wild}}); got != envelope.CodeNotFound && got != envelope.CodeMalformed {
				t.Errorf("the reference %q: %q", wild, got)
			}
		}
	}
	d.put(d.vouch(table))
	d.put(d.vouch(d.notForRoles()))
	d.finish()
}

// An agent that lists open calls gets only its own. An operator gets those of a tenant.
func TestListedCalls(t *testing.T) {
	t.Parallel()
	d := deploy(t)
	listed := func(p *party) (refs []string) {
		for c, err := range clientlib.OpenCalls(t.Context(), d.client(p), "", func(err error) error { return err }) {
			d.ok(err)
			refs = append(refs, c.Ref)
		}
		return refs
	}
	for as, want := range map[string]bool{alice: true, bob: false, mallory: false} {
		if refs := listed(d.crowd[as]); slices.Contains(refs, d.victim.Ref) != want || !want && len(refs) > 0 {
			t.Errorf("%s lists %q", as, refs)
		}
	}
	for tenant, want := range map[string]bool{"acme": true, "evil": false} {
		found := false
		for c, err := range d.operator().OpenCalls(t.Context(), tenant) {
			d.ok(err)
			found = found || c.Ref == d.victim.Ref
		}
		if found != want {
			t.Errorf("an operator sees the call in %s: %t", tenant, found)
		}
	}
	d.finish()
}

// Questions about what is another's are on record, although who asks may ask questions of the kind, and whoever asks
// about a call of others is told that there is none.
func TestRefusedQuestions(t *testing.T) {
	t.Parallel()
	d := deploy(t)
	d.put(d.vouch([]asked{
		{name: "the record of another tenant", as: auditor, op: subjects.OpStored,
			q: envelope.StreamReadRequest{Stream: subjects.AuditStream, Tenant: "evil"}, want: envelope.CodeForbidden},
		{name: "a token of the victim", as: bob, op: subjects.OpTokenNarrow, q: envelope.NarrowRequest{Actor: alice},
			want: envelope.CodeForbidden},
		{name: "a call of the victim", as: mallory, op: subjects.OpResult, want: envelope.CodeNotFound,
			q: envelope.CallRef{Ref: d.victim.Ref, CallID: d.victim.CallID}},
	}))
	d.recorded(refusals{{mallory, string(envelope.CodeNotFound)}: true})
	d.finish()
}

// notForRoles are questions of those who may not ask them.
func (d *devDeployment) notForRoles() (table []asked) {
	const no = envelope.CodeForbidden
	about := envelope.CallRef{Ref: d.victim.Ref, CallID: d.victim.CallID}
	for _, as := range []string{alice, bob, mallory, auditor, auditorOfAll, door, operator} {
		for _, op := range operation.Table() {
			if !op.Permits(d.crowd[as].Role) {
				table = append(table, asked{name: op.Name, as: as, op: op.Name, q: about, want: no})
			}
		}
	}
	table = append(table,
		asked{name: "the record of another tenant", as: auditor, op: subjects.OpStored,
			q: envelope.StreamReadRequest{Stream: subjects.AuditStream, Tenant: "evil"}, want: no},
		asked{name: "refusals of another tenant", as: auditor, op: subjects.OpStored,
			q: envelope.StreamReadRequest{Stream: subjects.DeniedStream, Tenant: "evil"}, want: no},
		asked{name: "dead letters", as: auditor, op: subjects.OpStored,
			q:    envelope.StreamReadRequest{Stream: subjects.DeadStream},
			want: no},
		asked{name: "more scopes than it has", as: bob, op: subjects.OpTokenNarrow,
			q: envelope.NarrowRequest{Scopes: []string{"admin"}}, want: no},
		asked{name: "a token of the victim", as: bob, op: subjects.OpTokenNarrow,
			q: envelope.NarrowRequest{Actor: alice}, want: no},
	)
	for _, as := range []string{alice, bob, mallory} {
		table = append(table, asked{name: "the open calls of a tenant", as: as, op: subjects.OpCallList,
			q: envelope.OpenCallsRequest{Tenant: "acme"}, want: no})
	}
	for name, q := range map[string]envelope.RunStartRequest{
		"a run of the victim":       {ID: "r1", Actors: []string{alice}},
		"a run of everybody":        {ID: "r1", Actors: []string{"agent:"}},
		"a run of another tenant":   {ID: "r1", Tenant: "evil"},
		"a run of a role of others": {ID: "r1", Role: "boss"},
	} {
		table = append(table, asked{name: name, as: bob, op: subjects.OpRunStart, q: q, want: envelope.CodeScope})
	}
	for _, s := range []string{"KV_calls", "KV_control", "KV_policy", "KV_runs", "PAYLOADS", "CHUNKS", "KV_pools"} {
		for _, as := range []string{auditor, auditorOfAll, operator} {
			table = append(table, asked{name: "messages of " + s, as: as, op: subjects.OpStored,
				q: envelope.StreamReadRequest{Stream: s}, want: envelope.CodeUnavailable})
		}
	}
	return table
}

// Nobody has the outcome of another's call by guessing its key, or its input by guessing its hash.
func TestGuesses(t *testing.T) {
	t.Parallel()
	d := deploy(t)
	large := append(append([]byte(`"`), make([]byte, envelope.MaxInline)...), '"')
	for i := range large[1 : len(large)-1] {
		large[1+i] = 'x'
	}
	for _, as := range []string{alice, bob, mallory} {
		c := d.victim.client
		if as != alice {
			c = d.client(d.crowd[as])
		}
		r, err := c.Call(t.Context(), clientlib.Call{Tool: "echo", Input: []byte(`"mine"`), Key: heldKey})
		d.ok(err)
		if r.Status != envelope.Success || r.Provenance.Replayed {
			t.Errorf("with the same key %s has %+v", as, r)
		}
		if as == bob { // of that tenant: a key that is shared by all of it is meant to be
			continue
		}
		r, err = c.Call(t.Context(), clientlib.Call{Tool: "echo", Input: []byte(`"shared"`), Key: heldKey,
			KeyScope: envelope.ScopeGlobal})
		d.ok(err)
		if r.Status != envelope.Success || r.Provenance.Replayed {
			t.Errorf("with the same key for all of a tenant %s has %+v", as, r)
		}
	}
	r, err := d.victim.client.Call(t.Context(), clientlib.Call{Tool: "echo", Input: large})
	d.ok(err)
	if r.Status != envelope.Success {
		t.Fatal(r)
	}
	ref := d.tap.header(subjects.Call("acme", alice, "echo"), subjects.HeaderInputRef)
	for _, as := range []string{bob, mallory} {
		got := d.say(asked{name: "another's input", as: as, token: d.crowd[as].token, input: "null",
			header: map[string]string{subjects.HeaderInputRef: ref}})
		if got != envelope.CodeInputMissing {
			t.Errorf("with the input of another %s has %q", as, got)
		}
	}
	d.finish()
}
