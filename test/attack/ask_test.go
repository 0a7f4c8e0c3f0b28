package attack

import (
	"context"
	"maps"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/uuid"
	"github.com/nats-io/nats.go"

	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/audit/reader"
	"github.com/seed-018f16cc/toolbus/internal/auth"
	"github.com/seed-018f16cc/toolbus/internal/encoding/format"
	"github.com/seed-018f16cc/toolbus/internal/rpc"
	"github.com/seed-018f16cc/toolbus/subjects"
)

// asked is a message that reaches dispatchers.
type asked struct {
	name    string
	as      string            // whose connection it comes over
	of      string            // the actor of the subject; default as
	token   string            // in the header; "" is none
	header  map[string]string // further ones; with two values where one is twice, with a comma between them
	op      string            // a question; or, with "", a request
	q       any               // of the question
	context map[string]any    // what is changed in the context of the request
	limits  map[string]any    // what is changed in its constraints
	tool    string            // of the request; default echo
	input   string            // of the request, as JSON
	want    envelope.Code
}

// refusals are which codes are to be on record, by actor.
type refusals map[[2]string]bool

// put asks, and checks what a dispatcher says to it.
func (d *devDeployment) put(table []asked) {
	d.Helper()
	want := refusals{}
	for _, a := range table {
		if got := d.say(a); got != a.want {
			d.Errorf("%s, as %s: %q, want %q", a.name, a.as, got, a.want)
		}
		if strings.HasPrefix(string(a.want), "A-AUTH-") {
			want[[2]string{a.actor(), string(a.want)}] = true
		}
	}
	d.recorded(want)
}

func (a asked) actor() string {
	if a.of != "" {
		return a.of
	}
	return a.as
}

// say sends a message, and returns with which code it is refused; "" is that it was answered.
func (d *devDeployment) say(a asked) envelope.Code {
	d.Helper()
	return d.refusal(d.told(a))
}

// told sends a message, and returns what a dispatcher says to it.
func (d *devDeployment) told(a asked) *nats.Msg {
	d.Helper()
	p, tenant, actor := d.crowd[a.as], d.crowd[a.as].Tenant, a.actor()
	word := strings.ToLower(auth.NewID()) + "." + "w"
	if says, err := auth.Inspect(a.token); err == nil && says.Bound() && says.Actor == actor {
		word = says.Family + "." + word // it is answered nowhere else
	}
	reply := subjects.Answers(tenant, actor) + word
	header := nats.Header{subjects.HeaderAnswer: {word}, subjects.HeaderContentType: {envelope.ContentJSON}}
	if a.token != "" {
		header[subjects.HeaderToken] = []string{a.token}
	}
	for name, values := range a.header {
		header[name] = strings.Split(values, "|")
	}
	subject, body := subjects.Service(a.op, tenant, actor), []byte(nil)
	var err error
	if a.op == "" {
		subject, body = d.request(a, tenant, actor)
	} else {
		body, err = format.Marshal(format.Message, a.q)
		d.ok(err)
	}
	answers := make(chan *nats.Msg, 10)
	sub, err := p.nc.ChanSubscribe(reply, answers)
	d.ok(err)
	d.ok(p.nc.PublishMsg(&nats.Msg{Subject: subject, Reply: reply, Header: header, Data: body}))
	d.judge(a.name, p, "Publish", subject, onRecord)
	defer func() { d.ok(sub.Unsubscribe()) }()
	for {
		select {
		case msg := <-answers:
			if msg.Header.Get(subjects.HeaderKind) != envelope.KindAccepted {
				return msg
			}
		case <-time.After(20 * time.Second):
			d.Fatalf("%s, as %s: no answer", a.name, a.as)
		}
	}
}

// request is that of the library, in somebody's name, with what is changed.
func (d *devDeployment) request(a asked, tenant, actor string) (subject string, body []byte) {
	d.Helper()
	tool := a.tool
	if tool == "" {
		tool = "echo"
	}
	var r map[string]any
	d.ok(json.Unmarshal([]byte(d.tap.await(d, subjects.Call("acme", alice, tool))), &r))
	of, limits := r["context"].(map[string]any), r["constraints"].(map[string]any)
	of["actor_id"], r["call_id"], limits["idempotency_key"] = actor, uuid.NewString(), auth.NewID()
	if a.input != "" {
		r["input"] = jsontext.Value(a.input)
	}
	maps.Copy(of, a.context)
	maps.Copy(limits, a.limits)
	body, err := json.Marshal(r)
	d.ok(err)
	return subjects.Call(tenant, actor, tool), body
}

// await returns a body that was heard on a subject. The tap may hear it after its answer has come.
func (e *ears) await(d *devDeployment, subject string) string {
	d.Helper()
	for late := time.After(time.Minute); ; {
		body, next := e.on(subject)
		if body != "" {
			return body
		}
		select {
		case <-next:
		case <-late:
			d.Fatalf("nothing was heard on %s", subject)
		}
	}
}

// on returns a body that was heard on a subject, and a channel that is closed at the next message.
func (e *ears) on(subject string) (body string, next <-chan struct{}) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for body, on := range e.all {
		if on[0] == subject {
			return body, nil
		}
	}
	if e.next == nil {
		e.next = make(chan struct{})
	}
	return "", e.next
}

// refusal reads what a dispatcher says; "" is no refusal.
func (d *devDeployment) refusal(msg *nats.Msg) envelope.Code {
	d.Helper()
	var said struct {
		Refusal struct {
			Code envelope.Code `json:"code"`
		} `json:"refusal"`
		Error struct {
			Code envelope.Code `json:"code"`
		} `json:"error"`
		Rest jsontext.Value `json:",embed"`
	}
	if err := json.Unmarshal(msg.Data, &said); err != nil {
		d.Fatalf("%q: %v", msg.Data, err)
	}
	return envelope.Code(string(said.Refusal.Code) + string(said.Error.Code))
}

// recorded waits until refusals are on record.
func (d *devDeployment) recorded(missing refusals) {
	d.Helper()
	in, err := rpc.NewInbox(d.admin, "admin", "admin")
	d.ok(err)
	defer func() { d.ok(in.Close()) }()
	deadline, stop := context.WithTimeout(d.Context(), 20*time.Second)
	defer stop()
	for r, err := range reader.Replay(deadline, reader.Open(deadline, d.js, in), reader.Filter{Follow: true}) {
		if deadline.Err() != nil {
			d.Fatalf("not on record: %v", missing)
		}
		d.ok(err)
		if delete(missing, [2]string{r.Actor, string(r.Code)}); len(missing) == 0 {
			return
		}
	}
	d.Fatalf("not on record: %v", missing)
}
