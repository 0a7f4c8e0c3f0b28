package writer

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-018f16cc/toolbus/internal/audit"
	"github.com/seed-018f16cc/toolbus/internal/call"
	"github.com/seed-018f16cc/toolbus/internal/flow"
	"github.com/seed-018f16cc/toolbus/internal/timer"
	"github.com/seed-018f16cc/toolbus/subjects"
)

// Journal records what has no event in the call log, for one process. Its methods are safe for concurrent use. They
// wait for records that Run writes.
type Journal struct {
	js         jetstream.JetStream
	now        func() time.Time // returns the bus time
	newNonce   func() string
	log        *slog.Logger
	calls      *writer // all records except refusals; in AUDIT, see Shares
	denials    *writer // refusals; in DENIED, so that a flood of them drops no records of calls
	aggregates aggregates
	allowed    flow.SeenSet // ids of recorded joins and late results

	// Shares selects the tenants whose records go to SURPLUS instead of AUDIT; nil selects none. It must be set before the
	// first record.
	Shares  *Shares
	surplus surplusWriters
}

// NewJournal returns the journal of a process. now dates the records, in bus time, and newNonce names them. log gets
// the reasons why records are not written; nil discards them.
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
	surplus := func(tenant string) *writer {
		subject := subjects.JournalSurplus(process, tenant)
		return write(subjects.SurplusStream, audit.SourceProcess, subject, func(_, _ string) string { return subject })
	}
	return &Journal{
		surplus: surplusWriters{open: surplus, all: map[string]*writer{}, begun: make(chan *writer, 16)},
		js:      js, now: now, newNonce: newNonce, aggregates: newFloods(), log: log,
		calls: write(subjects.AuditStream, audit.SourceProcess, subjects.JournalSubjectsOf(process),
			subjects.JournalSubject),
		denials: write(subjects.DeniedStream, audit.SourceRefusal, subjects.DeniedOf(process), subjects.Denied),
	}
}

// callerAckTime is the timeout of an acknowledgement, which may be lost in the network or by a change of leader. It is
// short because a caller waits for the record.
const callerAckTime = 500 * time.Millisecond

// Run writes records until ctx ends.
func (j *Journal) Run(ctx context.Context) {
	var writers sync.WaitGroup
	writers.Go(func() { j.calls.run(ctx) })
	writers.Go(func() { j.denials.run(ctx) })
	writers.Go(func() { j.closeCounts(ctx) })
	writers.Go(func() { j.surplus.run(ctx) })
	writers.Wait()
}

// Flush ends all counts of refusals and records their numbers. Run must be running.
func (j *Journal) Flush(ctx context.Context) error { return j.close(ctx, j.aggregates.end()) }

// Denied records a refusal and returns the id of its record. In a flood, the record is the one that opens the count,
// and counted is the number of the refusal in the count, from 1. Otherwise counted is 0.
func (j *Journal) Denied(ctx context.Context, refusal audit.Refusal) (id string, counted uint64, err error) {
	c, counted := j.aggregates.take(kind{refusal.In.From, refusal.Error.Code}, time.Now())
	if counted > 1 {
		id, err = c.wait(ctx)
		return id, counted, err
	}
	r := audit.Denied(refusal, j.now())
	r.EventID = audit.GatePrefix + j.newNonce()
	if c == nil {
		return r.EventID, 0, j.denials.append(ctx, r)
	}
	r.Count = &audit.Count{State: audit.CountOpened, Over: c.over}
	err = j.denials.append(ctx, r)
	j.aggregates.opened(c, r, err, time.Now())
	return r.EventID, counted, err
}

// Note records r, an operation of the service. If r has no id, it gets a new one.
func (j *Journal) Note(ctx context.Context, r audit.Record) error {
	if r.EventID == "" {
		r.EventID = audit.GatePrefix + j.newNonce()
	}
	if r.Event == audit.CredentialNarrowed || r.Event == audit.CredentialRenewed { // agents do that as often as they like
		return j.of(r.Tenant).append(ctx, r)
	}
	return j.calls.append(ctx, r)
}

// of returns the writer for records of a tenant. Those of refusals have another writer.
func (j *Journal) of(tenant string) *writer {
	if j.Shares.crowds(tenant) {
		return j.surplus.of(tenant)
	}
	return j.calls
}

// closeCounts records the numbers of counts that are over, until ctx ends.
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

// close records the numbers of counts.
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

// sharingTime is how long Shared waits for the record if AUDIT does not answer.
const sharingTime = 2 * time.Second

// Shared records the callers that share attempt n of s. This process records each call id once. Another process may
// write the same record with the same id.
func (j *Journal) Shared(ctx context.Context, s call.State, n int, who []call.Owner) error {
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
		r := audit.Shared(s, n, w, j.now())
		r.EventID = id
		ids, records = append(ids, id), append(records, r)
	}
	err := j.of(s.Tenant).append(ctx, records...)
	if err == nil {
		j.allowed.Add(slices.Values(ids))
	}
	return err
}

// LateResult records the result of a run that arrived after its attempt was decided. This process records each id once.
// Another process may write the same record with the same id.
func (j *Journal) LateResult(ctx context.Context, id string, s call.State, attempt int, said call.Completion) error {
	r := audit.Late(s, attempt, said, j.now())
	r.EventID = "late." + id
	if j.allowed.Has(r.EventID) {
		return nil
	}
	err := j.of(s.Tenant).append(ctx, r)
	if err == nil {
		j.allowed.Add(slices.Values([]string{r.EventID}))
	}
	return err
}
