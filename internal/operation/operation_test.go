package operation_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/operation"
)

// permitted lists the roles of each operation, independently of the table.
const permitted = `
result          agent operator
cancel          agent operator
answer          agent operator
why             agent operator
trace           agent operator
call_list       agent operator
chunks          agent operator
payload         agent operator
describe        agent door auditor operator
inventory       operator
executors       operator
health          operator
stored          auditor operator
replay          operator
token_renew     agent door auditor executor operator
token_narrow    agent door auditor operator
token_issue     operator
token_revoke    operator
token_list      operator
key_rotate      operator
lock            operator
unlock          operator
lock_kill       operator
locks           operator
repair          operator
repairs         operator
policy_part     operator
policy_push     operator
policy_history  operator
policy_read     operator
run_start       agent operator
run_change      agent operator
run_repin       operator
run_show        operator
run_list        operator
`

// Each role may use what the list says, and no operation is missing in it.
func TestRoles(t *testing.T) {
	want := map[string]bool{}
	for line := range strings.Lines(strings.TrimSpace(permitted)) {
		words := strings.Fields(line)
		want[words[0]] = true
		for _, role := range words[1:] {
			want[words[0]+" by "+role] = true
		}
	}
	for _, i := range operation.Table() {
		if !want[i.Name] {
			t.Errorf("%s is not in the list of this test", i.Name)
		}
		delete(want, i.Name)
		for _, role := range []operation.Role{
			operation.Agent, operation.Gateway, operation.Auditor, operation.Executor, operation.Operator,
		} {
			what := i.Name + " by " + string(role)
			if i.Permits(role) != want[what] {
				t.Errorf("%s: %t", what, i.Permits(role))
			}
			delete(want, what)
		}
	}
	if len(want) > 0 {
		t.Errorf("the table lacks %v", want)
	}
}

// Which operations are answered by all dispatchers, are only for the actor's own connection, take expired tokens, or
// are for operators about the calls of their tenant.
func TestProperties(t *testing.T) {
	all, own, expired, tenant := "", "", "", ""
	for _, i := range operation.Table() {
		add := func(to *string, is bool) {
			if is {
				*to += i.Name + " "
			}
		}
		add(&all, i.All)
		add(&own, i.Own)
		add(&expired, i.Expired)
		add(&tenant, i.CoversTenant(operation.Operator))
		if i.CoversTenant(operation.Agent) || i.CoversTenant(operation.Gateway) || i.CoversTenant(operation.Auditor) {
			t.Errorf("%s: others than operators see a tenant", i.Name)
		}
	}
	if all != "inventory " || own != "token_renew token_narrow " || expired != "token_renew " ||
		tenant != "result call_list why trace " {
		t.Errorf("all %q, own %q, expired %q, tenant %q", all, own, expired, tenant)
	}
}

// Nobody may use what is in no row.
func TestUnlisted(t *testing.T) {
	for _, i := range []operation.Info{operation.Named("no_such"), {}} {
		for _, role := range []operation.Role{operation.Agent, operation.Operator, ""} {
			if i.Permits(role) {
				t.Errorf("%q may use %+v", role, i)
			}
		}
	}
	i := operation.Named("why")
	if i.Subject("acme", "a.b") != "tb.svc.why.acme.a_2eb" || i.Wildcard() != "tb.svc.why.*.*" {
		t.Error(i.Subject("acme", "a.b"), i.Wildcard())
	}
}

// asker answers each request with a refusal and an error.
type asker struct {
	op string
	q  any
}

func (a *asker) Ask(_ context.Context, op string, q, answer any) (*envelope.Error, error) {
	a.op, a.q = op, q
	answer.(*envelope.WhyResponse).Sentence = "because"
	return envelope.NewError(envelope.CodeNotFound, ""), errors.ErrUnsupported
}

func TestAsk(t *testing.T) {
	var a asker
	got, refusal, err := operation.Why.Ask(t.Context(), &a, envelope.CallRef{Ref: "r"})
	if a.op != "why" || a.q != any(envelope.CallRef{Ref: "r"}) || got.Sentence != "because" ||
		refusal.Code != envelope.CodeNotFound || !errors.Is(err, errors.ErrUnsupported) {
		t.Error(a, got, refusal, err)
	}
}

// The text of an error has the reason that the tool's program has written, once and bounded.
func TestInFullHasTheReason(t *testing.T) {
	for stderr, want := range map[string]string{
		"": "S-TOOL-001: gone: exit status 2",
		"panic: boom\n\ngoroutine 1 [running]:\nmain.main()\n\t/tool/main.go:7\n": "S-TOOL-001: gone: exit status 2; " +
			"stderr of the tool: panic: boom",
		"Traceback:\n  File x\nValueError: no\n\n": "S-TOOL-001: gone: exit status 2; stderr of the tool: ValueError: no",
		"error: gone\n":          "S-TOOL-001: gone: exit status 2",
		strings.Repeat("é", 300): "S-TOOL-001: gone: exit status 2; stderr of the tool: " + strings.Repeat("é", 100),
	} {
		e := envelope.NewError(envelope.CodeToolFault, "gone").WithCause("exit status 2").WithStderr(stderr)
		if got := (&operation.Refusal{Reason: e}).Error(); got != want {
			t.Errorf("%q: %s, want %s", stderr, got, want)
		}
	}
}
