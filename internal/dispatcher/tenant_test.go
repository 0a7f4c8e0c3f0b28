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

// A question about a call of another actor is a denial on record, and one about a call that does not exist is not: both
// have the same answer.
func TestUnknownIsNotDenied(t *testing.T) {
	bubble(t, call.Pure, func(t *testing.T, w *world) {
		w.ask(1)
		ask := func(ref string) string {
			_, why := w.d.Why(t.Context(), from("stranger"), envelope.CallRef{Ref: ref})
			_, result := w.d.Result(t.Context(), from("stranger"), envelope.CallRef{Ref: ref})
			if why == nil || result == nil || why.Code != envelope.CodeNotFound || result.Message != why.Message {
				t.Fatalf("%s: %v, %v", ref, why, result)
			}
			return why.Fix
		}
		unknown := ask("echo.0123456789")
		if n := len(w.refusals()); n != 0 {
			t.Errorf("%d denials of what does not exist", n)
		}
		if known := ask(w.state().Ref()); known != unknown || len(w.refusals()) != 2 {
			t.Errorf("it says %q, not %q: recorded %v", known, unknown, w.refusals())
		}
	})
}
