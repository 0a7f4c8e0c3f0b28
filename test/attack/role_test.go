package attack

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/seed-018f16cc/toolbus/internal/auth"
	"github.com/seed-018f16cc/toolbus/internal/timer/timertest"
)

// carol is an agent of the tenant acme whose tokens are for parts of what she does.
const carol = "agent://carol"

// raw is a connection of a holder of a token, who writes and reads bytes.
type raw struct {
	*rawConn
	d     *devDeployment
	token string
	words int
}

// asksAgain is when a client sends its message again: a refusal that could not be recorded in time is not sent.
const asksAgain = 2 * time.Second

// as connects with a token, and hears the answers below each prefix.
func (d *devDeployment) as(token string, prefixes ...string) *raw {
	d.Helper()
	r := &raw{rawConn: d.rawDial(rawOptions{token: token, name: "raw"}), d: d, token: token}
	for _, prefix := range prefixes {
		d.ok(r.subscribe(prefix + ">"))
	}
	d.ok(r.flush())
	return r
}

// inSubject writes a name as it stands in a subject.
func inSubject(name string) string { return strings.NewReplacer(":", "_3a", "/", "_2f").Replace(name) }

func answersOf(tenant, actor string) string { return "tb.ans." + tenant + "." + inSubject(actor) + "." }

// say publishes a message with a token, and returns the body of the last word on it, which comes below a prefix.
func (r *raw) say(subject, token, below, body string) string {
	r.d.Helper()
	r.words++
	word := fmt.Sprintf("attack%d", r.words)
	prefix := strings.Join(strings.Split(below, ".")[:4], ".") + "."
	header := rawHeader("Tb-Token: "+token, "Tb-Answer: "+strings.TrimPrefix(below, prefix)+word,
		"Content-Type: application/json", "Tb-Patient: 1")
	answered := func(m rawMsg) bool { return m.subject == below+word && len(m.body) > 0 }
	for end := time.Now().Add(rawTime); ; {
		r.d.ok(r.publish(subject, below+word, header, body))
		m, err := r.awaitFor(asksAgain, answered)
		if errors.Is(err, errNothing) && time.Now().Before(end) {
			continue
		}
		r.d.ok(err)
		return string(m.body)
	}
}

func (r *raw) ask(op, tenant, actor, token, below, body string) string {
	r.d.Helper()
	return r.say("tb.svc."+op+"."+tenant+"."+inSubject(actor), token, below, body)
}

// refused checks that an answer is a refusal with a code, and tells nothing that it must not.
func (d *devDeployment) refused(what, answer, code string, secrets ...string) {
	d.Helper()
	if !strings.Contains(answer, `"code":"`+code+`"`) {
		d.Errorf("%s: want %s, and the answer is %.600s", what, code, answer)
	}
	for _, secret := range append(secrets, `"token":"`) {
		if strings.Contains(answer, secret) {
			d.Errorf("%s: the answer has %s: %.600s", what, secret, answer)
		}
	}
}

// H3: a token of a role that calls nothing is made into an agent's, which calls tools.
func TestOtherRolesBecomeNoAgents(t *testing.T) {
	t.Parallel()
	d := deploy(t)
	for _, as := range []string{door, auditor, auditorOfAll, operator} {
		p := d.crowd[as]
		answers := answersOf(p.Tenant, as)
		r := d.as(p.token, answers)
		got := r.ask("token_narrow", p.Tenant, as, p.token, answers,
			`{"form":2,"actor":"`+as+`/x","scopes":[]}`)
		d.refused("narrow to a sub-actor, as "+as, got, "A-AUTH-FORBIDDEN")
		if got := r.ask("token_narrow", p.Tenant, as, p.token, answers, `{"form":2}`); !strings.Contains(got, `"token":"`) {
			t.Errorf("as %s, to the same role: %.600s", as, got)
		}
	}
	d.finish()
}

