package answer

import (
	"context"
	"errors"
	"time"

	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/audit"
	"github.com/seed-018f16cc/toolbus/internal/call"
	"github.com/seed-018f16cc/toolbus/internal/call/outcome"
	"github.com/seed-018f16cc/toolbus/internal/dispatcher/check"
	"github.com/seed-018f16cc/toolbus/internal/timer"
)

// Load returns the stored outcome of attempt n. If an executor stored an outcome that cannot be read, and Strange
// identifies the executor, Load returns the response of spoiled instead. Dispatchers are updated before executors, so a
// correct executor never stores an outcome that dispatchers cannot read. All dispatchers return the same response for
// such an attempt.
func (a *Answers) Load(ctx context.Context, s call.State, n int) (outcome.Stored, error) {
	o, err := outcome.Load(ctx, a.CallLog, s, n)
	if errors.Is(err, outcome.ErrUnreadable) && a.IsStrange(o.Attempt.Decision.Nonce) {
		o.Response = spoiled(o)
		return o, nil
	}
	return o, err
}

// spoiled returns the response for an attempt whose executor stored an unreadable outcome.
func spoiled(o outcome.Stored) *envelope.Response {
	s, a := o.State, o.Attempt
	e := envelope.NewError(envelope.CodeToolUnknownState, "the executor stored an outcome that cannot be read")
	p := envelope.Provenance{
		ToolID: s.Tool, ToolVersion: s.Version, Digest: s.Digest, Attempt: a.N, Fence: a.Decision.Fence, Final: true,
		AuditEventID: s.At(a.Decision.Seq).EventID(),
	}
	return envelope.Failure(a.Owner.CallID, e, p, envelope.Metrics{Attempts: a.N})
}

// Unreadable returns the error for an outcome that is in the log but cannot be read by this build.
func Unreadable(message string) *envelope.Error {
	return envelope.NewError(envelope.CodeChecksum, message).
		WithFix("call with a new key if the call may run again; " +
			"the operator must look at the call log, and at which builds run")
}

// Damaged returns the refusal of a request whose log is damaged, or nil if err does not say that.
func Damaged(err error) *envelope.Error {
	damaged, ok := errors.AsType[*call.DamagedError](err)
	if !ok {
		return nil
	}
	return envelope.NewError(envelope.CodeLogDamaged, damaged.Error()).WithEffect(envelope.EffectUnknown)
}

// tellUnreadable sends a caller the status and effect of attempt n, whose outcome cannot be read. The answer has Final
// false, because another dispatcher may be able to read the outcome.
func (a *Answers) tellUnreadable(to call.ReplyAddress, callID string, s call.State, n int) {
	t, _ := s.Attempt(n)
	if t.Decision == nil {
		return
	}
	message := "the call has ended with " + string(t.Decision.Status) + ", and the stored outcome cannot be read"
	p := envelope.Provenance{
		ToolID: s.Tool, ToolVersion: s.Version, Attempt: n, Fence: t.Decision.Fence,
		AuditEventID: s.At(t.Decision.Seq).EventID(),
	}
	e := Unreadable(message).WithEffect(t.Decision.Effect)
	a.replies.Outcome(to, envelope.Failure(callID, e, p, envelope.Metrics{}).Correlated(t.Owner.Trace))
}

// Replay answers with the stored outcome of attempt n, or with an error if that cannot be read. The answer does not
// wait for its audit record.
func (a *Answers) Replay(ctx context.Context, l *Line, s call.State, n int, c *check.Call) {
	o, err := a.Load(ctx, s, n)
	if err != nil {
		a.Logger.Warn("stored outcome not read", "call", s.ID, "err", err)
		if errors.Is(err, outcome.ErrUnreadable) { // sending the request again would not help
			a.tellUnreadable(c.In.ReplyAddress(), c.Ask.Owner.CallID, s, n)
		} else {
			a.RefuseDamaged(ctx, c.Request, err)
		}
		return
	}
	a.replies.Outcome(c.In.ReplyAddress(), o.For(c.Ask.Owner.CallID, true))
	a.Trace.Share(ctx, call.TraceReplayed, &s, n, c.Req)
	if !o.Attempt.Has(c.Ask.Owner.CallID) {
		if l.replayed == nil {
			l.replayed = map[int]sharing{}
		}
		l.replayed[n] = sharing{s, n, append(l.replayed[n].with, c.Ask.Owner)}
	}
}

// sharing holds callers that got the stored outcome of an attempt, to be recorded.
type sharing struct {
	of      call.State
	attempt int
	with    []call.Owner
}

// Largest numbers of sharings, and of callers in them, that wait to be recorded, and of sharings that are recorded at
// once.
const (
	maxSharings = 1024
	maxSharers  = 20_000
	recorders   = 8
)

// RecordReplays passes the replays of this batch to recordAll. The queue does not wait for that.
func (a *Answers) RecordReplays(l *Line) {
	for _, s := range l.replayed {
		if !a.queue(s) {
			a.Logger.Warn("replays not recorded: too many wait for it", "call", l.ID, "callers", len(s.with))
		}
	}
	l.replayed = nil
}

// queue adds s to the waiting sharings. It returns false if too many wait.
func (a *Answers) queue(s sharing) bool {
	callers := int64(len(s.with))
	if a.sharers.Add(callers) <= maxSharers {
		select {
		case a.sharings <- s:
			return true
		default:
		}
	}
	a.sharers.Add(-callers)
	return false
}

// recordAll records replays until ctx ends, and then the waiting ones for at most recordPause.
func (a *Answers) recordAll(ctx context.Context) {
	for {
		select {
		case s := <-a.sharings:
			a.Safely("the record of a replay", func() { a.record(ctx, s) })
		case <-ctx.Done():
			a.recordRest(context.WithoutCancel(ctx))
			return
		}
	}
}

// recordPause is the pause before a failed record is written again.
const recordPause = time.Second

func (a *Answers) record(ctx context.Context, s sharing) {
	defer a.sharers.Add(-int64(len(s.with)))
	_ = timer.Backoff{Pause: recordPause}.Until(ctx, func(ctx context.Context) (done bool, err error) {
		if err = a.records.Shared(ctx, s.of, s.attempt, s.with); err != nil {
			a.Logger.Warn("replays not recorded", "call", s.of.ID, "callers", len(s.with), "err", err)
		}
		return err == nil || errors.Is(err, audit.ErrRefused), err
	})
}

func (a *Answers) recordRest(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, recordPause)
	defer cancel()
	for ctx.Err() == nil {
		select {
		case s := <-a.sharings:
			a.record(ctx, s)
		default:
			return
		}
	}
}
