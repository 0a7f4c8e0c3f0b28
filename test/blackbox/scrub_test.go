package blackbox

import (
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/call"
	"github.com/seed-018f16cc/toolbus/internal/health"
	"github.com/seed-018f16cc/toolbus/subjects"
)

// scrubbed returns the failed checks of a scrub, by stream.
func (d *busDeployment) scrubbed() map[string]string {
	d.t.Helper()
	failed := map[string]string{}
	for _, c := range health.Scrub(d.t.Context(), d.srv.JetStream(d.t), func(string, uint64, uint64) {}) {
		if c.Status != envelope.CheckOK {
			failed[strings.TrimPrefix(c.Name, "scrub: ")] = c.Says
			if c.Fix == "" {
				d.t.Errorf("no fix: %+v", c)
			}
		}
	}
	return failed
}

// flipFirst flips a bit of the first message of a stream whose subject has a text, and returns the subject.
func flipFirst(text string) func(t *testing.T, files []string) string {
	return func(t *testing.T, files []string) string {
		t.Helper()
		for _, file := range files {
			for _, m := range messages(t, file) {
				if strings.Contains(m.subject, text) {
					flip(t, file, m.at+m.size-9, 3) // the last byte before the checksum
					return m.subject
				}
			}
		}
		t.Fatalf("no message on %s", text)
		return ""
	}
}

// A scrub finds damage of each kind at rest, in that stream only, and says which message is damaged.
func TestScrub(t *testing.T) {
	t.Parallel()
	log := subjects.Partition(0).Stream()
	silent := func(name string) func(t *testing.T, files []string) string {
		return func(t *testing.T, files []string) string { damages[name](t, files); return "" }
	}
	for name, c := range map[string]struct {
		stream string
		damage func(t *testing.T, files []string) string
	}{
		"a bit of an outcome":     {log, flipFirst(".x.o.")},
		"a bit of a request":      {log, flipFirst(".q.")},
		"a truncated block":       {log, silent("a truncated last block")},
		"a removed block":         {log, silent("a removed block")},
		"a bit of the record":     {subjects.AuditStream, flipFirst("tb.audit")},
		"a bit of the policy":     {subjects.PolicyStream, flipFirst("")},
		"a bit of a copy":         {subjects.CopiesStream, flipFirst("")},
		"a bit of the kept calls": {subjects.KeptStream, flipFirst("")},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var runs atomic.Int64
			d := deploy(t, map[string]spec{"pay": {class: call.SideEffectful, run: echo(&runs)}})
			d.topology.Partitions = 1
			dispatcher := d.dispatcher()
			d.executor(6)
			for i := range scrubbedCalls {
				wantStatus(t, pay(t, d.client(), i), envelope.Success, "")
			}
			d.records(scrubbedCalls)
			dispatcher.stop()
			d.srv.Stop()
			subject := c.damage(t, blocks(t, d.srv.Dir(), c.stream))
			d.srv.Restart()
			failed := d.scrubbed()
			if len(failed) != 1 || failed[c.stream] == "" {
				t.Fatalf("failed: %v", failed)
			}
			if c.stream != log {
				if !strings.Contains(failed[c.stream], subject) {
					t.Errorf("%s does not name %s", failed[c.stream], subject)
				}
				return
			}
			d.dispatcher()
			d.wantNamed(failed[log], subject)
		})
	}
}

const scrubbedCalls = 5

// wantNamed wants a check to name each call that a dispatcher refuses because of damage, and that of a subject.
func (d *busDeployment) wantNamed(says, subject string) {
	d.t.Helper()
	for i := range scrubbedCalls {
		pay(d.t, d.client(), i)
	}
	lost, err := d.operator().Repairs(d.t.Context())
	if err != nil {
		d.t.Fatal(err)
	}
	for _, l := range lost {
		if !strings.Contains(says, l.Ref+" of tenant default") || strings.Contains(says, "whole") {
			d.t.Errorf("%s does not name %s", says, l.Ref)
		}
	}
	damaged := max(1, len(lost))
	if len(lost) == 0 && !strings.Contains(says, "whole") ||
		!strings.Contains(says, fmt.Sprintf("damaged: %d:", damaged)) {
		d.t.Errorf("%d calls are refused: %s", len(lost), says)
	}
	if t := strings.Split(subject, "."); len(t) > 4 && !strings.Contains(says, t[2]+"."+t[3]+" of tenant default") {
		d.t.Errorf("%s does not name %s", says, subject)
	}
}

// A scrub finds nothing on a bus that has served calls, has forgotten some, and goes on to serve others meanwhile, and
// nothing after its server was there again.
func TestScrubOfAWholeBus(t *testing.T) {
	t.Parallel()
	var runs atomic.Int64
	d := deploy(t, map[string]spec{"pay": {class: call.SideEffectful, run: echo(&runs)}})
	d.dispatcher()
	d.executor(6)
	c, n := d.client(), 0
	serve := func(calls int) {
		for range calls {
			wantStatus(t, pay(t, c, n), envelope.Success, "")
			n++
		}
	}
	serve(20)
	d.records(20)
	js := d.srv.JetStream(t)
	d.forget(js)
	want := func(when string) {
		if failed := d.scrubbed(); len(failed) > 0 {
			t.Errorf("%s: %v", when, failed)
		}
	}
	want("after some was forgotten")
	var wg sync.WaitGroup
	wg.Go(func() { serve(200) })
	for range 5 {
		want("while calls are served")
	}
	wg.Wait()
	d.srv.Stop()
	d.srv.Restart()
	c = d.client()
	want("after a restart")
	serve(1)
	want("at the end")
}

// forget has an operator delete a log, some messages expire, and others be deleted.
func (d *busDeployment) forget(js jetstream.JetStream) {
	d.t.Helper()
	stream, err := js.Stream(d.t.Context(), subjects.Partition(0).Stream())
	if err != nil {
		d.t.Fatal(err)
	}
	m, err := stream.GetMsg(d.t.Context(), stream.CachedInfo().State.FirstSeq)
	if err != nil {
		d.t.Fatal(err)
	}
	t := strings.Split(m.Subject, ".")
	marker := nats.NewMsg(strings.Join(append(t[:4:4], "1", "x"), "."))
	marker.Header.Set("KV-Operation", "DEL")
	marker.Header.Set(jetstream.MsgTTLHeader, "3600")
	entry := nats.NewMsg("$KV.control.entry")
	entry.Header.Set(jetstream.MsgTTLHeader, "1")
	for _, m := range []*nats.Msg{marker, entry, nats.NewMsg("tb.dead.a.b"), nats.NewMsg("tb.dead.a.b")} {
		if _, err := js.PublishMsg(d.t.Context(), m); err != nil {
			d.t.Fatal(err)
		}
	}
	dead, err := js.Stream(d.t.Context(), subjects.DeadStream)
	if err == nil {
		err = dead.DeleteMsg(d.t.Context(), 1)
	}
	if err != nil {
		d.t.Fatal(err)
	}
	eventually(d.t, "the entry expires", func() bool {
		control, err := js.Stream(d.t.Context(), subjects.ControlStream)
		return err == nil && control.CachedInfo().State.Msgs == 0
	})
}
