package dispatcher_test

import (
	"testing"

	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/auth"
	"github.com/seed-018f16cc/toolbus/internal/call"
	"github.com/seed-018f16cc/toolbus/internal/policy"
)

// A listing shows a tool of which at least one call could be allowed: with the roles, the lane and the scopes of the
// token, or without tokens in the role that the caller names.
func TestListing(t *testing.T) {
	bubble(t, call.Pure, func(t *testing.T, w *world) {
		w.manifest.Security.RequiredScopes = []string{"echo:say"}
		w.d.Policy = rules{lanes: "l, m", tools: "echo"}.in(w)
		type asked = envelope.DescribeRequest
		in := func(lane string, roles ...string) *auth.Principal {
			return &auth.Principal{Role: auth.Agent, RoleIDs: roles, Lane: lane, Scopes: []string{"echo:say"}}
		}
		for name, c := range map[string]struct {
			who   *auth.Principal
			q     asked
			shows bool
		}{
			"default role":     {in(""), asked{}, true},
			"another role":     {in("", "s"), asked{}, false},
			"one of its roles": {in("", "agent", "s"), asked{}, true},
			"the one it names": {in("", "agent", "s"), asked{RoleID: "s"}, false},
			"its lane":         {in("m"), asked{}, true},
			"a lane without":   {in("none"), asked{}, false},
			"no scope":         {&auth.Principal{Role: auth.Agent}, asked{}, false},
			"asks for all":     {in("", "s"), asked{All: true}, false},
			"operator":         {&auth.Principal{Role: auth.Operator}, asked{}, true},
			"no token":         {nil, asked{}, true},
			"no token, a role": {nil, asked{RoleID: "s"}, false},
			"no token, all":    {nil, asked{RoleID: "s", All: true}, true},
		} {
			l, refusal := w.d.Checks.Listing(auth.NewContext(t.Context(), c.who), c.q)
			if refusal != nil || l.Shows(w.manifest) != c.shows || l.Versions.Roles == "" {
				t.Errorf("%s: %t, %v, %v", name, l.Shows(w.manifest), refusal, l.Versions)
			}
		}
	})
}

// While no policy can be used, listings are refused as calls are, but for operators.
func TestListingWithoutPolicy(t *testing.T) {
	bubble(t, call.Pure, func(t *testing.T, w *world) {
		for err, code := range map[error]envelope.Code{
			policy.ErrStale: envelope.CodeUnavailable, policy.ErrUnusable: envelope.CodePolicyVersion,
			policy.ErrNone: envelope.CodePolicyVersion,
		} {
			w.d.Policy = rules{err: err}.in(w)
			l, refusal := w.d.Checks.Listing(t.Context(), envelope.DescribeRequest{})
			if refusal == nil || refusal.Code != code {
				t.Errorf("%v: %+v, %v", err, l, refusal)
			}
			operator := auth.NewContext(t.Context(), &auth.Principal{Role: auth.Operator})
			if l, refusal := w.d.Checks.Listing(operator, envelope.DescribeRequest{}); refusal != nil || !l.Shows(w.manifest) {
				t.Errorf("operator: %v: %v", err, refusal)
			}
		}
	})
}

// A description says what the entry of a tool restricts, also to operators.
func TestListingRestricts(t *testing.T) {
	for class, effect := range map[call.EffectClass]string{
		call.Idempotent: call.EffectIdempotentWrite, call.Pure: call.EffectPure,
	} {
		bubble(t, class, func(t *testing.T, w *world) {
			for once, want := range map[bool]call.EffectClass{false: class, true: call.SideEffectful} {
				w.d.Policy = rules{lanes: "l, m", tools: "echo", once: once}.in(w)
				l, _ := w.d.Checks.Listing(t.Context(), envelope.DescribeRequest{All: true})
				info := envelope.ToolInfo{ToolID: "echo", Version: "1.2.3", TimeoutDefaultMS: 5000,
					Determinism: string(class), Effect: effect}
				if l.Restrict(&info); info.TimeoutDefaultMS != 1000 || info.Determinism != string(want) ||
					(info.Effect == call.EffectNonIdempotentWrite) != once || info.ReadOnly != (once && class == call.Pure) {
					t.Errorf("%+v", info)
				}
				unknown := envelope.ToolInfo{ToolID: "other", TimeoutDefaultMS: 5000}
				if l.Restrict(&unknown); unknown.TimeoutDefaultMS != 5000 {
					t.Errorf("%+v", unknown)
				}
			}
		})
	}
}
