package deadline

import (
	"cmp"
	"context"
	"errors"
	"hash/fnv"
	"strings"
	"sync"
	"time"

	"github.com/seed-018f16cc/toolbus/internal/call"
	"github.com/seed-018f16cc/toolbus/internal/call/outcome"
	"github.com/seed-018f16cc/toolbus/internal/dispatcher/answer"
	"github.com/seed-018f16cc/toolbus/internal/encoding/format"
	"github.com/seed-018f16cc/toolbus/internal/flow"
	"github.com/seed-018f16cc/toolbus/internal/timer"
	"github.com/seed-018f16cc/toolbus/subjects"
)

// DefaultPoolAbsence is longer than a rolling restart of the executors of a pool usually takes.
const DefaultPoolAbsence = 10 * time.Second

// Options configures [Deadlines]. The zero value ends attempts only at their deadlines.
type Options struct {
	PoolEvidence PoolEvidence // nil: attempts of absent pools end at their deadlines
	Builds       Builds       // nil: attempts whose build no live executor has end at their deadlines
	// PoolAbsence is the time without a live executor after which waiting calls of a pool are ended; default 10 s. It
	// should be longer than a restart of the executors takes, and not shorter than the lease.
	PoolAbsence time.Duration
	Backup      time.Duration // delay before deadlines of other dispatchers' attempts are enforced; default 20 ms
}

// PoolEvidence reports which executors of a pool are live, and what they cannot have done. Methods with a ctx may ask
// the server; if ctx ends first, nothing is proved.
type PoolEvidence interface {
	// AbsentSince returns since when the pool has had no live executor, in bus time, as last observed. It is zero if the
	// pool has one, or if that is not known. It sends no messages.
	AbsentSince(pool string) time.Time
	// WasAbsentAt reports whether it is certain that the pool has had no live executor at the given time and since. Then
	// an executor that starts later must claim attempts that were stored at that time.
	WasAbsentAt(ctx context.Context, pool string, at time.Time) bool
	// SawNone reports whether reads over one connection have found no executor of the pool since before a time. An
	// executor may run all the same, whose heartbeats a server lost before.
	SawNone(ctx context.Context, pool string, since time.Time) bool
	// Delivered reports whether the server has delivered the message at a position, in a queue of the pool.
	Delivered(ctx context.Context, at call.Position, pool, queue string) (bool, error)
}

// Builds reports which builds of tools the live executors of a pool do not have, as they say in their heartbeats.
type Builds interface {
	// Lacking reports whether all executors of a pool that were heard say that they do not have a build of a tool. It
	// sends no messages.
	Lacking(pool, tool, build string) bool
	// NoneHas reports whether that is certain: it reads the heartbeats. It returns the digests of the builds that the
	// executors have instead.
	NoneHas(ctx context.Context, pool, tool, build string) (has []string, certain bool, err error)
}

// Deadlines ends the attempts that no executor ends in time. Make one with [New]. Its methods are safe for concurrent
// use.
type Deadlines struct {
	*answer.Process
	*Options
	Watches
	answers *answer.Answers
	opened  *flow.Counters
	notices format.Notices
}

// New returns Deadlines of the attempts in w, which end attempts only while Run runs. It sets the defaults of o. opened
// counts the watched attempts.
func New(p *answer.Process, o *Options, w Watches, answers *answer.Answers, opened *flow.Counters) *Deadlines {
	o.PoolAbsence = cmp.Or(o.PoolAbsence, DefaultPoolAbsence)
	o.Backup = cmp.Or(o.Backup, 20*time.Millisecond)
	return &Deadlines{Process: p, Options: o, Watches: w, answers: answers, opened: opened}
}

// Run ends attempts until ctx ends. Its goroutines have ended when it returns.
func (d *Deadlines) Run(ctx context.Context) {
	var wg sync.WaitGroup
	defer wg.Wait()
	for _, w := range d.Watches {
		wg.Go(func() { d.keepDeadlines(ctx, w) })
	}
	wg.Go(func() { d.endPoolAbsent(ctx) })
	wg.Go(func() { d.endBuildAbsent(ctx) })
}

