package attack

import (
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/auth"
	"github.com/seed-018f16cc/toolbus/internal/call"
	"github.com/seed-018f16cc/toolbus/internal/encoding/format"
	"github.com/seed-018f16cc/toolbus/kv"
	"github.com/seed-018f16cc/toolbus/subjects"
)

// Executors write events of their tools themselves, and with them whatever they like. Where a call is to be answered
// is one of these things, and dispatchers publish there with their own rights: only where answers are, and nothing
// about calls that nobody has made.
func TestForgedEvents(t *testing.T) {
	t.Parallel()
	d := deploy(t)
	replies := append(d.hostile(), "x%0d%0aPUB $JS.API.STREAM.DELETE.CHUNKS 0%0d%0a%0d%0a", ">", "*")
	before, word := d.look(), subjects.Answers("acme", alice)+"WORD"
	var forged []subjects.Key
	for as, tool := range map[string]string{insider: "echo", outsider: "vault"} {
		p := d.crowd[as]
		for _, reply := range replies {
			id := auth.NewID()
			key := subjects.Key{Tool: tool, ID: id}
			forged = append(forged, key)
			v := call.Admit(call.State{}, call.AdmitRequest{
				Owner:       call.Owner{CallID: id, Actor: alice, Reply: word, ContentType: envelope.ContentJSON},
				Fingerprint: "f", Priority: envelope.PriorityNormal, Nonce: "n" + id,
				Pinned: call.Pinned{
					Tenant: "acme", Tool: tool, ID: id, Version: "0.1.0", Class: call.Pure, Pool: p.Pool, Fingerprint: "f",
				},
				// As if the request had expired: it is past its deadline.
				Deadline: call.At(time.Now().Add(-300 * time.Millisecond)), Now: call.At(time.Now().Add(-time.Second)),
			})
			e := v.Event
			e.Kind, e.Nonce = call.Claimed, p.instance+".1"
			e.State.Attempts[0].Admitted = 1
			e.State.Attempts[0].Claim = &call.Claim{By: subjects.Instance(p.Pool, p.instance), Nonce: e.Nonce,
				Fence: 1, Count: 1}
			d.ok(p.nc.PublishMsg(&nats.Msg{Subject: key.Claim(1, p.instance), Data: []byte(`{"request":{}}`),
				Header: nats.Header{subjects.HeaderEvent: {strings.ReplaceAll(kv.EncodeEvent(e), "WORD", reply)}}}))
		}
		d.ok(p.nc.Flush())
	}
	d.bystander()
	d.followed()
	log, err := d.js.Stream(t.Context(), subjects.Partition(0).Stream())
	d.ok(err)
	for _, key := range forged {
		if last, err := log.GetLastMsgForSubject(t.Context(), key.Filter()); err != nil || strings.Contains(last.Subject,
			".o.") {
			t.Errorf("the log of a call that nobody has made ends with %v, %v", last, err)
		}
	}
	for _, on := range d.tap.answers() {
		if !strings.HasPrefix(on, "tb.ans.") {
			t.Errorf("a dispatcher has answered on %s", on)
		}
	}
	after := d.look()
	for name, was := range before.streams {
		if is, ok := after.streams[name]; !ok || !is.Created.Equal(was.Created) || is.State.FirstSeq > max(1,
			was.State.FirstSeq) && name != subjects.PoolsStream {
			t.Errorf("the stream %s is not what it was", name)
		}
	}
	d.finish()
}

// deskRow is a question of an executor, and what it is told.
type deskRow struct {
	name    string
	as      string
	op      string
	body    string
	refused envelope.Code // "" is an answer without anything of others
}

// asked asks dispatchers as an executor does, and returns the answer.
func (d *devDeployment) asked(p *party, op string, body []byte) *nats.Msg {
	d.Helper()
	word := auth.NewID()
	answers, err := p.nc.SubscribeSync(subjects.ExecutorAnswers(p.Pool, p.instance) + word)
	d.ok(err)
	defer func() { d.ok(answers.Unsubscribe()) }()
	d.ok(p.nc.PublishMsg(&nats.Msg{
		Subject: subjects.ExecutorRequest(op, p.Pool, p.instance),
		Header:  nats.Header{subjects.HeaderAnswer: {word}}, Data: body,
	}))
	msg, err := answers.NextMsg(5 * time.Second)
	d.ok(err)
	return msg
}

