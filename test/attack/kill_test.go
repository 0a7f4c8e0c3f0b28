package attack

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// order is a kill of the victim's call as a dispatcher writes it, under a word for the answer.
func (d *devDeployment) order(word string) (subject, body string) {
	_, id, _ := strings.Cut(d.victim.Ref, ".")
	due := time.Now().Add(time.Minute).UnixMilli()
	return "tb.ctl.kill." + id, fmt.Sprintf(`{"form":2,"id":%q,"attempt":1,"due":%d,"word":%q}`, id, due, word)
}

// An executor makes the server, and dispatchers, publish a kill of another's call where executors listen: a payload of
// its own, read with and without headers, a work message, and the answer to a question. Nothing of it ends the call.
func TestReflectedKills(t *testing.T) {
	t.Parallel()
	d := deploy(t)
	kill, order := d.order("reflected")
	for _, as := range executors() {
		p, c := d.crowd[as], d.raw(as)
		own := "tb.payload.evil.x.aa.0." + p.Pool
		d.ok(c.publish(own, "", "", order))
		for _, body := range []string{"", `{"no_hdr":true}`} {
			d.ok(c.publish("$JS.API.DIRECT.GET.PAYLOADS."+own, kill, "", body))
			d.ok(c.publish("$JS.API.DIRECT.GET.PAYLOADS", kill, "", `{"last_by_subj":"`+own+`","no_hdr":true}`))
		}
		pull := "$JS.API.CONSUMER.MSG.NEXT.KV_calls.exec_" + p.Pool + "_normal"
		d.ok(c.publish(pull, kill, "", `{"batch":1,"no_wait":true}`))
		for _, op := range []string{"hello", "beat", "log", "work"} {
			d.ok(c.publish("tb.exe."+op+"."+p.Pool+"."+p.instance, kill, "", order))
			d.ok(c.publish("tb.exe."+op+"."+p.Pool+"."+p.instance, kill, rawHeader("Tb-Answer: "+kill), order))
		}
		d.ok(c.flush())
	}
	d.finish()
}

// A kill that comes from the account of dispatchers itself, and that the log does not confirm, reaches the executor,
// which answers it, and does not end the call. Floods of it do not either, and a cancel still ends a call at once.
func TestUnconfirmedKills(t *testing.T) {
	t.Parallel()
	d := deploy(t)
	sniffer := d.sniffer()
	for n := range 2000 {
		kill, order := d.order(fmt.Sprint("flood", n))
		d.ok(sniffer.publish(kill, "", "", order))
		d.ok(sniffer.publish("tb.ctl.kill.none"+fmt.Sprint(n), "", "", strings.Replace(order, kill[len("tb.ctl.kill."):],
			"none"+fmt.Sprint(n), 1)))
	}
	kill, order := d.order("last")
	d.ok(sniffer.publish(kill, "", "", order))
	d.ok(sniffer.flush())
	_, err := sniffer.await(func(m rawMsg) bool {
		return strings.HasPrefix(m.subject, "tb.exe.heard.default."+d.real+".") && string(m.body) == "running"
	})
	d.ok(err)
	d.finish()
}

// A dispatcher answers an executor below the subject of its own answers, and at no subject that it names.
func TestDeskIsNoReflector(t *testing.T) {
	t.Parallel()
	d := deploy(t)
	p, c, ear := d.crowd[insider], d.raw(insider), d.raw(outsider)
	d.ok(ear.subscribe("tb.ctl.kill.*"))
	d.ok(ear.flush())
	hello := "tb.exe.hello.default." + p.instance
	for _, reply := range []string{"tb.ctl.kill.reflected", "tb.exe.ans.other." + d.crowd[outsider].instance + ".w"} {
		for _, header := range []string{"", rawHeader("Tb-Answer: a.b"), rawHeader("Tb-Answer: >"),
			rawHeader("Tb-Answer: tb.ctl.kill.reflected"), rawHeader("Tb-Answer: good", "Tb-Answer: a.b")} {
			d.ok(c.publish(hello, reply, header, `{"form":2}`))
		}
	}
	for _, s := range []string{"tb.exe.ans.default." + p.instance + ".*", "_INBOX." + p.instance + ".*"} {
		d.ok(c.subscribe(s))
	}
	d.ok(c.publish(hello, "_INBOX."+p.instance+".fence", rawHeader("Tb-Answer: fence"), `{"form":2}`))
	_, err := c.await(func(m rawMsg) bool { return strings.Contains(m.subject, "fence") })
	d.ok(err)
	d.bystander()
	d.ok(ear.flush())
	for _, m := range ear.received(func(m rawMsg) bool { return m.subject == "tb.ctl.kill.reflected" }) {
		t.Errorf("a dispatcher answered at %s: %s", m.subject, m.body)
	}
	d.finish()
}

// An executor asks dispatchers thousands of questions at once. A question of another executor does not wait until all
// of them are answered.
func TestQuestionFlood(t *testing.T) {
	t.Parallel()
	const flood = 4000
	d := deploy(t)
	c, other := d.raw(insider), d.raw(outsider)
	ask := func(c *rawConn, as string, times int) {
		p, text := d.crowd[as], ""
		for _, s := range []string{"_INBOX." + p.instance + ".x", "tb.exe.ans." + p.Pool + "." + p.instance + ".x"} {
			d.ok(c.subscribe(s))
		}
		for range times {
			text += rawPublish("tb.exe.beat."+p.Pool+"."+p.instance, "_INBOX."+p.instance+".x",
				rawHeader("Tb-Answer: x"), `{"form":2,"pool":"none","instance":"none"}`)
		}
		d.ok(c.send(text))
		d.ok(c.flush())
	}
	any := func(rawMsg) bool { return true }
	ask(c, insider, flood)
	ask(other, outsider, 1)
	_, err := other.await(any)
	d.ok(err)
	before := len(c.received(any))
	t.Logf("the bystander is answered behind %d of %d questions", before, flood)
	if before > flood/2 {
		t.Errorf("the bystander is answered behind %d of %d questions of another executor", before, flood)
	}
	d.finish()
}