// Observe updates the watched attempts by an event of the call log.
func (d *Deadlines) Observe(kind call.Kind, attempt int, s call.State) {
	a, ok := s.Attempt(attempt)
	w := d.Watches[s.Position.Partition]
	w.saw(s.Seq)
	switch {
	case !ok:
	case kind == call.Decided:
		w.close(s.ID, a.N, a.Admitted)
	case a.Open(): // also for claims and joins: the request event may have expired before this dispatcher started
		d.Watch(s, a, true)
	}
}

// Watch starts to watch the deadline of an open attempt, and counts it as waiting in its pool until it is claimed.
// shown means that the follower has just read an event of it.
func (d *Deadlines) Watch(s call.State, a call.Attempt, shown bool) {
	w := d.Watches[s.Position.Partition]
	w.open(s.Tool, s.ID, a, d.backup(s.ID, a), shown)
	w.count(d.opened, s, a)
	early := a.At.Time().Add(leastAge)
	if !strings.HasPrefix(a.Nonce, d.Instance) {
		early = early.Add(othersWait)
	}
	w.bind(s, a, early)
	w.queue(s, a)
}

// Open returns the number of open attempts of each tenant that has any, with those that are about to be opened.
func (d *Deadlines) Open() map[string]int { return d.opened.Tenants() }

// backup returns the delay after its deadline with which this dispatcher ends an attempt: 0 for attempts that it
// admitted itself, and otherwise Options.Backup plus 0 to 29 ms that depend on the id. The compare-and-set makes it
// harmless if two dispatchers end the same attempt.
func (d *Deadlines) backup(id string, a call.Attempt) time.Duration {
	if strings.HasPrefix(a.Nonce, d.Instance) {
		return 0
	}
	h := fnv.New32a()
	h.Write([]byte(id))
	return d.Backup + time.Duration(h.Sum32()%30)*time.Millisecond
}

// expirers is the number of deadlines per partition that are handled at once.
const expirers = 32

// keepDeadlines ends the attempts of one partition at their deadlines, until ctx ends.
func (d *Deadlines) keepDeadlines(ctx context.Context, w *watch) {
	crew := flow.NewBoundedWorkerPool(expirers, func(job *openAttempt) {
		if !d.Safely("a deadline", func() { d.expire(ctx, w, job) }) {
			w.retry(job, retryPanic)
		}
	})
	defer crew.Wait()
	timer.Repeat(ctx, w.wake, func() time.Duration {
		now, pause := w.next()
		for _, job := range now {
			if ctx.Err() == nil {
				crew.Start(job)
			}
		}
		return pause
	})
}

// expire ends an attempt whose deadline has passed, and sends its owner the outcome. If the log cannot be reached, it
// tries again later.
func (d *Deadlines) expire(ctx context.Context, w *watch, job *openAttempt) {
	o, err := d.end(ctx, job, call.TraceBeforeTimeout, ending{cause: call.TimedOut, by: call.ByDeadline})
	switch {
	case errors.Is(err, outcome.ErrAttemptGone):
		w.close(job.id, job.attempt, job.admitted)
		d.answers.Abandon(subjects.Key{Tool: job.tool, ID: job.id}, job.attempt, job.admitted)
		return
	case format.Newer(err):
		d.notices.Log(d.Logger, "a deadline is left to dispatchers of a newer build", err)
		w.close(job.id, job.attempt, job.admitted)
		return
	case errors.Is(err, outcome.ErrUnreadable): // decided: callers that ask get an error that says so
		d.Logger.Warn("outcome not read", "call", job.id, "err", err)
		w.close(job.id, job.attempt, job.admitted)
		return
	case d.answers.FoundDamaged(ctx, "", job.tool, err) != nil: // nothing may be decided
		w.close(job.id, job.attempt, job.admitted)
		d.answers.Abandon(subjects.Key{Tool: job.tool, ID: job.id}, job.attempt, job.admitted)
		return
	case err != nil:
		if ctx.Err() == nil {
			d.Logger.Warn("deadline not decided yet", "call", job.id, "err", err)
			w.retry(job, retryExpiry)
		}
		return
	}
	d.ended(ctx, w, job, o)
}

