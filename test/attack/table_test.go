package attack

import (
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-018f16cc/toolbus/bus"
	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/auth"
	"github.com/seed-018f16cc/toolbus/subjects"
)

// row is an attack by one message.
type row struct {
	name    string
	as      []string // each of them tries it
	publish string   // a subject
	reply   string
	header  nats.Header
	body    string // default is one of its own, by which it is found wherever it comes
	refused verdict
}

// verdict says how an attack ends.
type verdict string

const (
	byServer verdict = "by the server"  // which says so to the connection
	ignored  verdict = "it is ignored"  // it reaches nobody, or nobody takes notice
	inVain   verdict = "it is in vain"  // it may be done, and changes nothing of others
	onRecord verdict = "by dispatchers" // which have it on record
)

// ears keeps what somebody has heard: on which subjects a body came. What the server says of its own, or has read from
// a stream and marks so, is left out, and so are the subjects by which it brings answers from one account to another.
type ears struct {
	mu   sync.Mutex
	all  map[string][]string
	said map[string]nats.Header // by subject, of the newest message
	next chan struct{}          // closed at the next message; nil if nobody waits for one
}

// header returns what a header of the newest message on a subject says.
func (e *ears) header(subject, name string) string {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.said[subject].Get(name)
}

func (e *ears) hear(msg *nats.Msg) {
	if strings.HasPrefix(msg.Subject, "$JS.EVENT.") || strings.HasPrefix(msg.Subject, "_R_.") || len(msg.Data) == 0 {
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.all == nil {
		e.all, e.said = map[string][]string{}, map[string]nats.Header{}
	}
	e.said[msg.Subject] = msg.Header
	e.all[string(msg.Data)] = append(e.all[string(msg.Data)], msg.Subject)
	if e.next != nil {
		close(e.next)
		e.next = nil
	}
}

// of returns on which subjects a body was heard.
func (e *ears) of(body string) (on []string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	return slices.Clone(e.all[body])
}

// with returns what was heard on the subjects where executors answer dispatchers, and has some text in it.
func (e *ears) with(text string) (bodies []string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for body, on := range e.all {
		if strings.Contains(body, text) && strings.HasPrefix(on[0], "tb.exe.heard.") {
			bodies = append(bodies, body)
		}
	}
	return bodies
}

// answers returns the subjects on which an outcome was heard.
func (e *ears) answers() (on []string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for subject, header := range e.said {
		if header.Get(subjects.HeaderKind) == envelope.KindOutcome {
			on = append(on, subject)
		}
	}
	return on
}

// tap hears everything that is published in the account of dispatchers.
type tap struct {
	ears
	sub *nats.Subscription
}

func (t *tap) listen(d *devDeployment) {
	var err error
	t.sub, err = d.admin.Subscribe(">", t.hear)
	d.ok(err)
	d.ok(d.admin.Flush())
}

// picture is what an administrator sees of what is durable.
type picture struct {
	streams   map[string]jetstream.StreamInfo
	consumers map[string]jetstream.ConsumerInfo // those that executors pull from
}

func (d *devDeployment) look() picture {
	d.Helper()
	p := picture{map[string]jetstream.StreamInfo{}, map[string]jetstream.ConsumerInfo{}}
	for info := range d.js.ListStreams(d.Context()).Info() {
		p.streams[info.Config.Name] = *info
	}
	stream, err := d.js.Stream(d.Context(), subjects.Partition(0).Stream())
	d.ok(err)
	for info := range stream.ListConsumers(d.Context()).Info() {
		if info.Config.Durable != "" {
			p.consumers[info.Name] = *info
		}
	}
	if len(p.streams) < len(bus.Streams(bus.TopologyOptions{})) || len(p.consumers) == 0 {
		d.Errorf("there are %d streams and %d consumers", len(p.streams), len(p.consumers))
	}
	return p
}

// sent is what attackers have sent: where it may be, and as what they tried, by body.
type sent struct {
	own    []string
	bodies map[string]string
}

// unharmed checks that nothing has changed since a picture was made, and that what attackers have sent came nowhere but
// where it may be sent. It returns the picture as it is now.
func (d *devDeployment) unharmed(what string, before picture, s sent) picture {
	d.Helper()
	d.ok(d.admin.Flush())
	after := d.look()
	for name, was := range before.streams {
		is, ok := after.streams[name]
		if !ok || !is.Created.Equal(was.Created) || !reflect.DeepEqual(is.Config, was.Config) {
			d.Errorf("%s: the stream %s is not what it was", what, name)
			continue
		}
		if !replaces(name) && (is.State.FirstSeq > max(1, was.State.FirstSeq) ||
			is.State.NumDeleted > was.State.NumDeleted) {
			d.Errorf("%s: messages of %s are gone: %+v", what, name, is.State)
		}
		d.added(what, name, was.State.LastSeq, is.State.LastSeq, s)
	}
	if len(after.streams) != len(before.streams) || len(after.consumers) != len(before.consumers) {
		d.Errorf("%s: there are other streams or consumers", what)
	}
	for name, was := range before.consumers {
		is := after.consumers[name]
		if !reflect.DeepEqual(is.Config, was.Config) || is.NumAckPending != was.NumAckPending ||
			is.NumRedelivered != was.NumRedelivered || is.AckFloor.Stream != was.AckFloor.Stream ||
			is.Delivered.Stream != was.Delivered.Stream {
			d.Errorf("%s: the consumer %s is not as it was: %+v, %+v", what, name, was, is)
		}
	}
	d.unheard(s)
	return after
}

// replaces reports whether dispatchers and executors replace messages of a stream while nobody attacks.
func replaces(stream string) bool {
	return stream == subjects.PoolsStream || stream == subjects.PayloadsStream || stream == subjects.KeptStream
}

// background are the subjects where dispatchers and executors write while nobody calls: the record, the list of kept
// calls, and heartbeats.
var background = []string{"tb.audit.", "tb.denied.", "tb.kept.", "$KV.pools."}

// added looks at what came into a stream meanwhile.
func (d *devDeployment) added(what, name string, last, now uint64, s sent) {
	d.Helper()
	stream, err := d.js.Stream(d.Context(), name)
	d.ok(err)
	for seq := last + 1; seq <= now; seq++ {
		msg, err := stream.GetMsg(d.Context(), seq)
		if err != nil || slices.Contains(s.own, msg.Subject) {
			continue // what was replaced is gone
		}
		usual := slices.ContainsFunc(background, func(b string) bool { return strings.HasPrefix(msg.Subject, b) })
		if as, attack := s.bodies[string(msg.Data)]; attack || !usual {
			d.Errorf("%s: in %s there is %s: %.100q of %q", what, name, msg.Subject, msg.Data, as)
		}
	}
}

// unheard checks that nobody else has heard what was sent.
func (d *devDeployment) unheard(s sent) {
	d.Helper()
	d.ok(d.crowd[alice].nc.Flush())
	for body, what := range s.bodies {
		for _, on := range d.tap.of(body) {
			if !slices.Contains(s.own, on) {
				d.Errorf("%s: it was published on %s", what, on)
			}
		}
		for _, on := range d.crowd[alice].heard.of(body) {
			d.Errorf("%s: the victim has heard it on %s", what, on)
		}
	}
}

// try makes all attacks of a table, one after the other.
func (d *devDeployment) try(table []row) {
	d.Helper()
	now, all := d.look(), sent{bodies: map[string]string{}}
	for _, r := range table {
		for _, as := range r.as {
			what, body := fmt.Sprintf("%s, as %s", r.name, as), r.body
			if body == "" {
				body = "attack-" + auth.NewID()
				all.bodies[body] = what
			}
			p := d.crowd[as]
			d.ok(p.nc.PublishMsg(&nats.Msg{Subject: r.publish, Reply: r.reply, Header: r.header, Data: []byte(body)}))
			d.judge(what, p, "Publish", r.publish, r.refused)
			if r.refused != byServer {
				all.own = append(all.own, r.publish)
			}
		}
		if r.refused != byServer {
			now = d.unharmed(r.name, now, all)
		}
	}
	d.unharmed("all", now, all)
}

// judge checks that the server has refused something, or not.
func (d *devDeployment) judge(what string, p *party, kind, subject string, want verdict) {
	d.Helper()
	d.ok(p.nc.Flush())
	said := ""
	if err := p.nc.LastError(); err != nil {
		said = err.Error()
	}
	refused := strings.Contains(strings.ToLower(said), strings.ToLower(kind+" to "+strconv.Quote(subject)))
	if refused != (want == byServer) {
		d.Errorf("%s: refused by the server: %t, want %s; it said %q", what, refused, want, said)
	}
	if refused && d.log.count("user:"+p.User(), kind[:3], "Violation", strconv.Quote(subject)) == 0 {
		d.Errorf("%s: the server's log does not say so", what)
	}
}

// listen tries to subscribe, and checks that nothing comes of what others get meanwhile.
func (d *devDeployment) listen(as []string, to []string) {
	d.Helper()
	got := map[string]*ears{}
	for _, who := range as {
		got[who] = &ears{}
		for _, subject := range to {
			_, err := d.crowd[who].nc.Subscribe(subject, got[who].hear)
			d.ok(err)
			d.judge("hear, as "+who, d.crowd[who], "Subscription", subject, byServer)
		}
	}
	d.probe()
	d.bystander()
	for who, e := range got {
		d.ok(d.crowd[who].nc.Flush())
		for body, on := range e.all {
			d.Errorf("%s has heard %.100q on %s", who, body, on)
		}
	}
}

// probe sends something on subjects that others would like to hear, as the server or a dispatcher does.
func (d *devDeployment) probe() {
	d.Helper()
	acme := subjects.Token("acme") + "." + subjects.Token(alice)
	for _, s := range []string{
		"tb.ans." + acme + ".probe", "_INBOX." + acme + ".probe", "tb.ctl.left", "tb.exe.probe.default.x",
		"tb.chunk." + acme + ".x.1.1.default",
	} {
		d.ok(d.admin.Publish(s, []byte("probe of "+s)))
	}
	d.ok(d.admin.Flush())
}
