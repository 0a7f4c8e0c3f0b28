package attack

import (
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-018f16cc/toolbus/internal/auth"
	"github.com/seed-018f16cc/toolbus/subjects"
)

// Permissions do not cover reply subjects: the server, and whoever answers, would publish there with their own rights.
// Whatever a role may publish to, with whatever reply, nothing comes where the role may not publish.
func TestReplies(t *testing.T) {
	t.Parallel()
	d := deploy(t)
	replies, tools := d.hostile(), map[string][]string{"default": {"hold", "echo"}, "other": {"vault"}}
	for _, as := range everybody() {
		p := d.crowd[as]
		allowed := auth.Permissions(p.Principal, auth.PermissionInputs{
			Partitions: 1, Instance: p.instance, Tools: tools[p.Pool],
		}).Pub.Allow
		if len(allowed) == 0 {
			t.Fatal("there is a role that may publish to everything: ", as)
		}
		for _, pattern := range allowed {
			d.answeredElsewhere(p, pattern, replies)
		}
	}
	d.finish()
}

// hostile are subjects on which an answer would do harm.
func (d *devDeployment) hostile() []string {
	d.Helper()
	key, err := subjects.ParseRef(d.victim.Ref)
	d.ok(err)
	acme := subjects.Token("acme") + "." + subjects.Token(alice)
	return []string{
		"$JS.API.STREAM.DELETE.AUDIT", "$JS.API.STREAM.DELETE.CHUNKS", "$JS.API.STREAM.PURGE.DEAD",
		"$JS.API.STREAM.PURGE.KV_pools", "$JS.API.CONSUMER.DELETE.KV_calls.exec_default_normal",
		"$JS.API.STREAM.INFO.KV_control", "$JS.ACK.KV_calls.exec_default_normal.1.1.1.1.0",
		key.Outcome(1, d.real), key.Claim(1, d.real), key.Request(2, "0.1.0", "high", "default"),
		subjects.PoolSubject("default", d.real), subjects.Revoked(d.crowd[alice].Family), subjects.SigningKey("00"),
		subjects.Partition(0).Audit("acme"), subjects.Denied("d", "acme"), subjects.Dead("acme", "hold"),
		chunkOf(key), subjects.Owner{Tenant: "acme", Actor: alice}.On("default").Payload("00", 0),
		"tb.ans." + acme + ".guess.guess", "_INBOX." + acme + ".guess", subjects.InboxOf(d.real) + ".guess",
		subjects.Call("acme", alice, "hold"), subjects.Service("cancel", "acme", alice),
		subjects.ExecutorRequest(subjects.OpDead, "default", d.real), subjects.ExecutorReply("default", d.real, "guess"),
		subjects.Kill(key.ID), subjects.Locate(key.ID), subjects.JoinerLeft,
		"$SYS.REQ.SERVER.PING", "$SYS.REQ.USER.AUTH", "$SRV.PING", "_R_.guess.guess",
	}
}

// concrete is a subject that a pattern allows, on which somebody answers.
func concrete(pattern string) string {
	s := strings.NewReplacer(
		"tb.svc.*", "tb.svc.describe", "tb.exe.*", "tb.exe.hello", "$JS.ACK.KV_calls.", "$JS.ACK.KV_calls.",
	).Replace(pattern)
	if rest, ok := strings.CutSuffix(s, ">"); ok {
		end := "aa.0"
		switch {
		case strings.HasPrefix(s, "$JS.ACK."):
			end = "1.99999.99999.1.0"
		case strings.HasPrefix(rest, "tb.chunk"), strings.HasSuffix(rest, ".tb.chunk."):
			end = "evil.x.x.1.1.default"
		case strings.HasSuffix(rest, "tb.payload."):
			end = "evil.x.aa.0.default"
		}
		s = rest + end
	}
	return strings.ReplaceAll(s, "*", "x")
}

// answeredElsewhere publishes to a subject, with each of the replies, what the server or a dispatcher answers.
func (d *devDeployment) answeredElsewhere(p *party, pattern string, replies []string) {
	d.Helper()
	what, subject := p.Actor+", "+pattern, concrete(pattern)
	body := "attack-" + auth.NewID()
	header := nats.Header{
		subjects.HeaderToken: {p.token}, subjects.HeaderAnswer: {"x.x"}, subjects.HeaderEvent: {"{}"},
		jetstream.ExpectedLastSubjSeqHeader: {"99999"}, // it is answered, and not stored
	}
	stored, direct := strings.CutPrefix(subject, "$JS.API.DIRECT.GET.PAYLOADS.")
	if !direct {
		stored, direct = strings.CutPrefix(subject, "$JS.API.DIRECT.GET.CHUNKS.")
	}
	if direct { // the answer is what the attacker has chosen
		d.ok(p.nc.PublishMsg(&nats.Msg{Subject: stored, Header: nats.Header{subjects.HeaderKind: {"outcome"}},
			Data: []byte(body)}))
		d.ok(p.nc.Flush())
	}
	sending := body
	switch {
	case direct, strings.HasPrefix(subject, "$JS.API.DIRECT.GET."):
		sending, header = "", nil
	case strings.HasPrefix(subject, "$JS.API.CONSUMER.MSG.NEXT."):
		sending = `{"batch":1,"no_wait":true}` // nothing waits: the answer is an empty one
	case strings.HasPrefix(subject, "$JS.ACK."):
		sending = "+ACK"
	}
	before := d.look()
	for _, reply := range replies {
		d.ok(p.nc.PublishMsg(&nats.Msg{Subject: subject, Reply: reply, Header: header, Data: []byte(sending)}))
	}
	d.judge(what, p, "Publish", subject, inVain)
	d.settled(p, subject, sending)
	heard := strings.Replace(subject, "tb.payload.", "tb.part.", 1) // where dispatchers hear it
	d.unharmed(what, before, sent{own: []string{subject, stored, heard}, bodies: map[string]string{body: what}})
}

// settled waits until what a party has asked before is answered: the same question once more.
func (d *devDeployment) settled(p *party, subject, body string) {
	if strings.HasPrefix(subject, "$JS.API.DIRECT.GET.") {
		_, err := p.nc.Request(subject, []byte(body), 5*time.Second)
		d.ok(err)
	}
	d.ok(p.nc.Flush())
}