// An executor is told of the calls of its pool, and nothing of others, and puts on record nothing of theirs.
func TestDesk(t *testing.T) {
	t.Parallel()
	d := deploy(t)
	key, err := subjects.ParseRef(d.victim.Ref)
	d.ok(err)
	about := `"tool":"hold","id":"` + key.ID + `"`
	const no, none = envelope.CodeForbidden, envelope.CodeMalformed
	table := []deskRow{
		{"the log of a call of another pool", outsider, subjects.OpLog, about, no},
		{"its events, by position", outsider, subjects.OpLog, `"seq":1`, no},
		{"all logs of a tool", outsider, subjects.OpLog, `"tool":"hold","id":"*"`, ""},
		{"all logs", outsider, subjects.OpLog, `"tool":"*","id":">"`, ""},
		{"a log beside the tool", outsider, subjects.OpLog, `"tool":"hold.x","id":"` + key.ID + `"`, ""},
		{"a log in the place of an id", outsider, subjects.OpLog, `"tool":"vault","id":"x.1.q.>"`, ""},
		{"a partition that is none", outsider, subjects.OpLog, `"part":7,"seq":1`, envelope.CodeUnavailable},
		{"a partition before the first", outsider, subjects.OpLog, `"part":-1,"seq":1`, envelope.CodeUnavailable},
		{"a late result", outsider, subjects.OpLate, about + `,"record":"x","attempt":1,"fence":1`, no},
		{"a dead letter", outsider, subjects.OpDead, `"state":{"tool":"hold","id":"` + key.ID +
			`"},"attempt":1,"cause":{"code":"L-LOST-EXECUTOR"}`, ""},
		{"the record of a partition that is none", outsider, subjects.OpCovered, `"part":9,"seq":1`, none},
		{"what is no question", outsider, subjects.OpLog, `"seq":"x"`, none},
	}
	now := d.look()
	for _, r := range table {
		p := d.crowd[r.as]
		body, err := format.Marshal(format.Message, jsontext.Value("{"+r.body+"}"))
		d.ok(err)
		msg := d.asked(p, r.op, body)
		told := len(msg.Data) > 0 || msg.Header.Get(subjects.HeaderEvent) != ""
		refused := msg.Header.Get(subjects.HeaderKind) == envelope.KindRefusal
		if r.refused == "" && told && !refused || r.refused != "" && (!refused || d.refusal(msg) != r.refused) {
			t.Errorf("%s, as %s: %v: %s", r.name, r.as, msg.Header, msg.Data)
		}
		now = d.unharmed(r.name, now, sent{own: []string{subjects.ExecutorRequest(r.op, p.Pool, p.instance)}})
	}
	var asked []row
	for _, op := range []string{subjects.OpHello, subjects.OpLog, subjects.OpDead, subjects.OpLate, subjects.OpBeat} {
		asked = append(asked,
			row{name: "ask " + op + " as another", as: everybody(), publish: subjects.ExecutorRequest(op, "default", d.real)},
			row{name: "ask " + op + " in another pool", as: append(callers(), outsider),
				publish: subjects.ExecutorRequest(op, "default", d.crowd[outsider].instance)})
	}
	asked = append(asked,
		row{name: "answer a kill as another", as: everybody(), publish: subjects.ExecutorReply("default", d.real, "x")},
		row{name: "kill", as: everybody(), publish: subjects.Kill(key.ID)},
		row{name: "seek", as: everybody(), publish: subjects.Locate(key.ID)},
		row{name: "leave", as: everybody(), publish: subjects.JoinerLeft},
		row{name: "answer a call", as: callers(), publish: subjects.Answers("acme", alice) + "guess.guess"},
		row{name: "call as the victim", as: []string{bob, mallory, auditor, auditorOfAll, operator, insider, outsider},
			publish: subjects.Call("acme", alice, "echo")},
		row{name: "ask as the victim", as: []string{bob, mallory, auditor, auditorOfAll, operator, insider, outsider},
			publish: subjects.Service(subjects.OpResult, "acme", alice)},
		row{name: "call for another tenant", as: []string{door}, publish: subjects.Call("evil", mallory, "echo")},
		row{name: "ask for another tenant", as: []string{door},
			publish: subjects.Service(subjects.OpResult, "evil", mallory)},
	)
	for i := range asked {
		asked[i].refused = byServer
	}
	d.try(asked)
	out := d.crowd[outsider]
	d.recorded(refusals{{"executor://" + out.Pool + "/" + out.instance, string(no)}: true})
	d.finish()
}

// The server drops a message with an id that it has had. Nobody keeps the outcome of another's call out of the log by
// sending messages with the ids that it will have.
func TestTakenIDs(t *testing.T) {
	t.Parallel()
	d := deploy(t)
	key, err := subjects.ParseRef(d.victim.Ref)
	d.ok(err)
	for as, tool := range map[string]string{insider: "echo", outsider: "vault"} {
		p := d.crowd[as]
		for n := range int64(100) {
			id := key.ID + "." + d.real + "." + strconv.FormatInt(n, 36)
			d.ok(p.nc.PublishMsg(&nats.Msg{Subject: subjects.Key{Tool: tool, ID: "x"}.Claim(1, p.instance), Data: []byte("x"),
				Header: nats.Header{jetstream.MsgIDHeader: {id}}}))
		}
		d.ok(p.nc.Flush())
	}
	d.finish()
}

// An executor writes an event of its own tool as no build reads it. Dispatchers take what they cannot read for that of
// a newer build, behind which they stand by: not so where an executor wrote it.
func TestUnreadableEvent(t *testing.T) {
	t.Parallel()
	d := deploy(t)
	p := d.crowd[insider]
	for _, subject := range []string{
		subjects.Key{Tool: "echo", ID: "forged1"}.Claim(1, p.instance),
		subjects.Key{Tool: "echo", ID: "forged2"}.Outcome(1, p.instance),
		"$KV.calls.echo.forged3.none.c." + subjects.Token(p.instance), // the server allows any attempt
		"$KV.calls.echo._zz.0.x.o." + subjects.Token(p.instance),      // and any id
	} {
		d.ok(p.nc.PublishMsg(&nats.Msg{Subject: subject, Header: nats.Header{subjects.HeaderEvent: {"99;f|x"}}}))
	}
	d.ok(p.nc.Flush())
	d.bystander()
	d.finish()
}
