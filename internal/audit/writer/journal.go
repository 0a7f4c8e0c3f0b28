package writer

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/audit"
	"github.com/seed-018f16cc/toolbus/internal/call"
	"github.com/seed-018f16cc/toolbus/internal/flow"
	"github.com/seed-018f16cc/toolbus/internal/timer"
	"github.com/seed-018f16cc/toolbus/subjects"
)

// Journal puts on record what is no event of the call log, for one process. Its methods are safe for concurrent use,
// and need Run to go on meanwhile.
type Journal struct {
	js         jetstream.JetStream
	now        func() time.Time // bus time
	newNonce   func() string
	log        *slog.Logger
	calls      *writer // of what has to do with calls
	denials    *writer // apart, so that a flood of them pushes no evidence of calls out
	aggregates aggregates
	allowed    flow.SeenSet // who is on record as allowed
}

// NewJournal returns the journal of a process, whose records are dated by now, in bus time, and named by nonces. It
// logs what keeps them from being written; nil discards.
func NewJournal(js jetstream.JetStream, process string, now func() time.Time, newNonce func() string,
	log *slog.Logger) *Journal {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	write := func(stream, source, all string, subject func(process, tenant string) string) *writer {
		return &writer{
			chain: &chain{
				js: js, stream: stream, all: all, answer: callerAckTime,
				subject: func(tenant string) string { return subject(process, tenant) },
			},
			as: audit.Segment{Source: source, Writer: process}, log: log, more: make(chan struct{}, 1),
		}
	}
	return &Journal{
		js: js, now: now, newNonce: newNonce, aggregates: newFloods(), log: log,
		calls: write(subjects.AuditStream, audit.SourceProcess, subjects.JournalSubjectsOf(process),
			subjects.JournalSubject),
		denials: write(subjects.DeniedStream, audit.SourceRefusal, subjects.DeniedOf(process), subjects.Denied),
	}
}

// callerAckTime is how long an acknowledgement is waited for that somebody waits for, which the network or a change of
// leaders may have lost.
const callerAckTime = 500 * time.Millisecond

// Run writes until ctx ends.
func (j *Journal) Run(ctx context.Context) {
	var writers sync.WaitGroup
	writers.Go(func() { j.calls.run(ctx) })
	writers.Go(func() { j.denials.run(ctx) })
	writers.Go(func() { j.closeCounts(ctx) })
	writers.Wait()
}

// Flush puts on record how many refusals have been counted so far. Run has to go on meanwhile.
func (j *Journal) Flush(ctx context.Context) error { return j.close(ctx, j.aggregates.end()) }

// Denied records a refusal, and returns the id of its record. In a flood that is the record which opens a count, and
// counted is the number of the refusal in it, from 1; otherwise 0.
func (j *Journal) Denied(ctx context.Context, in *call.IncomingRequest, req *envelope.Request,
	e *envelope.Error) (id string, counted uint64, err error) {
	c, counted := j.aggregates.take(kind{in.From, e.Code}, time.Now())
	if counted > 1 {
		id, err = c.wait(ctx)
		return id, counted, err
	}
	r := audit.Denied(in, req, e, j.now())
	r.EventID = "gate." + j.newNonce()
	if c == nil {
		return r.EventID, 0, j.denials.append(ctx, r)
	}
	r.Count = &audit.Count{State: audit.CountOpened, Over: c.over}
	err = j.denials.append(ctx, r)
	j.aggregates.opened(c, r, err, time.Now())
	return r.EventID, counted, err
}

// Note records r under an id of its own: what was done with a credential, or with a dead letter.
func (j *Journal) Note(ctx context.Context, r audit.Record) error {
	r.EventID = "gate." + j.newNonce()
	return j.calls.append(ctx, r)
}

// closeCounts puts on record how many refusals there were in floods that are over, until ctx ends.
func (j *Journal) closeCounts(ctx context.Context) {
	for ctx.Err() == nil {
		select {
		case <-ctx.Done():
		case <-j.aggregates.begun:
		}
		for busy := true; busy && timer.Sleep(ctx, countQuiet/2); {
			var over []*count
			if over, busy = j.aggregates.over(time.Now()); len(over) == 0 {
				continue
			}
			if err := j.close(ctx, over); err != nil {
				j.log.Warn("number of refusals not recorded", "count", len(over), "err", err)
			}
		}
	}
}

// close puts the numbers of counts on record.
func (j *Journal) close(ctx context.Context, over []*count) error {
	var records []audit.Record
	for _, c := range over {
		r := c.opening
		r.Timestamp, r.EventID = j.now().UTC(), "gate."+j.newNonce()
		r.Count = &audit.Count{State: audit.CountClosed, Over: c.over, Opening: c.opening.EventID, Denials: c.n}
		records = append(records, r)
	}
	return j.denials.append(ctx, records...)
}

// sharingTime is how long others under the same key wait while AUDIT does not answer.
const sharingTime = 2 * time.Second

// Allowed records callers that share attempt n of s, each once by this process, however often it asks. Another process
// may record the same, under the same id.
func (j *Journal) Allowed(ctx context.Context, s call.State, n int, who []call.Owner) error {
	ctx, cancel := context.WithTimeout(ctx, sharingTime)
	defer cancel()
	a, _ := s.Attempt(n)
	var records []audit.Record
	var ids []string
	for _, w := range who {
		id := fmt.Sprintf("allowed.%s.%s", s.At(a.Admitted).EventID(), w.CallID)
		if j.allowed.Has(id) || slices.Contains(ids, id) {
			continue
		}
		r := audit.Allowed(s, n, w, j.now())
		r.EventID = id
		ids, records = append(ids, id), append(records, r)
	}
	err := j.calls.append(ctx, records...)
	if err == nil {
		j.allowed.Add(slices.Values(ids))
	}
	return err
}

// LateResult records what a run had to say after its attempt was decided, once by this process under the same id.
// Another process may record the same, under that id.
func (j *Journal) LateResult(ctx context.Context, id string, s call.State, attempt int, said call.Completion) error {
	r := audit.Late(s, attempt, said, j.now())
	r.EventID = "late." + id
	if j.allowed.Has(r.EventID) {
		return nil
	}
	err := j.calls.append(ctx, r)
	if err == nil {
		j.allowed.Add(slices.Values([]string{r.EventID}))
	}
	return err
}
