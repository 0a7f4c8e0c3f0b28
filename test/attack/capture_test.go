package attack

import (
	"bytes"
	"context"
	"crypto/rand"
	"slices"
	"strings"
	"time"

	"github.com/seed-018f16cc/toolbus/envelope"
	clientlib "github.com/seed-018f16cc/toolbus/internal/client"
	"github.com/seed-018f16cc/toolbus/subjects"
)

// target is a subject on which a receiver listens, and messages which such a receiver took from its rightful sender.
type target struct {
	subject  string
	messages []rawMsg
}

// capture makes calls of every kind, and returns the messages that were sent during them. They are rewritten so that
// they name the victim's call, without the values that are secret, see [devDeployment.guessed]. It checks that each
// receiver acted on them.
func (d *devDeployment) capture() []target {
	d.Helper()
	sniffer := d.sniffer()
	streamed := d.captureStream()
	cancelled := d.captureCancel()
	d.captureParts()
	d.captureReplays(sniffer)
	d.ok(sniffer.flush())
	victim, err := subjects.ParseRef(d.victim.Ref)
	d.ok(err)
	var names []string
	for _, twin := range []*held{streamed, cancelled} {
		key, err := subjects.ParseRef(twin.Ref)
		d.ok(err)
		names = append(names, key.ID, victim.ID, twin.CallID, d.victim.CallID)
	}
	return d.targets(sniffer.received(func(rawMsg) bool { return true }), strings.NewReplacer(names...))
}

// captureStream makes a call that streams. It is asked about, and another caller joins it and leaves it.
func (d *devDeployment) captureStream() *held {
	d.Helper()
	twin := d.begin("twin", "a key of a call that streams")
	why, err := twin.client.Why(d.Context(), envelope.CallRef{Ref: twin.Ref})
	if d.ok(err); !strings.Contains(why, d.real) {
		d.Errorf("no executor said that it runs the call: %s", why)
	}
	join := d.begin("twin", "a key of a call that streams")
	left, err := join.client.Cancel(d.Context(), envelope.CallRef{Ref: join.Ref, CallID: join.CallID})
	if d.ok(err); left.Phase != "detached" {
		d.Errorf("a joiner left, and was told %q", left.Phase)
	}
	close(d.gate("twin"))
	for _, h := range []*held{twin, join} {
		d.ok(<-h.done)
	}
	if want := []string{`"first"`, `"last"`}; !slices.Equal(twin.chunks, want) {
		d.Errorf("a call streamed %q", twin.chunks)
	}
	return twin
}

// captureCancel makes a call and cancels it: the executor ends the run.
func (d *devDeployment) captureCancel() *held {
	d.Helper()
	twin := d.begin("cancelled", "a key of a call that is cancelled")
	told, err := twin.client.Cancel(d.Context(), envelope.CallRef{Ref: twin.Ref, CallID: twin.CallID})
	if d.ok(err); told.Phase != "running" {
		d.Errorf("a call was cancelled while it ran, and its caller told %q", told.Phase)
	}
	d.ok(<-twin.done)
	select {
	case <-d.died:
	case <-time.After(rawTime):
		d.Error("a cancel has not ended the run")
	}
	return twin
}

// captureParts makes a call with a large input and a large output.
func (d *devDeployment) captureParts() {
	d.Helper()
	in := `"` + strings.Repeat(rand.Text(), 2*envelope.MaxInline/26) + `"`
	r, err := d.victim.client.Call(d.Context(), clientlib.Call{Tool: "echo", Input: []byte(in)})
	if d.ok(err); r.Status != envelope.Success || len(r.Output) != len(in) {
		d.Errorf("a call with a large input ended with %s, %d bytes: %+v", r.Status, len(r.Output), r.Error)
	}
}

// captureReplays sends what was captured of the victim's requests and questions once more, as the victim: it is taken.
func (d *devDeployment) captureReplays(sniffer *rawConn) {
	d.Helper()
	victim, answers := d.raw(alice), subjects.Answers("acme", alice)
	d.ok(victim.subscribe(answers + "replay.*"))
	for _, subject := range []string{
		subjects.Call("acme", alice, "hold"), subjects.Service(subjects.OpCancel, "acme", alice),
	} {
		sent, err := sniffer.await(func(m rawMsg) bool {
			return m.subject == subject && !bytes.Contains(m.body, []byte(d.victim.CallID))
		})
		d.ok(err)
		word := rand.Text()
		header := rawHeader("Tb-Token: "+d.crowd[alice].token, "Tb-Answer: replay."+word)
		d.ok(victim.publish(subject, answers+"replay."+word, header, string(sent.body)))
		told, err := victim.await(func(m rawMsg) bool { return m.subject == answers+"replay."+word })
		d.ok(err)
		if kind := told.values("Tb-Kind"); slices.Contains(kind, envelope.KindRefusal) {
			d.Errorf("on %s the victim is answered %q, %s", subject, kind, told.body)
		}
	}
}

// maxCaptured is how many different messages are kept for one subject.
const maxCaptured = 12

// targets rewrites and sorts what was captured.
func (d *devDeployment) targets(captured []rawMsg, twin *strings.Replacer) (all []target) {
	for _, m := range captured {
		m.body = []byte(strings.ReplaceAll(twin.Replace(string(m.body)), `"last"`, `"lies"`))
		for _, subject := range d.guessed(twin.Replace(m.subject)) {
			at := slices.IndexFunc(all, func(t target) bool { return t.subject == subject })
			if at < 0 {
				all = append(all, target{subject: subject})
				at = len(all) - 1
			}
			known := slices.ContainsFunc(all[at].messages, func(k rawMsg) bool { return bytes.Equal(k.body, m.body) })
			if len(m.body) < maxCapturedBody && len(all[at].messages) < maxCaptured && !known {
				all[at].messages = append(all[at].messages, m)
			}
		}
	}
	return all
}