// H9: a door keeps the rights of a token that passed through it, and of one that has expired.
func TestDoorsMakeNoTokens(t *testing.T) {
	t.Parallel()
	d := deploy(t)
	of := auth.Principal{Tenant: "acme", Actor: carol, Role: auth.Agent, RenewUntil: time.Now().Add(time.Hour)}
	fresh, _ := d.token(of)
	of.Issued, of.Expires = time.Now().Add(-time.Hour), time.Now().Add(-time.Minute)
	expired, _ := d.token(of)
	answers := answersOf("acme", carol)
	r := d.as(d.crowd[door].token, answers)
	for name, token := range map[string]string{"a good token": fresh, "an expired token": expired} {
		got := r.ask("token_renew", "acme", carol, token, answers, `{"form":2}`)
		d.refused("renew "+name, got, "A-AUTH-IDENTITY")
	}
	got := r.ask("token_narrow", "acme", carol, fresh, answers, `{"form":2}`)
	d.refused("narrow", got, "A-AUTH-IDENTITY")
	if got := r.ask("describe", "acme", carol, fresh, answers, `{"form":2}`); !strings.Contains(got, `"tool_id":"echo"`) {
		t.Errorf("a question that a door may bring: %.600s", got)
	}
	own := d.as(fresh, answers)
	if got := own.ask("token_renew", "acme", carol, fresh, answers, `{"form":2}`); !strings.Contains(got, `"token":"`) {
		t.Errorf("over its own connection: %.600s", got)
	}
	d.recorded(refusals{{carol, "A-AUTH-IDENTITY"}: true})
	d.finish()
}

// H10: an operator calls tools through a door, since it may not publish calls itself.
func TestOperatorsCallNothing(t *testing.T) {
	t.Parallel()
	d := deploy(t)
	gate, _ := d.token(auth.Principal{Tenant: "evil", Actor: "door://evil", Role: auth.Gateway})
	for _, as := range []string{operator, auditorOfAll, "door://evil"} {
		token := gate
		if p := d.crowd[as]; p != nil {
			token = p.token
		}
		answers := answersOf("evil", as)
		r := d.as(gate, answers)
		got := r.say("tb.call.evil."+inSubject(as)+".vault", token, answers,
			rawRequest("vault", as, uuid.NewString(), "", ""))
		d.refused("a call, as "+as, got, "A-AUTH-FORBIDDEN", "gold")
	}
	d.recorded(refusals{{operator, "A-AUTH-FORBIDDEN"}: true, {auditorOfAll, "A-AUTH-FORBIDDEN"}: true})
	d.finish()
}

// rawRequest is a request, as JSON.
func rawRequest(tool, actor, callID, run, key string) string {
	if run != "" {
		run = `"run_id":"` + run + `",`
	}
	if key == "" {
		key = callID
	}
	return fmt.Sprintf(`{"call_id":%q,"tool_id":%q,"tool_version":"*","fn":"run","input":"in","context":{%s"actor_id":%q,`+
		`"trace_id":"5d415971-e1b7-430a-8b5c-87d7bb21d42b","timezone":"UTC","env":"dev"},"constraints":{"timeout_ms":60000,`+
		`"deadline_unix_ms":0,"idempotency_key":%q}}`, callID, tool, run, actor, key)
}

// H11: the token of a sub-actor that was minted with the keys outlives the revocation of its actor.
func TestSubActorsEndWithTheirActor(t *testing.T) {
	t.Parallel()
	d := deploy(t)
	sub := auth.Principal{
		Tenant: "acme", Actor: carol + "/part/of", Role: auth.Agent, RenewUntil: time.Now().Add(time.Hour),
	}
	token, _ := d.token(sub)
	sub.Actor = carol + "s" // another actor
	other, _ := d.token(sub)
	answers, bystanders := answersOf("acme", carol+"/part/of"), answersOf("acme", carol+"s")
	r, bystander := d.as(token, answers), d.as(other, bystanders)
	boss := d.as(d.crowd[operator].token, answersOf("evil", operator))
	got := boss.ask("token_revoke", "evil", operator, d.crowd[operator].token, answersOf("evil", operator),
		`{"form":2,"tenant":"acme","actor":"`+carol+`"}`)
	watch := timertest.StartStallMeter()
	defer watch.End()
	revoked := time.Now()
	if !strings.Contains(got, `"families":0`) {
		t.Errorf("nothing is listed: %s", got)
	}
	err := r.until(func() bool { return false })
	if took := time.Since(revoked); err == nil || took > time.Second+watch.Late() {
		t.Errorf("after %s the connection has ended with %v", took, err)
	}
	if c, err := rawConnect(rawOptions{url: d.url, tls: d.tls, token: token, name: "raw"}); err == nil {
		_ = c.conn.Close()
		t.Error("the sub-actor connects again")
	}
	// Through a door its messages are refused, too.
	gate := d.as(d.crowd[door].token, answers)
	got = gate.say("tb.call.acme."+inSubject(carol+"/part/of")+".echo", token, answers,
		rawRequest("echo", carol+"/part/of", uuid.NewString(), "", ""))
	d.refused("a call through a door", got, "A-AUTH-REVOKED")
	got = bystander.ask("describe", "acme", carol+"s", other, bystanders, `{"form":2}`)
	if !strings.Contains(got, `"tool_id":"echo"`) {
		t.Errorf("a bystander: %.600s", got)
	}
	d.finish()
}
