package blackbox

import (
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/nats-io/nats.go"

	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/call"
	clientlib "github.com/seed-018f16cc/toolbus/internal/client"
	"github.com/seed-018f16cc/toolbus/internal/timer/timertest"
	"github.com/seed-018f16cc/toolbus/subjects"
)

// flooding sends n messages of one actor all at once, over a connection of its own, and counts what is said to them, by
// code.
type flooding struct {
	subject string
	data    []byte
	n       int

	mu   sync.Mutex
	told map[envelope.Code]int
	bad  []string // refusals that say nothing of when to come again
}

func (f *flooding) run(t *testing.T, nc *nats.Conn, tenant, actor string) {
	f.told = map[envelope.Code]int{}
	inbox := subjects.Answers(tenant, actor) + uuid.NewString()
	sub, err := nc.Subscribe(inbox, f.hear)
	if err == nil {
		err = sub.SetPendingLimits(-1, -1)
	}
	for range f.n {
		if err == nil {
			err = nc.PublishMsg(&nats.Msg{Subject: f.subject, Reply: inbox, Data: f.data,
				Header: nats.Header{subjects.HeaderContentType: {envelope.ContentJSON}}})
		}
	}
	if err == nil {
		err = nc.FlushTimeout(time.Minute)
	}
	if err != nil {
		t.Error(err)
	}
}

func (f *flooding) hear(msg *nats.Msg) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if msg.Header.Get(subjects.HeaderKind) == envelope.KindRefusal {
		f.told["refused question"]++
		return
	}
	r, bad := envelope.DecodeResponse(msg.Header.Get(subjects.HeaderContentType), msg.Data)
	switch {
	case bad != nil:
		f.told["answer"]++
	case r.Error == nil:
		f.told["none"]++
	default:
		f.told[r.Error.Code]++
		if r.Error.Code == envelope.CodeQueue &&
			(r.Provenance.Final || r.Error.Details.RetryAfterMS < 100 || r.Error.Fix == "" || r.Provenance.AuditEventID == "") {
			f.bad = append(f.bad, fmt.Sprintf("%+v", r.Error))
		}
	}
}

// starved is how long, in all, the process may be without a processor between two calls of the bystander. After a
// longer time a dispatcher rightly says that its policy was not confirmed within a second.
const starved = 200 * time.Millisecond

// Whatever one actor sends, another's calls are all taken in the first time, and end as ever: none is refused or
// dropped because of the flood. Of the flood no more is answered than was sent, and what is over the actor's bounds is
// told so.
func TestBystanderOfFloods(t *testing.T) {
	var runs atomic.Int64
	d := deploy(t, map[string]spec{"echo": {class: call.Pure, run: echo(&runs)}})
	d.dispatcher()
	d.executor(4)
	c := d.client()
	const tenant, actor = "default", "flooder"
	toCall := subjects.Call(tenant, actor, "echo")
	denied := fmt.Appendf(nil, `{"call_id":%q,"tool_id":"echo","tool_version":"9.x","fn":"say","input":{},`+
		`"context":{"actor_id":"flooder","trace_id":%q,"timezone":"UTC","env":"dev"},`+
		`"constraints":{"timeout_ms":10000,"idempotency_key":"key-0123456789abcdef"}}`, uuid.NewString(), uuid.NewString())
	floods := map[string]*flooding{
		"malformed": {subject: toCall, data: []byte("x"), n: 20_000},
		"denied":    {subject: toCall, data: denied, n: 5_000},
		"oversize":  {subject: toCall, data: []byte(`{"x":"` + strings.Repeat("x", envelope.MaxEnvelope) + `"}`), n: 300},
		"questions": {subject: subjects.Service(subjects.OpDescribe, tenant, actor), data: []byte(`{"form":2}`), n: 5_000},
	}
	var sending sync.WaitGroup
	for _, f := range floods {
		nc := d.srv.Connect(t)
		sending.Go(func() { f.run(t, nc, tenant, actor) })
	}
	watch := timertest.StartStallMeter()
	defer watch.End()
	made, late := 0, time.Duration(0)
	for sent := make(chan struct{}); ; made++ {
		if made == 0 {
			go func() { sending.Wait(); close(sent) }()
		}
		r := mustCall(t, c, clientlib.Call{
			Tool: "echo", Key: uuid.NewString(), Timeout: time.Minute, Retry: &envelope.RetryPolicy{MaxAttempts: 1},
		})
		was := late
		if late = watch.Late(); late-was > starved && r.Error != nil && r.Error.Code == envelope.CodeUnavailable {
			t.Logf("after %s without a processor: %s", late-was, r.Error)
			continue
		}
		wantStatus(t, r, envelope.Success, "")
		select {
		case <-sent:
		default:
			continue
		}
		if made >= 50 {
			break
		}
	}
	for name, f := range floods {
		f.mu.Lock()
		all := 0
		for _, n := range f.told {
			all += n
		}
		t.Logf("%s: %d sent, told %v", name, f.n, f.told)
		if all > f.n || len(f.bad) > 0 {
			t.Errorf("%s: %d answers to %d messages; %v", name, all, f.n, f.bad)
		}
		f.mu.Unlock()
	}
}
