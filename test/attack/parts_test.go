package attack

import (
	"crypto/rand"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-018f16cc/toolbus"
)

// shelf is the beginning of the subjects of a party's payloads.
func (p *party) shelf() string {
	tokens := strings.NewReplacer(":", "_3a", "/", "_2f")
	return "tb.payload." + p.Tenant + "." + tokens.Replace(p.Actor) + "."
}

// digest is a name for a payload: 64 hex digits that nobody has used.
func digest() string {
	var b [32]byte
	_, _ = rand.Read(b[:]) // never fails
	return fmt.Sprintf("%x", b)
}

// Nobody has the server answer with bytes of its own choice, on a subject of its own choice: callers, doors and
// executors may read no message of the streams of payloads and chunks, in whatever form they ask. A victim in the same
// account hears none of it.
func TestReadsAreNoReflector(t *testing.T) {
	t.Parallel()
	d := deploy(t)
	sniffer := d.sniffer()
	victims := map[string]*rawConn{}
	for _, of := range []string{alice, insider, outsider} {
		victims[of] = d.raw(of)
		d.ok(victims[of].subscribe(d.answersOf(of) + ">"))
		d.ok(victims[of].flush())
	}
	for as, of := range map[string]string{
		bob: alice, mallory: alice, door: alice, insider: outsider, outsider: insider,
	} {
		p, body := d.crowd[as], "reflected-"+digest()
		d.readBack(as, d.answersOf(of)+"forged", body)
		d.ok(victims[of].flush())
		reflected := func(m rawMsg) bool { return string(m.body) == body }
		for _, m := range victims[of].received(reflected) {
			t.Errorf("%s had the server publish on %s of %s", as, m.subject, of)
		}
		for _, m := range sniffer.received(reflected) {
			if !strings.HasPrefix(m.subject, "tb.payload.") && !strings.HasPrefix(m.subject, "tb.part.") {
				t.Errorf("%s had it published on %s", as, m.subject)
			}
			if strings.HasPrefix(m.subject, "tb.payload.") && p.Pool == "" && m.values("Tb-Kind") != nil {
				t.Errorf("%s has stored the headers %q", as, m.header)
			}
		}
	}
	d.finish()
}

// answersOf is the beginning of the subjects on which a party is answered.
func (d *devDeployment) answersOf(as string) string {
	p := d.crowd[as]
	if p.Pool != "" {
		return "_INBOX." + p.instance + "."
	}
	return "tb.ans." + strings.TrimPrefix(p.shelf(), "tb.payload.")
}

// readBack stores a body, and asks the server for it and for chunks in each form, with a reply subject of somebody
// else. The server refuses each.
func (d *devDeployment) readBack(as, reply, body string) {
	d.Helper()
	p, c := d.crowd[as], d.raw(as)
	own := p.shelf() + digest() + ".0.default"
	if p.Pool != "" {
		own = p.shelf() + digest() + ".0." + p.Pool
	}
	inbox := d.answersOf(as) + "x"
	d.ok(c.subscribe(inbox))
	d.ok(c.publish(own, inbox, rawHeader("Nats-Stream: ", "Tb-Kind: outcome"), body))
	_, err := c.await(func(m rawMsg) bool { return m.subject == inbox && strings.Contains(string(m.body), "PAYLOADS") })
	d.ok(err)
	asks := 0
	for _, ask := range []string{"", `{"no_hdr":true}`, `{"last_by_subj":"` + own + `"}`, `{"seq":1}`} {
		chunk := strings.Replace(own, "payload", "chunk", 1)
		for _, on := range []string{".PAYLOADS." + own, ".PAYLOADS", ".CHUNKS." + chunk} {
			d.ok(c.publish("$JS.API.DIRECT.GET"+on, reply, "", ask))
			asks++
		}
	}
	d.ok(c.flush())
	if said := strings.Count(strings.Join(c.errors(), "\n"), "Permissions Violation for Publish"); said != asks {
		d.Errorf("the server has refused %d of %d to %s", said, asks, as)
	}
}

