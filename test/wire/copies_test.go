package wire

import (
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/call"
	"github.com/seed-018f16cc/toolbus/internal/natsserver/natstest"
	"github.com/seed-018f16cc/toolbus/internal/rpc"
	"github.com/seed-018f16cc/toolbus/subjects"
)

// contradictions answers copies of requests as dispatchers may of which one lags, and notes what came.
type contradictions struct {
	t       *testing.T
	replies *rpc.Replies
	mu      sync.Mutex
	copies  map[string][]string // call ids of copies, by tool
}

// answerCopies lets a dispatcher answer that has a script for two tools.
func answerCopies(t *testing.T, srv *natstest.Server) *contradictions {
	t.Helper()
	nc := srv.Connect(t)
	c := &contradictions{t: t, replies: rpc.NewReplies(nc, slog.New(slog.DiscardHandler)), copies: map[string][]string{}}
	if _, err := nc.Subscribe(subjects.CallWildcard, c.answer); err != nil {
		t.Fatal(err)
	}
	if err := nc.Flush(); err != nil {
		t.Fatal(err)
	}
	return c
}

func (c *contradictions) answer(msg *nats.Msg) {
	req, bad := envelope.DecodeRequest(envelope.ContentJSON, msg.Data)
	if bad != nil {
		c.t.Errorf("%s", bad)
		return
	}
	c.mu.Lock()
	c.copies[req.ToolID] = append(c.copies[req.ToolID], req.CallID)
	copies := c.copies[req.ToolID]
	c.mu.Unlock()
	n := len(copies) - slices.Index(copies, req.CallID) // of copies under this call id
	a := caller{c.replies, req, call.ReplyAddress{Reply: msg.Reply, ContentType: envelope.ContentJSON}}
	switch {
	case req.ToolID == "accepted" && n == 2: // one copy is turned away, the other is taken in
		a.refuse(1, envelope.CodeAuditLag)
		a.accept()
		a.refuse(2, envelope.CodeToolUnknown)
		a.succeed()
	case req.ToolID == "failed": // an executor ran it, and nobody says of which class the tool is
		a.fail()
	case req.ToolID == "unproven" && n == 2: // one copy may have been admitted
		a.refuse(1, envelope.CodeCapacity)
		a.refuseUnproven(2, envelope.CodeCapacity)
	case req.ToolID == "refused" && req.CallID != copies[0]: // asked again, under another call id
		a.succeed()
	case req.ToolID == "refused" && n == 2: // one refusal, told twice
		a.refuse(1, envelope.CodeCapacity)
		a.refuse(1, envelope.CodeCapacity)
	case req.ToolID == "refused" && n > 2: // as many refusals as copies
		a.refuse(2, envelope.CodeCapacity)
		a.refuse(n, envelope.CodeCapacity)
	}
}

// caller is told what a dispatcher would tell it.
type caller struct {
	replies *rpc.Replies
	req     *envelope.Request
	inbox   call.ReplyAddress
}

// refuse tells of a refusal, which was recorded under a number.
func (a caller) refuse(recorded int, code envelope.Code) { a.refuseAs(recorded, code, true) }

// refuseUnproven tells of one of a build that does not say whether an executor started the call.
func (a caller) refuseUnproven(recorded int, code envelope.Code) { a.refuseAs(recorded, code, false) }

// fail tells of an outcome that lets the key run again.
func (a caller) fail() {
	p := envelope.Provenance{ToolID: a.req.ToolID, ToolVersion: "1.0.0", Attempt: 1, Final: true}
	e := envelope.NewError(envelope.CodeUpstream, "").WithEffect(envelope.EffectNone)
	a.replies.Outcome(a.inbox, envelope.Failure(a.req.CallID, e, p, envelope.Metrics{}))
}

func (a caller) refuseAs(recorded int, code envelope.Code, notStarted bool) {
	id := fmt.Sprint("gate.", recorded)
	p := envelope.Provenance{ToolID: a.req.ToolID, ToolVersion: "*", AuditEventID: id, Final: !code.Retryable(),
		NotStarted: notStarted}
	e := envelope.NewError(code, "").WithEffect(envelope.EffectNone)
	a.replies.Outcome(a.inbox, envelope.Failure(a.req.CallID, e, p, envelope.Metrics{}))
}

func (a caller) accept() {
	accepted := &envelope.Accepted{CallID: a.req.CallID, Ref: a.req.ToolID + ".x", Attempt: 1, ToolVersion: "1.0.0"}
	a.replies.Accepted(a.inbox, accepted)
}

func (a caller) succeed() {
	p := envelope.Provenance{ToolID: a.req.ToolID, ToolVersion: "1.0.0", Attempt: 1, Final: true}
	r := &envelope.Response{CallID: a.req.CallID, Status: envelope.Success, Output: []byte(`{}`), Provenance: p}
	a.replies.Outcome(a.inbox, r)
}

// check says whether the client has sent what these answers ask for.
func (c *contradictions) check() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if got := slices.Compact(slices.Clone(c.copies["accepted"])); len(got) != 1 {
		c.t.Errorf("a call that was accepted was asked for under call ids %v", got)
	}
	for _, tool := range []string{"failed", "unproven"} {
		if got := slices.Compact(slices.Clone(c.copies[tool])); len(got) != 1 {
			c.t.Errorf("%s: a call that an executor may have started was asked for under call ids %v", tool, got)
		}
	}
	refused := c.copies["refused"]
	if ids := slices.Compact(slices.Clone(refused)); len(ids) != 2 || slices.Index(refused, ids[1]) < 3 {
		c.t.Errorf("copies of a call that was asked for again when three of them were refused had call ids %v", refused)
	}
}
