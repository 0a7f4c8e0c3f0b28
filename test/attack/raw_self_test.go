package attack

import (
	"slices"
	"strings"
	"testing"

	"github.com/seed-018f16cc/toolbus/internal/auth"
)

// rawDial connects to the first server until the test ends.
func (d *devDeployment) rawDial(o rawOptions) *rawConn {
	d.Helper()
	o.url, o.tls = d.url, d.tls
	return rawDial(d.T, o)
}

// raw connects as a party, by hand.
func (d *devDeployment) raw(actor string) *rawConn {
	d.Helper()
	p, name := d.crowd[actor], "raw "+actor
	if p.instance != "" { // an executor is let in by this name alone
		name = auth.ConnectionName(p.instance)
	}
	return d.rawDial(rawOptions{token: p.token, name: name})
}

// sniffer hears everything in the account of dispatchers.
func (d *devDeployment) sniffer() *rawConn {
	d.Helper()
	c := d.rawDial(rawOptions{key: d.keys.Dispatcher, name: "sniffer"})
	d.ok(c.subscribe(">"))
	d.ok(c.flush())
	return c
}

// A raw connection sends any header, sees each value of a name, and is told of what the server refuses.
func TestRaw(t *testing.T) {
	t.Parallel()
	d := deploy(t)
	sniffer, bob := d.sniffer(), d.raw(bob)
	d.ok(bob.subscribe("tb.ans.acme.agent_3a_2f_2fbob.x"))
	own := "tb.payload.acme.agent_3a_2f_2fbob." + strings.Repeat("a", 64) + ".0.default"
	heard := strings.Replace(own, "tb.payload.", "tb.part.", 1)
	d.ok(bob.publish(own, "tb.ans.acme.agent_3a_2f_2fbob.x", rawHeader("Nats-Stream: ", "X: a", "X:b"), "body"))
	sent, err := sniffer.await(func(m rawMsg) bool { return m.subject == heard })
	d.ok(err)
	if string(sent.body) != "body" || !slices.Equal(sent.values("X"), []string{"a", "b"}) ||
		!slices.Equal(sent.values("Nats-Stream"), []string{""}) {
		t.Errorf("heard as %q, %q", sent.header, sent.body)
	}
	stored, err := sniffer.await(func(m rawMsg) bool { return m.subject == own })
	d.ok(err)
	if string(stored.body) != "body" || stored.values("X") != nil || stored.values("Nats-Stream") != nil {
		t.Errorf("stored as %q, %q", stored.header, stored.body)
	}
	ack, err := bob.await(func(m rawMsg) bool { return m.to == m.subject })
	if d.ok(err); !strings.Contains(string(ack.body), `"PAYLOADS"`) {
		t.Errorf("the store says %q", ack.body)
	}
	if n := len(sniffer.received(func(m rawMsg) bool { return m.subject == own })); n != 1 {
		t.Errorf("%d messages were stored", n)
	}
	d.ok(bob.publish("$JS.API.STREAM.DELETE.AUDIT", "", "", ""))
	d.ok(bob.flush())
	if said := strings.Join(bob.errors(), ""); !strings.Contains(said, "Permissions Violation for Publish") {
		t.Errorf("the server says %q", said)
	}
	if _, err := rawConnect(rawOptions{url: d.url, tls: d.tls, token: "none"}); err == nil {
		t.Error("a connection was made without a token")
	}
	d.finish()
}
