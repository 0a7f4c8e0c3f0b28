package attack

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/seed-018f16cc/toolbus"
	"github.com/seed-018f16cc/toolbus/internal/auth"
	"github.com/seed-018f16cc/toolbus/subjects"
)

// TestReflections attacks by reply subjects, which permissions do not cover: a client can have the server, or a
// dispatcher that answers over an import, publish on any subject of the client's account. Each role publishes to each
// subject that it may publish to, with the reply subject of each receiver, and messages that this receiver believes
// of its rightful sender. It also stores these messages and has the server read them again. The headers that the
// server sets when it reads are present, empty and removed. No receiver acts. The controls in capture and takesForged
// show that receivers act on these messages of their rightful sender, and that acted counts it.
func TestReflections(t *testing.T) {
	t.Parallel()
	d := deployWith(t, toolbus.DispatcherOptions{})
	targets := d.capture()
	d.takesForged(targets)
	targets = slices.DeleteFunc(targets, func(g target) bool { return noReply(g.subject) })
	for _, s := range d.hostile() {
		if !noReply(s) && !slices.ContainsFunc(targets, func(g target) bool { return g.subject == s }) {
			targets = append(targets, target{subject: s, messages: []rawMsg{{body: []byte(`{"form":2}`)}, {}}})
		}
	}
	var attackers []*reflector
	for _, as := range everybody() {
		attackers = append(attackers, d.reflector(as))
	}
	before, was, sent, n := d.look(), d.acted(), sent{}, 0
	for _, r := range attackers {
		for _, pattern := range r.allowed {
			for _, subject := range d.concretes(r.Role, pattern) {
				n += r.reflect(subject, targets)
				sent.own = append(sent.own, subject)
			}
		}
		r.settle()
		if now := d.acted(); now != was {
			t.Errorf("messages of %s, with reply subjects of others: before %+v, after %+v", r.Actor, was, now)
			was = now
		}
		sent.own = append(sent.own, r.stored...)
	}
	t.Logf("%d messages with %d reply subjects", n, len(targets))
	d.bystander()
	if now := d.acted(); now != was {
		t.Errorf("when all had attacked: before %+v, after %+v", was, now)
	}
	d.unchanged(before, sent)
	d.finish()
}

// acts counts what receivers did for the victim's call.
type acts struct {
	chunks  int64 // delivered to the victim
	killed  int64 // runs that executors ended
	running int   // cancels that the victim's executor answered
	over    bool  // the victim's call has an outcome
}

func (d *devDeployment) acted() acts {
	d.Helper()
	d.ok(d.admin.Flush())
	return acts{
		chunks: d.victim.count.Load(), killed: d.killed.Load(), running: len(d.tap.with("running")),
		over: len(d.victim.done) > 0,
	}
}

// noReply reports whether the server takes no message with that reply subject; TestReplies tries these.
func noReply(subject string) bool {
	return strings.HasPrefix(subject, "$JS.ACK.") || strings.HasPrefix(subject, "_R_.")
}

// unchanged checks that the streams are there, and have no new message about the victim's call but those that the
// attackers may write.
func (d *devDeployment) unchanged(before picture, s sent) {
	d.Helper()
	key, err := subjects.ParseRef(d.victim.Ref)
	d.ok(err)
	after := d.look()
	for name, was := range before.streams {
		is, ok := after.streams[name]
		if !ok || !is.Created.Equal(was.Created) {
			d.Errorf("the stream %s is not there any more", name)
			continue
		}
		stream, err := d.js.Stream(d.Context(), name)
		d.ok(err)
		for seq := was.State.LastSeq + 1; seq <= is.State.LastSeq; seq++ {
			msg, err := stream.GetMsg(d.Context(), seq)
			if err == nil && strings.Contains(msg.Subject, key.ID) && !slices.Contains(s.own, msg.Subject) {
				d.Errorf("%s has a message on %s: %.200q", name, msg.Subject, msg.Data)
			}
		}
	}
}

// reflector is an attacker with a raw connection.
type reflector struct {
	*devDeployment
	*party
	raw     *rawConn
	allowed []string // the patterns of subjects that it may publish to
	inbox   string   // on which it hears answers itself
	next    int      // of what it stores
	stored  []string // subjects
	parts   []string // messages that store it
}

func (d *devDeployment) reflector(as string) *reflector {
	d.Helper()
	p := d.crowd[as]
	r := &reflector{devDeployment: d, party: p, raw: d.raw(as)}
	tools := map[string][]string{"default": {"hold", "echo"}, "other": {"vault"}}
	r.allowed = auth.Permissions(p.Principal, auth.PermissionInputs{
		Partitions: 1, Instance: p.instance, Tools: tools[p.Pool],
	}).Pub.Allow
	if len(r.allowed) == 0 {
		d.Fatal("there is a role that may publish to everything: ", as)
	}
	r.inbox = subjects.Owner{Tenant: p.Tenant, Actor: p.Actor}.Inbox() + "."
	d.ok(r.raw.subscribe(r.inbox + ">"))
	return r
}