// maxCapturedBody leaves out parts of payloads, and listings.
const maxCapturedBody = 16 << 10

// guessed returns the subjects that an attacker has to name for a message that was sent on a subject. A guess replaces
// a word that only the rightful sender knows. The server brings an answer to another account under a name of its own
// (_R_): the attacker names an inbox there.
func (d *devDeployment) guessed(subject string) []string {
	at := strings.Split(subject, ".")
	replace := func(last int) []string {
		return []string{strings.Join(append(at[:len(at)-last:len(at)-last], slices.Repeat([]string{"guess"}, last)...), ".")}
	}
	switch {
	case strings.HasPrefix(subject, "tb.ans."):
		return replace(len(at) - 4)
	case strings.HasPrefix(subject, "tb.exe.heard."), strings.HasPrefix(subject, "tb.exe.ans."):
		return replace(1)
	case strings.HasPrefix(subject, "_INBOX."):
		return replace(len(at) - 1)
	case strings.HasPrefix(subject, "_R_."):
		acme := subjects.Owner{Tenant: "acme", Actor: alice}
		return []string{acme.Inbox() + ".guess", subjects.InboxOf(d.real) + ".guess", subjects.InboxOf(d.real) + ".guess.1",
			subjects.InboxOf(d.real)}
	case strings.HasPrefix(subject, "tb.chunk."):
		return d.chunkSubjects()
	case strings.HasPrefix(subject, "$JS.EVENT."), strings.HasPrefix(subject, "$JS.API."),
		strings.HasPrefix(subject, "tb.audit."), strings.HasPrefix(subject, "tb.denied."):
		return nil // nobody but the server listens, and that in the account of dispatchers: see hostile
	}
	return []string{subject}
}

// chunkSubjects are where the victim's run emits, and where a later run of its call would, which voids those chunks.
func (d *devDeployment) chunkSubjects() []string {
	d.Helper()
	chunks, err := d.js.Stream(d.Context(), subjects.ChunksStream)
	d.ok(err)
	frame, err := chunks.GetMsg(d.Context(), 1)
	d.ok(err)
	later := strings.Split(frame.Subject, ".")
	later[len(later)-2] = "999999"
	return []string{frame.Subject, strings.Join(later, ".")}
}

// takesForged checks that forged messages would have an effect if they were believed. A client delivers a frame with
// the headers of the rightful sender, and ends a call with an outcome that comes over the connection of a dispatcher.
func (d *devDeployment) takesForged(targets []target) {
	d.Helper()
	sniffer := d.sniffer()
	control := d.begin("control", "a key of a call that is attacked with success")
	key, err := subjects.ParseRef(control.Ref)
	d.ok(err)
	first, err := sniffer.await(func(m rawMsg) bool {
		return strings.Contains(m.subject, key.ID) && m.values("Tb-Chunks") != nil
	})
	d.ok(err)
	sniff := func(prefix string) rawMsg {
		d.Helper()
		m, err := sniffer.await(func(m rawMsg) bool {
			return strings.HasPrefix(m.subject, prefix) && bytes.Contains(m.body, []byte(control.CallID))
		})
		d.ok(err)
		return m
	}
	lies := strings.ReplaceAll(string(first.body), "first", "lies")
	header := strings.Replace(string(first.header), "Tb-Chunks: 0-0", "Tb-Chunks: 1-1", 1)
	rightful := d.raw(insider)
	d.ok(rightful.publish(first.subject, "", rawWithout(header, "Nats-"), lies))
	d.ok(rightful.flush())
	select {
	case <-control.comes: // before the outcome, which does not name it
	case <-time.After(rawTime):
		d.Error("a frame from the rightful sender was not delivered")
	}
	accepted := sniff(subjects.Answers("acme", alice))
	outcome := captured(targets, "tb.ans.", "P-PRECOND-CANCELLED")
	body := strings.ReplaceAll(string(outcome.body), d.victim.CallID, control.CallID)
	rightful = d.rawDial(rawOptions{key: d.keys.Dispatcher})
	d.ok(rightful.publish(accepted.subject, "", string(outcome.header), body))
	ctx, cancel := context.WithTimeout(d.Context(), rawTime)
	defer cancel()
	select {
	case <-control.done: // with an error about chunks that the tool has not sent
	case <-ctx.Done():
		d.Fatal("an outcome from a dispatcher does not end a call")
	}
	if !slices.Contains(control.chunks, `"lies"`) {
		d.Errorf("a frame from the rightful sender was not delivered: %q", control.chunks)
	}
	close(d.gate("control"))
}

// captured returns a captured message with a text in it, for a target whose subject has a prefix.
func captured(targets []target, prefix, text string) (m rawMsg) {
	for _, t := range targets {
		for _, m := range t.messages {
			if strings.HasPrefix(t.subject, prefix) && bytes.Contains(m.body, []byte(text)) {
				return m
			}
		}
	}
	return m
}

// rawWithout removes the lines of a header that start with a prefix.
func rawWithout(header, prefix string) string {
	lines := strings.Split(header, "\r\n")
	return strings.Join(slices.DeleteFunc(lines, func(l string) bool { return strings.HasPrefix(l, prefix) }), "\r\n")
}
