package record

import (
	"context"
	"fmt"
	"iter"
	"maps"
	"sync"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-018f16cc/toolbus/audit"
	"github.com/seed-018f16cc/toolbus/call"
	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/question"
)

// Journal puts on record what is no event of the call log. Its methods are safe for concurrent use.
type Journal struct {
	js       jetstream.JetStream
	now      func() time.Time // bus time
	newNonce func() string
	told     remembered // who is on record as allowed; the server knows only for a few seconds
}

// NewJournal returns a journal whose records are dated by now, in bus time, and named by nonces.
func NewJournal(js jetstream.JetStream, now func() time.Time, newNonce func() string) *Journal {
	return &Journal{js: js, now: now, newNonce: newNonce}
}

// Denied records a refusal, and returns the message id of the record.
func (j *Journal) Denied(ctx context.Context, in *question.Incoming, req *envelope.Request,
	e *envelope.Error) (id string, err error) {
	id = "gate." + j.newNonce()
	return id, Append(ctx, j.js, id, audit.Denied(in, req, e, j.now()))
}

// sharingTime is how long others under the same key wait while AUDIT does not answer.
const sharingTime = 2 * time.Second

// Allowed records callers that share attempt n of s, each once, however often it asks.
func (j *Journal) Allowed(ctx context.Context, s call.State, n int, who []call.Owner) error {
	ctx, cancel := context.WithTimeout(ctx, sharingTime)
	defer cancel()
	a, _ := s.Attempt(n)
	records := make(map[string]audit.Record, len(who))
	for _, w := range who {
		id := fmt.Sprintf("allowed.%s.%d.%s", s.Part.Bucket(), a.Admitted, w.CallID)
		if !j.told.has(id) {
			records[id] = audit.Allowed(s, n, w, j.now())
		}
	}
	err := AppendAll(ctx, j.js, records)
	if err == nil {
		j.told.add(maps.Keys(records))
	}
	return err
}

// LateResult records what a run had to say after its attempt was decided.
func (j *Journal) LateResult(ctx context.Context, s call.State, attempt int, said call.Ending) error {
	return Append(ctx, j.js, "late."+j.newNonce(), audit.Late(s, attempt, said, j.now()))
}

// Dead keeps a call that is given up, with what became of its work message since.
func (j *Journal) Dead(ctx context.Context, s call.State, m call.Entry, deliveries int, cause *envelope.Error) error {
	return Bury(ctx, j.js, letterOf(s, m, deliveries, cause, j.now()))
}

func letterOf(s call.State, m call.Entry, deliveries int, cause *envelope.Error, now time.Time) DeadLetter {
	return DeadLetter{Cause: cause, State: s, Attempt: m.Attempt, Deliveries: deliveries, Body: m.Body, Time: now.UTC()}
}

// maxRemembered is how many names are remembered at the least, if there were so many, and twice as many at the most.
const maxRemembered = 20_000

// remembered is a set of the names that were last put into it. The zero value is empty. It is safe for concurrent use.
type remembered struct {
	mu         sync.Mutex
	young, old map[string]bool
}

func (r *remembered) has(name string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.young[name] || r.old[name]
}

func (r *remembered) add(names iter.Seq[string]) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for name := range names {
		if r.young == nil || len(r.young) >= maxRemembered {
			r.young, r.old = map[string]bool{}, r.young
		}
		r.young[name] = true
	}
}