// concretes returns subjects that a pattern allows: each operation that a dispatcher answers, and for a door the
// actor of the victim.
func (d *devDeployment) concretes(role auth.Role, pattern string) (all []string) {
	for _, prefix := range []string{"tb.svc.", "tb.exe."} {
		if rest, ok := strings.CutPrefix(pattern, prefix+"*."); ok {
			for _, op := range d.operations(prefix) {
				all = append(all, d.concretes(role, prefix+op+"."+rest)...)
			}
			return all
		}
	}
	if role == auth.Gateway {
		pattern = strings.Replace(pattern, ".acme.*", ".acme."+subjects.Token(alice), 1)
		pattern = strings.Replace(pattern, ".acme.>", ".acme."+subjects.Token(alice)+".>", 1)
	}
	if pattern == "tb.ans.>" {
		return []string{subjects.Answers("acme", alice) + "guess.guess"}
	}
	subject := concrete(pattern)
	if prefix, _, ok := strings.Cut(subject, "tb.payload."); ok {
		return []string{prefix + payload(subject[len(prefix):], 0)}
	}
	return []string{subject}
}

// operations are what somebody of the deployment listens for behind a prefix, as the server says.
func (d *devDeployment) operations(prefix string) (ops []string) {
	for _, s := range d.subscriptions() {
		if rest, ok := strings.CutPrefix(s.Subject, prefix); ok && s.Account == auth.TB {
			if op, _, _ := strings.Cut(rest, "."); !strings.ContainsAny(op, "*>") && !slices.Contains(ops, op) {
				ops = append(ops, op)
			}
		}
	}
	if len(ops) < 5 {
		d.Fatalf("behind %s there are %q", prefix, ops)
	}
	return ops
}

// subscription is what the server says of one.
type subscription struct{ Account, Subject string }

// subscriptions are all that there are on the servers.
func (d *devDeployment) subscriptions() []subscription {
	d.Helper()
	if d.subs != nil {
		return d.subs
	}
	system, servers := d.rawDial(rawOptions{key: d.keys.System}), len(strings.Split(d.url, ","))
	d.ok(system.subscribe("subscriptions"))
	d.ok(system.publish("$SYS.REQ.SERVER.PING.SUBSZ", "subscriptions", "", `{"subscriptions":true,"limit":100000}`))
	d.ok(system.until(func() bool { return len(system.messages) == servers }))
	for _, answer := range system.received(func(rawMsg) bool { return true }) {
		var said struct {
			Data struct {
				List []subscription `json:"subscriptions_list"`
			} `json:"data"`
		}
		d.ok(json.Unmarshal(answer.body, &said, json.MatchCaseInsensitiveNames(true)))
		d.subs = append(d.subs, said.Data.List...)
	}
	return d.subs
}

// privileged are operations that change the bus if an operator asks for them. The attackers ask without a token.
var privileged = []string{
	subjects.OpKeyRotate, subjects.OpTokenIssue, subjects.OpTokenRevoke, subjects.OpTokenNarrow, subjects.OpTokenRenew,
	subjects.OpLock, subjects.OpUnlock,
	subjects.OpPolicyPart, subjects.OpPolicyPush, subjects.OpRunStart, subjects.OpRunChange, subjects.OpRunRepin,
}

// reflect publishes on a subject with each target as its reply subject, and returns how many messages it sent.
func (r *reflector) reflect(subject string, targets []target) (n int) {
	r.Helper()
	stored, direct := strings.CutPrefix(subject, "$JS.API.DIRECT.GET.PAYLOADS.")
	if !direct {
		stored, direct = strings.CutPrefix(subject, "$JS.API.DIRECT.GET.CHUNKS.")
	}
	orders := strings.HasPrefix(subject, "$JS.API.CONSUMER.") || strings.HasPrefix(subject, "$JS.ACK.")
	var text strings.Builder
	for _, g := range targets {
		for _, m := range g.messages {
			if orders { // what the server sends does not depend on the body
				break
			}
			for _, header := range r.headers(m, subject) {
				if direct {
					n += r.store(&text, stored, g.subject, header, string(m.body))
					continue
				}
				text.WriteString(rawPublish(subject, g.subject, header, string(m.body)))
				n++
			}
		}
		for _, body := range commands(subject) {
			text.WriteString(rawPublish(subject, g.subject, "", body))
			n++
		}
	}
	r.storeAll()
	r.ok(r.raw.send(text.String()))
	r.ok(r.raw.flush())
	for _, said := range r.raw.errors() {
		r.Errorf("%s may publish to %s, and the server says %s", r.Actor, subject, said)
	}
	return n
}