// ended stops watching a decided attempt, and sends its owner the outcome.
func (d *Deadlines) ended(ctx context.Context, w *watch, job *openAttempt, o outcome.Stored) {
	o.Emit(ctx, &d.Trace)
	w.close(job.id, job.attempt, job.admitted)
	d.answers.TellOwner(o)
}

// Pauses before a failed deadline is handled again. The pause after a panic is longer, because each one is logged with
// its stack.
const (
	retryExpiry = 50 * time.Millisecond
	retryPanic  = time.Second
)

// evidenceTime limits the search for evidence at a deadline, because the caller must have its answer within 100 ms
// after it.
const evidenceTime = 40 * time.Millisecond

// ending is the reason for which a dispatcher ends an attempt. With call.BuildAbsent, here holds the digests of the
// builds that live executors have.
type ending struct {
	cause call.Cause
	by    call.Decider
	here  []string
}

// end ends the attempt of a job, unless it has an outcome, and returns the stored outcome. It emits the trace point at.
func (d *Deadlines) end(
	ctx context.Context, job *openAttempt, at call.TracePoint, why ending,
) (outcome.Stored, error) {
	last, err := d.Head(ctx, job.tool, job.id)
	if err != nil {
		return outcome.Stored{}, err
	}
	d.Trace.Emit(ctx, at, &last.State, job.attempt)
	end := call.Completion{Cause: why.cause, By: why.by, Nonce: d.NewNonce(), Now: call.At(d.Now())}
	draft := d.evidence(ctx, last, job.attempt, &end)
	if why.cause == call.BuildAbsent {
		draft.Error = withoutBuild(last.State, why.here)
	}
	return outcome.Resolve(ctx, d.CallLog, last.State, job.attempt, job.admitted, end, draft, nil)
}

// evidence sets in end, the completion of attempt n, when the attempt was stored, and whether it is certain that no
// executor started it, if both can be found out in time. It returns the draft of the response. last is the last event
// of the log.
func (d *Deadlines) evidence(ctx context.Context, last call.Entry, n int, end *call.Completion) outcome.Draft {
	ctx, cancel := context.WithTimeout(ctx, evidenceTime)
	defer cancel()
	s := last.State
	a, ok := s.Attempt(n)
	draft := outcome.Draft{}.WithIgnoredWarnings(a)
	if !ok || !a.Open() || a.Claim != nil {
		return draft
	}
	stored := last.Time
	if s.Seq != a.Admitted {
		var err error
		if stored, err = d.StoredAt(ctx, s, a.Admitted); err != nil || stored.IsZero() {
			return draft
		}
	}
	end.Stored = call.At(stored)
	if end.Stored < a.Deadline && s.MayRunAgain() && d.PoolEvidence != nil { // else the log shows it
		late := end.Cause == call.TimedOut
		end.NotTaken = (s.HasNoEffect() || late && d.PoolEvidence.SawNone(ctx, s.Pool, stored)) &&
			d.undelivered(ctx, s, a) || d.PoolEvidence.WasAbsentAt(ctx, s.Pool, stored)
	}
	return draft
}

// undelivered reports whether the server has not delivered the attempt yet. It may do so at this moment. That does not
// matter for a call that has no effect in any case. Past the deadline it does not matter either, if no executor of the
// pool was seen: one that starts later claims the attempt, and one that was running does not start it so late.
func (d *Deadlines) undelivered(ctx context.Context, s call.State, a call.Attempt) bool {
	delivered, err := d.PoolEvidence.Delivered(ctx, s.At(a.Admitted), s.Pool, a.Queue())
	return err == nil && !delivered
}
