package store_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/call"
	"github.com/seed-018f16cc/toolbus/internal/natsserver/bustest"
	"github.com/seed-018f16cc/toolbus/internal/policy"
	"github.com/seed-018f16cc/toolbus/internal/policy/store"
	"github.com/seed-018f16cc/toolbus/internal/tool"
)

// desk is a service whose record fails with err.
func desk(s shelf, err error) *store.Service {
	return &store.Service{
		Store:  s.Store,
		Record: func(context.Context, call.Sender, envelope.PolicyPushRequest) error { return err },
	}
}

var root = call.Sender{Tenant: "default", Actor: "operator://root"}

// Each request of an operator that cannot be served has a code and a fix.
func TestServiceRefuses(t *testing.T) {
	s := open(t, bustest.Start(t))
	d, good := desk(s, nil), set("good").Versions()
	s.put(set("good"))
	bad := set("bad")
	bad.Lanes = []byte("lanes: []\n")
	s.put(bad)
	push := func(q envelope.PolicyPushRequest) *envelope.Error {
		_, refusal := d.Push(t.Context(), root, q)
		return refusal
	}
	part := func(q envelope.PolicyPartRequest) *envelope.Error {
		_, refusal := d.Part(t.Context(), q)
		return refusal
	}
	read := func(q envelope.PolicyReadRequest) *envelope.Error {
		_, refusal := d.Read(t.Context(), q)
		return refusal
	}
	for name, c := range map[string]struct {
		refusal *envelope.Error
		code    envelope.Code
	}{
		"no digest": {push(envelope.PolicyPushRequest{}), envelope.CodeMalformed},
		"a long reason": {
			push(envelope.PolicyPushRequest{Versions: good, Reason: strings.Repeat("x", 1001)}), envelope.CodeMalformed,
		},
		"not in force":    {push(envelope.PolicyPushRequest{Versions: good, Expected: 7}), envelope.CodePolicyVersion},
		"invalid":         {push(envelope.PolicyPushRequest{Versions: bad.Versions()}), envelope.CodeMalformed},
		"not stored":      {push(envelope.PolicyPushRequest{Versions: set("other").Versions()}), envelope.CodeNotFound},
		"part: no digest": {part(envelope.PolicyPartRequest{SHA256: "../x"}), envelope.CodeMalformed},
		"part: negative":  {part(envelope.PolicyPartRequest{SHA256: good.Roles, Part: -1}), envelope.CodeMalformed},
		"part: too far":   {part(envelope.PolicyPartRequest{SHA256: good.Roles, Part: 65}), envelope.CodeMalformed},
		"part: too large": {
			part(envelope.PolicyPartRequest{SHA256: good.Roles, Body: make([]byte, envelope.PolicyPartBytes+1)}),
			envelope.CodeMalformed,
		},
		"read: no digest":  {read(envelope.PolicyReadRequest{SHA256: "*"}), envelope.CodeMalformed},
		"read: not stored": {read(envelope.PolicyReadRequest{SHA256: good.Roles, Part: 1}), envelope.CodeNotFound},
	} {
		if c.refusal == nil || c.refusal.Code != c.code || c.refusal.Fix == "" {
			t.Errorf("%s: %v, want %s", name, c.refusal, c.code)
		}
	}
	if a, refusal := d.History(t.Context()); refusal != nil || len(a.Versions) != 0 {
		t.Errorf("the history: %+v, %v", a, refusal)
	}
}

// A refused push names all problems of a set, each with its place: those of the documents, and those of their fit to
// the tools.
func TestServiceNamesAllProblems(t *testing.T) {
	s := open(t, bustest.Start(t), &tool.Manifest{
		ToolID: "a", Semver: "1.0.0", Status: tool.StatusActive, Class: call.SideEffectful,
	})
	bad := set("bad")
	bad.Roles = []byte("roles: [{role_id: agent, allowed_lanes: [main, nowhere]}]\n")
	bad.ToolRegistry = []byte("tools: [{tool_name: a, description: d, enabled: true, idempotent: true, " +
		"timeout_default_ms: 1, allowed_lanes: [main], required_scope_keys: [], prohibited_flags: [], " +
		"write_targets: ['*']}]\n")
	s.put(bad)
	_, refusal := desk(s, nil).Push(t.Context(), root, envelope.PolicyPushRequest{Versions: bad.Versions()})
	if refusal == nil || !strings.Contains(refusal.Message, "2 problems") {
		t.Fatalf("refused with %v", refusal)
	}
	for i, want := range []struct{ place, says string }{
		{policy.RolesFile + ":1:", `no lane "nowhere"`}, {policy.ToolRegistryFile + ":1:", "no lane with write: true"},
	} {
		v := refusal.Details.Violations[i]
		if !strings.HasPrefix(v.Pointer, want.place) || !strings.Contains(v.Message, want.says) {
			t.Errorf("violation %d is %+v, want %+v", i, v, want)
		}
	}
}

// A push that cannot be recorded does not come in force.
func TestUnrecordedPush(t *testing.T) {
	s := open(t, bustest.Start(t))
	s.put(set("one"))
	q := envelope.PolicyPushRequest{Versions: set("one").Versions()}
	if _, refusal := desk(s, errors.New("no room")).Push(t.Context(), root, q); refusal == nil ||
		refusal.Code != envelope.CodeAuditLag {
		t.Errorf("the answer is %v", refusal)
	}
	if _, err := s.inForce(); !errors.Is(err, policy.ErrNone) {
		t.Errorf("in force: %v", err)
	}
	if _, refusal := desk(s, nil).Push(t.Context(), root, q); refusal != nil {
		t.Error(refusal)
	}
}

// A push is on record only if it is carried out. A copy of it is neither recorded nor stored again.
func TestPushesOnRecord(t *testing.T) {
	s := open(t, bustest.Start(t))
	recorded := 0
	d := &store.Service{Store: s.Store, Record: func(context.Context, call.Sender, envelope.PolicyPushRequest) error {
		recorded++
		return nil
	}}
	s.put(set("one"))
	q := envelope.PolicyPushRequest{Versions: set("one").Versions(), Expected: 7}
	if _, refusal := d.Push(t.Context(), root, q); refusal == nil || recorded != 0 {
		t.Errorf("refused with %v, and recorded %d times", refusal, recorded)
	}
	q.Expected = 0
	ctx := call.NewContext(t.Context(), call.Credential{Request: "id"})
	first, refusal := d.Push(ctx, root, q)
	again, refusedAgain := d.Push(ctx, root, q)
	if refusal != nil || refusedAgain != nil || first != again || recorded != 1 {
		t.Errorf("revisions %d and %d, %v, %v, recorded %d times", first.Revision, again.Revision, refusal, refusedAgain,
			recorded)
	}
}