// A part is stored under a subject of the exact form, and under nothing else that a server lets be published.
func TestOddPartsAreRefused(t *testing.T) {
	t.Parallel()
	d := deploy(t)
	stream, err := d.js.Stream(t.Context(), "PAYLOADS")
	d.ok(err)
	for _, as := range []string{mallory, door} {
		p, c := d.crowd[as], d.raw(as)
		shelf := p.shelf()
		inbox := "tb.ans." + strings.TrimSuffix(strings.TrimPrefix(shelf, "tb.payload."), ".") + ".x"
		d.ok(c.subscribe(inbox))
		before, answers := len(c.errors()), 0
		whole := digest() + ".0.default"
		odd := []string{">", "x.>", digest(), digest() + ".0", whole + ".x", whole + ".>", "*.*.*.*"}
		for _, rest := range odd {
			d.ok(c.publish(shelf+rest, inbox, "", "odd"))
		}
		for _, rest := range []string{
			">.0.default", "*.0.default", digest() + ".>.default", digest() + ".*.default", digest() + ".0.>", digest() + ".0.*",
			digest() + ".-1.default", digest() + ".00.default", digest() + ".0x1.default", "ABC.0.default", "00.0.default",
			digest() + ".0.DE_FAULT", strings.ToUpper(digest()) + "A.0.default",
		} {
			answers++
			d.ok(c.publish(shelf+rest, inbox, "", "odd"))
		}
		d.ok(c.flush())
		if said := len(c.errors()) - before; said != len(odd) {
			t.Errorf("the server has refused %d of %d to %s", said, len(odd), as)
		}
		d.ok(c.until(func() bool { return len(c.messages) >= answers }))
		for _, m := range c.received(func(m rawMsg) bool { return !strings.Contains(string(m.body), `"err_code":10060`) }) {
			t.Errorf("%s was told %q", as, m.body)
		}
	}
	info, err := stream.Info(t.Context(), jetstream.WithSubjectFilter("tb.payload.>"))
	d.ok(err)
	for subject := range info.State.Subjects {
		t.Errorf("%s is stored", subject)
	}
	d.finish()
}

// sizeOfPart is that of a part of a payload that is not the last.
const sizeOfPart = 512 << 10

// While one actor floods the payload store, another stores 40 inputs of 1 MB, and no part is refused. A dispatcher is
// connected to the server of both, as operators are advised to arrange: a server lets a publisher wait for a full
// connection of its own, and not for one of another server.
func TestPayloadFlood(t *testing.T) {
	t.Parallel()
	d := deploy(t)
	first, _, _ := strings.Cut(d.url, ",")
	d.dispatcher(first, toolbus.DispatcherOptions{})
	d.ok(d.tap.sub.Unsubscribe()) // it would hear each part twice
	stream, err := d.js.Stream(t.Context(), "PAYLOADS")
	d.ok(err)
	config := stream.CachedInfo().Config
	config.MaxBytes = 200 << 20 // so that the flood fills it soon
	_, err = d.js.UpdateStream(t.Context(), config)
	d.ok(err)
	over, twice := make(chan struct{}), make(chan struct{})
	var flood sync.WaitGroup
	d.flood(d.raw(mallory), 2*int(config.MaxBytes)/sizeOfPart, twice, over, &flood)
	defer flood.Wait()
	defer close(over)
	<-twice // as much as the store takes, and as much again
	c, shelf := d.raw(alice), d.crowd[alice].shelf()
	body := strings.Repeat("b", sizeOfPart)
	for range 40 {
		name := digest()
		for part := range 2 {
			if said := d.stored(c, fmt.Sprintf("%s%s.%d.default", shelf, name, part), body); strings.Contains(said, "error") {
				t.Fatalf("a part of a bystander was refused: %s", said)
			}
		}
	}
}

// stored stores a part of alice's, which is sent again after a second without an answer, and returns the answer.
func (d *devDeployment) stored(c *rawConn, subject, body string) string {
	d.Helper()
	inbox := "tb.ans.acme.agent_3a_2f_2falice." + digest()
	d.ok(c.subscribe(inbox))
	answered := func(m rawMsg) bool { return m.subject == inbox && len(m.body) > 0 }
	for range int(rawTime / time.Second) {
		d.ok(c.publish(subject, inbox, "", body))
		again := time.After(time.Second)
		for {
			if all := c.received(answered); len(all) > 0 {
				return string(all[0].body)
			}
			select {
			case <-c.change():
				continue
			case <-again:
			}
			break
		}
	}
	d.Fatal("a part is not answered")
	return ""
}

// change returns a channel that is closed when something has come.
func (c *rawConn) change() <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.changed
}

// flood stores parts of mallory's over a connection, as fast as the server reads them, until it is over. It closes sent
// when it has sent so many, or its connection has ended.
func (d *devDeployment) flood(c *rawConn, parts int, sent chan<- struct{}, over <-chan struct{}, done *sync.WaitGroup) {
	body, shelf := strings.Repeat("f", sizeOfPart), d.crowd[mallory].shelf()
	done.Go(func() {
		for n := 0; ; n++ {
			if n == parts {
				close(sent)
			}
			select {
			case <-over:
				return
			default:
			}
			if c.publish(shelf+digest()+".0.default", "", "", body) != nil {
				if n < parts {
					close(sent)
				}
				return
			}
		}
	})
}
