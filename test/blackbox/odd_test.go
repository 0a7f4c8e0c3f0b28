package blackbox

import (
	"context"
	"crypto/rand"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/nats-io/nats.go"

	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/audit"
	"github.com/seed-018f16cc/toolbus/internal/audit/reader"
	"github.com/seed-018f16cc/toolbus/internal/call"
	clientlib "github.com/seed-018f16cc/toolbus/internal/client"
	"github.com/seed-018f16cc/toolbus/internal/tool"
	"github.com/seed-018f16cc/toolbus/subjects"
)

// written is a request as a library of another language may write it; edit changes it.
func written(key string, edit ...string) (callID string, body []byte) {
	callID = uuid.NewString()
	text := fmt.Sprintf(`{"call_id":%q,"tool_id":"echo","tool_version":"*","fn":"run","input":{"a":1},
		"context":{"actor_id":"agent://local","scopes":[],"trace_id":%q,"timezone":"UTC","env":"dev"},
		"constraints":{"timeout_ms":30000,"deadline_unix_ms":0,"idempotency_key":%q}}`, callID, uuid.NewString(), key)
	return callID, []byte(strings.NewReplacer(edit...).Replace(text))
}

// replyTo returns a subject on which the sender of a request on subject may be answered, also where its tokens are
// none that Toolbus would write.
func replyTo(subject string) string {
	tokens := strings.Split(subject, ".")
	return strings.Join([]string{"tb.ans", tokens[2], tokens[3], rand.Text()}, ".")
}

// sent sends a request by hand and returns the outcome that comes back.
func sent(t *testing.T, nc *nats.Conn, subject, contentType string, body []byte) *envelope.Response {
	t.Helper()
	inbox := replyTo(subject)
	sub, err := nc.SubscribeSync(inbox)
	if err != nil {
		t.Fatal(err)
	}
	header := nats.Header{subjects.HeaderContentType: {contentType}, subjects.HeaderPatient: {"1"}}
	if err := nc.PublishMsg(&nats.Msg{Subject: subject, Reply: inbox, Data: body, Header: header}); err != nil {
		t.Fatal(err)
	}
	for end := time.Now().Add(time.Minute); ; {
		msg, err := sub.NextMsg(time.Until(end))
		if err != nil {
			t.Fatalf("no answer to %q: %v", subject, err)
		}
		if r, bad := envelope.DecodeResponse(envelope.ContentJSON, msg.Data); bad == nil {
			return r
		}
	}
}