// headers are the block of a captured message as an attacker can make it: it has a token of its own alone. Headers
// that the server sets when it reads from a stream are there, are empty, or are not.
func (r *reflector) headers(m rawMsg, subject string) []string {
	own := rawWithout(rawWithout(string(m.header), "Nats-"), "Tb-Token")
	var lines []string
	for line := range strings.SplitSeq(strings.TrimSpace(own), "\r\n") {
		if line != "" && !strings.HasPrefix(line, "NATS/1.0") {
			lines = append(lines, line)
		}
	}
	if !slices.ContainsFunc(privileged, func(op string) bool { return strings.HasPrefix(subject, "tb.svc."+op+".") }) {
		lines = append(lines, "Tb-Token: "+r.party.token)
	}
	if strings.HasPrefix(subject, "$KV.") { // it is answered, and not stored
		lines = append(lines, "Nats-Expected-Last-Subject-Sequence: 99999")
	}
	with := func(more ...string) string { return rawHeader(append(slices.Clone(lines), more...)...) }
	all := []string{
		with("Nats-Stream: CHUNKS", "Nats-Sequence: 1", "Nats-Subject: x"), with("Nats-Stream: ", "Nats-Sequence: "),
		with(),
	}
	if !strings.HasPrefix(subject, "$KV.") {
		all = append(all, "")
	}
	return all
}

// commands are what the server takes as orders on a subject.
func commands(subject string) []string {
	switch {
	case strings.HasPrefix(subject, "$JS.API.CONSUMER.MSG.NEXT."):
		return []string{`{"batch":1,"no_wait":true}`} // nothing waits: the answer is an empty one
	case strings.HasPrefix(subject, "$JS.ACK."):
		return []string{"+ACK", "+WPI", `+NXT {"batch":1,"no_wait":true}`} // work that waits would be taken from others
	case strings.HasPrefix(subject, "$JS.API.DIRECT.GET."):
		return []string{`{"seq":1}`, `{"seq":1,"no_hdr":true}`, `{"seq":1,"batch":2,"no_hdr":true}`}
	}
	if strings.HasPrefix(subject, "$KV.") { // it would be stored
		return nil
	}
	return []string{""}
}

// store writes to a subject of the attacker's own, and then has the server answer with what is there, with all headers
// and without any.
func (r *reflector) store(text *strings.Builder, subject, reply, header, body string) int {
	r.Helper()
	r.next++
	own := payload(subject, r.next)
	if strings.HasPrefix(subject, "tb.chunk.") {
		at := strings.Split(subject, ".")
		at[len(at)-2] = strconv.Itoa(r.next) // the fence
		own = strings.Join(at, ".")
	}
	r.stored = append(r.stored, own)
	r.parts = append(r.parts, rawPublish(own, r.inbox+"stored."+strconv.Itoa(r.next), header, body))
	get := "$JS.API.DIRECT.GET.PAYLOADS." + own
	if strings.HasPrefix(own, "tb.chunk.") {
		get = "$JS.API.DIRECT.GET.CHUNKS." + own
	}
	text.WriteString(rawPublish(get, reply, "", ""))
	text.WriteString(rawPublish(get, reply, "", `{"no_hdr":true}`))
	return 2
}

// storeAll sends what is to be stored until each message is answered: dispatchers drop what they have no room for.
func (r *reflector) storeAll() {
	r.Helper()
	from := r.next - len(r.parts)
	answered := func(i int) bool { return r.raw.count(r.inbox+"stored."+strconv.Itoa(from+i+1)) > 0 }
	missing := func() (text string) {
		for i, part := range r.parts {
			if !answered(i) {
				text += part
			}
		}
		return text
	}
	for range 60 {
		r.raw.mu.Lock()
		text := missing()
		r.raw.mu.Unlock()
		if text == "" {
			r.parts = nil
			return
		}
		r.ok(r.raw.send(text))
		_ = r.raw.within(time.Second, func() bool { return missing() == "" }) // or they are sent again
	}
	r.Fatalf("not all is stored or refused of what %s sends", r.Actor)
}

// payload returns a subject of the form of the given one, under which dispatchers store part 0 of payload n.
func payload(subject string, n int) string {
	at := strings.Split(subject, ".")
	at[len(at)-3], at[len(at)-2] = fmt.Sprintf("%064x", n), "0"
	if at[len(at)-1] == "x" {
		at[len(at)-1] = "default"
	}
	return strings.Join(at, ".")
}

// settle waits until dispatchers have answered the questions of the attacker, which they take in their order. They drop
// questions beyond a limit, so it asks until it is answered.
func (r *reflector) settle() {
	r.Helper()
	answers, op := subjects.Answers(r.Tenant, r.Actor)+"x.settled", subjects.OpDescribe
	if r.Role == auth.Executor {
		op = subjects.OpTokenRenew
	}
	r.ok(r.raw.subscribe(answers))
	for range 60 {
		r.ok(r.raw.publish(subjects.Service(op, r.Tenant, r.Actor), r.inbox+"settled", rawHeader("Tb-Answer: x.settled"),
			`{"form":2}`))
		if r.raw.within(time.Second, func() bool { return r.raw.count(answers) > 0 }) == nil {
			return
		}
	}
	r.Fatalf("dispatchers do not answer %s any more", r.Actor)
}
