package lockstore

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/audit"
	"github.com/seed-018f16cc/toolbus/internal/call"
)

// maxLocks is the largest number of locks in force. Executors ask for all of them several times a second.
const maxLocks = 64

// maxName is the longest lane or tool of a lock in bytes.
const maxName = 200

// Service handles the requests of operators about locks. The caller has authenticated each request and passes its
// sender, by. Each change is written to the audit record before it is stored. Its methods are safe for concurrent use.
type Service struct {
	Store  *Store
	Record func(context.Context, audit.Record) error
	Now    func() time.Time       // bus time
	Knows  func(tool string) bool // reports whether this dispatcher has loaded a tool
}

// List returns the locks in force.
func (s *Service) List(ctx context.Context) (a envelope.LocksResponse, _ *envelope.Error) {
	locks, _, err := s.Store.read(ctx)
	if err != nil {
		return a, unreached(err)
	}
	return envelope.LocksResponse{Locks: locks}, nil
}

// Lock sets a lock. A lock of the same target is replaced. If it has the same reason and operator, nothing changes, so
// that a request may be repeated.
func (s *Service) Lock(
	ctx context.Context, by call.Sender, q envelope.LockRequest,
) (a envelope.LocksResponse, _ *envelope.Error) {
	l := envelope.Lock{LockTarget: q.LockTarget, Reason: q.Reason, By: by.Tenant + "/" + by.Actor, At: s.Now().UTC()}
	return s.change(ctx, audit.LockSet, by, q, func(locks []envelope.Lock) ([]envelope.Lock, bool) {
		i := of(locks, q.LockTarget)
		if i < 0 {
			return append(slices.Clone(locks), l), true
		}
		if locks[i].Reason == l.Reason && locks[i].By == l.By {
			return locks, false
		}
		return append(slices.Delete(slices.Clone(locks), i, i+1), l), true
	})
}

// Unlock clears the lock of a target.
func (s *Service) Unlock(
	ctx context.Context, by call.Sender, q envelope.LockRequest,
) (envelope.LocksResponse, *envelope.Error) {
	return s.change(ctx, audit.LockCleared, by, q, func(locks []envelope.Lock) ([]envelope.Lock, bool) {
		i := of(locks, q.LockTarget)
		if i < 0 {
			return locks, false
		}
		return slices.Delete(slices.Clone(locks), i, i+1), true
	})
}

// of returns the index of the lock of a target, or -1.
func of(locks []envelope.Lock, t envelope.LockTarget) int {
	return slices.IndexFunc(locks, func(l envelope.Lock) bool { return l.LockTarget == t })
}

// change records the event e and stores the locks that edit returns, unless edit returns false.
func (s *Service) change(
	ctx context.Context, e audit.Event, by call.Sender, q envelope.LockRequest,
	edit func([]envelope.Lock) ([]envelope.Lock, bool),
) (a envelope.LocksResponse, _ *envelope.Error) {
	if refusal := check(q); refusal != nil {
		return a, refusal
	}
	recorded := false
	locks, changed, err := s.Store.edit(ctx, func(before []envelope.Lock) ([]envelope.Lock, bool, error) {
		after, changes := edit(before)
		if !changes || recorded {
			return after, changes, nil
		}
		if len(after) > maxLocks {
			return nil, false, tooMany()
		}
		recorded = true
		return after, true, s.record(ctx, audit.LockChanged(e, by.Tenant, by.Actor, q, s.Now()))
	})
	if err == nil && changed {
		err = s.Store.Refresh(ctx) // the next request here finds the change
	}
	if err != nil {
		return a, unreached(err)
	}
	return envelope.LocksResponse{Locks: locks, Changed: changed, UnknownTool: q.Tool != "" && !s.Knows(q.Tool)}, nil
}

// record writes a record. The error is a refusal.
func (s *Service) record(ctx context.Context, r audit.Record) error {
	err := s.Record(ctx, r)
	if err == nil {
		return nil
	}
	return &refused{envelope.NewError(envelope.CodeAuditLag, "").WithRetryAfter(time.Second).WithCause(err.Error())}
}

func tooMany() error {
	return &refused{envelope.NewError(envelope.CodeLimit, fmt.Sprintf("%d locks are in force", maxLocks)).
		WithFix("clear a lock, or lock a lane or all calls instead of single tools")}
}

// refused is the error of a change that is refused.
type refused struct{ says *envelope.Error }

func (r *refused) Error() string { return r.says.String() }

// check refuses a request without exactly one target, with a name or a reason of a wrong length.
func check(q envelope.LockRequest) *envelope.Error {
	problem := ""
	switch {
	case !q.Single():
		problem = "exactly one of all, lane and tool is locked"
	case len(q.Lane) > maxName || len(q.Tool) > maxName:
		problem = fmt.Sprintf("the name of a lane or of a tool has at most %d bytes", maxName)
	case q.Reason == "" || len(q.Reason) > envelope.MaxLockReason:
		problem = fmt.Sprintf("the reason has 1 to %d bytes", envelope.MaxLockReason)
	default:
		return nil
	}
	return envelope.NewError(envelope.CodeMalformed, problem).
		WithFix("name one target and a reason: `toolbus lock --tool ID --reason TEXT`")
}

// unreached returns the refusal for an error of the store.
func unreached(err error) *envelope.Error {
	if r, ok := errors.AsType[*refused](err); ok {
		return r.says
	}
	return envelope.NewError(envelope.CodeUnavailable, "the control bucket could not be reached").
		WithRetryAfter(time.Second).WithCause(err.Error())
}
