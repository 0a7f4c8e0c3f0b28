package deploy

import (
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/auth"
	"github.com/seed-018f16cc/toolbus/internal/deployment/processtest"
	"github.com/seed-018f16cc/toolbus/internal/encoding/format"
	"github.com/seed-018f16cc/toolbus/internal/operation"
	"github.com/seed-018f16cc/toolbus/subjects"
)

// The same request reaches two dispatchers, one after the other because the other one is frozen. It creates one token,
// one key or one run, and both answer so.
func TestRequestReachesTwo(t *testing.T) {
	d, all := dispatchers(t, 2)
	o := newOperator(t, d)
	issue := envelope.IssueRequest{Tenant: "default", Actor: "agent://b", Role: "agent"}
	start := envelope.RunStartRequest{ID: "one", Actors: []string{"agent://b"}}
	family := func(a envelope.TokenResponse) string { return a.Family }
	twice(o, all, operation.TokenIssue, issue, family)
	twice(o, all, operation.TokenNarrow, envelope.NarrowRequest{}, family)
	twice(o, all, operation.RunStart, start, func(a envelope.RunResponse) string { return a.Run.Start.String() })
	twice(o, all, operation.KeyRotate, envelope.RotateRequest{}, func(a envelope.RotateResponse) string { return a.KeyID })
	listed, refusal, err := operation.TokenList.Ask(t.Context(), o.inbox, envelope.CredentialsRequest{Actor: "agent://b"})
	if err != nil || refusal != nil || len(listed.Credentials) != 1 {
		t.Errorf("%+v, %v, %v", listed, refusal, err)
	}
}

// twice sends copies of a request until each of two dispatchers has answered, and compares what the answers name.
func twice[Q, A any](o *operator, all []*processtest.Process, op operation.Operation[Q, A], q Q, named func(A) string) {
	o.t.Helper()
	body, err := format.Marshal(format.Message, q)
	if err != nil {
		o.t.Fatal(err)
	}
	id := auth.NewID()
	var names []string
	for _, frozen := range all {
		signal(o.t, frozen, syscall.SIGSTOP)
		var a A
		if err := format.Unmarshal(format.Message, o.raw(op.Name, id, body), &a); err != nil {
			o.t.Error(op.Name, err)
		}
		names = append(names, named(a))
		signal(o.t, frozen, syscall.SIGCONT)
	}
	if names[0] != names[1] || names[0] == "" {
		o.t.Errorf("%s: two dispatchers created %q", op.Name, names)
	}
}

func signal(t *testing.T, p *processtest.Process, s syscall.Signal) {
	t.Helper()
	if err := p.Cmd.Process.Signal(s); err != nil {
		t.Fatal(err)
	}
}

// raw sends copies of a request until the first answer, and returns it.
func (o *operator) raw(op, id string, body []byte) []byte {
	o.t.Helper()
	answers := make(chan *nats.Msg, 1)
	reply := o.inbox.Open(func(m *nats.Msg) {
		select {
		case answers <- m:
		default:
		}
	})
	defer o.inbox.Drop(reply)
	again := time.NewTicker(hurry)
	defer again.Stop()
	for giveUp := time.After(emergencyTime); ; {
		msg := nats.NewMsg(subjects.Service(op, o.inbox.Tenant, o.inbox.Actor))
		o.inbox.Vouch(msg.Header)
		msg.Reply, msg.Data = reply, body
		msg.Header[subjects.HeaderRequest] = []string{id}
		msg.Header[subjects.HeaderAnswer] = []string{
			strings.TrimPrefix(reply, subjects.Answers(o.inbox.Tenant, o.inbox.Actor)),
		}
		if err := o.inbox.NC.PublishMsg(msg); err != nil {
			o.t.Fatal(err)
		}
		select {
		case m := <-answers:
			if m.Header.Get(subjects.HeaderKind) == envelope.KindRefusal {
				o.t.Errorf("%s: %s", op, m.Data)
			}
			return m.Data
		case <-again.C:
		case <-giveUp:
			o.t.Fatalf("%s: no answer", op)
		}
	}
}