// What other libraries may send is answered, each with its own call id, and harms nobody else.
func TestOddRequests(t *testing.T) {
	var runs atomic.Int64
	d := deploy(t, map[string]spec{"echo": {class: call.Pure, run: echo(&runs)}})
	d.dispatcher()
	d.executor(6)
	nc := d.srv.Connect(t)
	plain := subjects.Call("default", "agent://local", "echo")
	for name, c := range map[string]struct {
		subject, contentType string
		edit                 []string
		status               envelope.Status
		code                 envelope.Code
	}{
		"plain": {plain, "", nil, envelope.Success, ""},
		"integers with fractions": {plain, "", []string{"30000", "3e4", `"deadline_unix_ms":0`, `"deadline_unix_ms":0.0`},
			envelope.Success, ""},
		"a type nobody knows": {plain, "text/plain", nil, envelope.InvalidRequest, envelope.CodeMalformed},
		"too long a timeout":  {plain, "", []string{"30000", "999999999"}, envelope.InvalidRequest, envelope.CodeSchema},
		"no text for a tenant": {subjects.Call("a\xff", "agent://local", "echo"), "", nil, envelope.InvalidRequest,
			envelope.CodeMalformed},
		"no text for an actor": {subjects.Call("default", "a\xff", "echo"), "", nil, envelope.InvalidRequest,
			envelope.CodeMalformed},
		"no text for a tool": {subjects.Call("default", "agent://local", "a\xff"), "", nil, envelope.InvalidRequest,
			envelope.CodeMalformed},
		"a tool with no hex": {"tb.call.default.agent_3a_2f_2fa.odd_zz", "", nil, envelope.InvalidRequest,
			envelope.CodeMalformed},
		"an actor with no hex": {"tb.call.default.agent_zz.odd_2eidem", "", nil, envelope.InvalidRequest,
			envelope.CodeMalformed},
		"an actor as it is": {"tb.call.default.agent://a.odd_2eidem", "", nil, envelope.InvalidRequest,
			envelope.CodeMalformed},
		"hex in capitals": {"tb.call.default.agent_3a_2f_2fa.Odd_2EIDEM", "", nil, envelope.InvalidRequest,
			envelope.CodeMalformed},
		"no name at all": {"tb.call.%%.\xff.é", "", nil, envelope.InvalidRequest, envelope.CodeMalformed},
		"a very long tenant": {subjects.Call(strings.Repeat("ä", 60), "agent://local", "echo"), "", nil,
			envelope.InvalidRequest, envelope.CodeLimit},
	} {
		callID, body := written("odd-"+strings.ReplaceAll(name, " ", "-")+"-0123456789", c.edit...)
		r := sent(t, nc, c.subject, c.contentType, body)
		if r.Status != c.status || r.Error != nil && r.Error.Code != c.code {
			t.Errorf("%s: %s %+v", name, r.Status, r.Error)
		}
		if c.contentType == "" && r.CallID != callID {
			t.Errorf("%s: the answer is to %s, the request was %s", name, r.CallID, callID)
		}
	}
	if runs.Load() != 2 {
		t.Errorf("%d runs", runs.Load())
	}
	d.recorded(t, audit.ToolDenied, 11)
	wantStatus(t, mustCall(t, d.client(), clientlib.Call{Tool: "echo", Key: "after-0123456789abc"}), envelope.Success, "")
	d.recorded(t, audit.ToolExecuted, 3)
}

// recorded waits until so many records of an event are in the audit stream.
func (d *busDeployment) recorded(t *testing.T, event audit.Event, n int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for r, err := range reader.Replay(ctx, reader.Streams(d.srv.JetStream(t)), reader.Filter{Follow: true}) {
		if err != nil {
			t.Fatalf("%d records of %s are missing: %v", n, event, err)
		}
		if r.Event == event {
			n--
		}
		if n == 0 {
			return
		}
	}
	t.Fatalf("%d records of %s are missing", n, event)
}

// A joiner that leaves stops waiting, whichever dispatcher it asked and whichever hears of it; the
// call goes on for its owner.
func TestJoinerLeaves(t *testing.T) {
	started, resume := make(chan struct{}), make(chan struct{})
	d := deploy(t, map[string]spec{"slow": {class: call.Pure,
		run: func(ctx context.Context, _ tool.Invocation, _ tool.Sink) (tool.Result, error) {
			close(started)
			select {
			case <-resume:
			case <-ctx.Done():
			}
			return tool.Result{Output: []byte(`{}`)}, ctx.Err()
		}}})
	d.dispatcher()
	d.dispatcher()
	d.executor(6)
	owned, left := make(chan *envelope.Response, 1), make(chan *envelope.Response, 1)
	joined := make(chan envelope.Accepted, 1)
	call := clientlib.Call{Tool: "slow", Key: "leave-0123456789abc", CallID: uuid.NewString()}
	go func() { owned <- mustCall(t, d.client(), call) }()
	<-started
	call.CallID, call.OnAccepted = uuid.NewString(), func(a envelope.Accepted) { joined <- a }
	go func() { left <- mustCall(t, d.client(), call) }()
	a := <-joined
	told, err := d.client().Cancel(t.Context(), envelope.CallRef{Ref: a.Ref, CallID: call.CallID})
	if err != nil || told.Phase != "detached" {
		t.Fatalf("%+v, %v", told, err)
	}
	if r := <-left; r.Provenance.Final || r.CallID != call.CallID || r.Error.Code != envelope.CodeCancelled {
		t.Errorf("the joiner was told %+v", r)
	}
	close(resume)
	wantStatus(t, <-owned, envelope.Success, "")
}
