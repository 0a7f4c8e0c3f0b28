package dispatcher_test

import (
	"testing"

	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/auth"
	"github.com/seed-018f16cc/toolbus/internal/call"
)

// An operator reads the outcome and the explanation of each call of its tenant, without its call id, but no chunks, and
// ends none. Auditors, and operators of other tenants, read nothing.
func TestOperatorsSeeTheirTenant(t *testing.T) {
	bubble(t, call.Pure, func(t *testing.T, w *world) {
		w.ask(1)
		q := envelope.CallRef{Ref: w.state().Ref()}
		by := func(role auth.Role, tenant string) (a envelope.ResultResponse, found bool) {
			t.Helper()
			ctx := auth.NewContext(t.Context(), &auth.Principal{Role: role, Tenant: tenant, Actor: "o"})
			sender := call.Sender{Tenant: tenant, Actor: "o"}
			a, result := w.d.Result(ctx, sender, q)
			why, explained := w.d.Why(ctx, sender, q)
			if (explained == nil) != (result == nil) || (why.Sentence == "") != (result != nil) {
				t.Errorf("%s of %s: result %v, why %v", role, tenant, result, explained)
			}
			_, chunks := w.d.StateOf(ctx, sender, q, 1)
			_, cancel := w.d.Cancel(ctx, sender, q)
			if chunks == nil || cancel == nil {
				t.Errorf("%s of %s: chunks %v, cancel %v", role, tenant, chunks, cancel)
			}
			return a, result == nil
		}
		if a, found := by(auth.Operator, "t"); !found || a.Accepted.CallID != uuid(1) {
			t.Errorf("open: %+v", a)
		}
		for role, tenant := range map[auth.Role]string{auth.Operator: "u", auth.Auditor: "t", auth.Agent: "t"} {
			if a, found := by(role, tenant); found {
				t.Errorf("%s of %s: %+v", role, tenant, a)
			}
		}
		w.decide("")
		if a, found := by(auth.Operator, "t"); !found || a.Response.CallID != uuid(1) || a.Response.Check() != nil {
			t.Errorf("decided: %+v", a)
		}
	})
}
