package lockstore

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/audit"
	"github.com/seed-018f16cc/toolbus/internal/call"
	"github.com/seed-018f16cc/toolbus/internal/policy"
	"github.com/seed-018f16cc/toolbus/internal/policy/replica"
	"github.com/seed-018f16cc/toolbus/subjects"
)

// maxLocks is the largest number of locks in force. Executors ask for all of them several times a second.
const maxLocks = 64

// maxName is the longest lane or tool of a lock in bytes.
const maxName = 200

// bucket names the bucket in refusals.
const bucket = "the control bucket"

// Service handles the requests of operators about locks. The caller has authenticated each request and passes its
// sender, by. Each change is written to the audit record before it is stored. Its methods are safe for concurrent use.
type Service struct {
	Store  *Store
	Record func(context.Context, audit.Record) error
	Now    func() time.Time // bus time
	// Policy returns the policy in force, as it was after the call of Policy.
	Policy func(context.Context) (*policy.Snapshot, error)
}

// List returns the locks in force.
func (s *Service) List(ctx context.Context) (a envelope.LocksResponse, _ *envelope.Error) {
	e, err := s.Store.locks.Read(ctx, subjects.Locks)
	if err != nil {
		return a, replica.Answer(err, bucket)
	}
	return envelope.LocksResponse{Locks: inForce(e), Revision: &e.Revision}, nil
}

// Lock sets a lock. A lock of the same target is replaced. If it has the same reason and operator, nothing changes, so
// that a request may be repeated.
func (s *Service) Lock(
	ctx context.Context, by call.Sender, q envelope.LockRequest,
) (a envelope.LocksResponse, _ *envelope.Error) {
	unchecked, refusal := s.exists(ctx, q.LockTarget)
	if refusal != nil {
		return a, refusal
	}
	l := envelope.Lock{LockTarget: q.LockTarget, Reason: q.Reason, By: by.Tenant + "/" + by.Actor, At: s.Now().UTC()}
	a, refusal = s.change(ctx, audit.LockSet, by, q, func(locks []envelope.Lock, i int) (_ []envelope.Lock, changed bool) {
		switch {
		case i < 0:
			return append(locks, l), true
		case locks[i].Reason == l.Reason && locks[i].By == l.By:
			return locks, false
		}
		return append(slices.Delete(locks, i, i+1), l), true
	})
	a.Unchecked = unchecked
	return a, refusal
}

// policyTime is how long the policy may take. A lock does not wait longer for it.
const policyTime = time.Second

// exists refuses a lock on a tool or a lane that the policy in force does not have, because it would lock nothing.
// unchecked is true if no policy can be read.
func (s *Service) exists(ctx context.Context, t envelope.LockTarget) (unchecked bool, _ *envelope.Error) {
	if t.All {
		return false, nil
	}
	ctx, cancel := context.WithTimeout(ctx, policyTime)
	defer cancel()
	in, err := s.Policy(ctx)
	if err != nil {
		return true, nil
	}
	if err := in.CheckLock(t.Tool, t.Lane); err != nil {
		return false, envelope.NewError(envelope.CodeMalformed, err.Error()).
			WithFix("name one of the policy in force: `toolbus policy show`")
	}
	return false, nil
}

// Unlock clears the lock of a target.
func (s *Service) Unlock(
	ctx context.Context, by call.Sender, q envelope.LockRequest,
) (envelope.LocksResponse, *envelope.Error) {
	return s.change(ctx, audit.LockCleared, by, q, func(locks []envelope.Lock, i int) (_ []envelope.Lock, changed bool) {
		if i < 0 {
			return locks, false
		}
		return slices.Delete(locks, i, i+1), true
	})
}

// change stores the locks that edit returns, and records the event e before if they differ. The function edit gets
// the locks in force, which it may change, and the index of that of the target, or -1. The entry is stored in any
// case: a request that expects an earlier revision is late, and must not undo this one.
func (s *Service) change(
	ctx context.Context, e audit.Event, by call.Sender, q envelope.LockRequest,
	edit func(locks []envelope.Lock, i int) (_ []envelope.Lock, changed bool),
) (a envelope.LocksResponse, _ *envelope.Error) {
	if refusal := check(q); refusal != nil {
		return a, refusal
	}
	id := call.CredentialFromContext(ctx).Request
	after, _, err := s.Store.locks.Change(ctx, subjects.Locks, func(before replica.Entry[entry]) (now entry, err error) {
		if err := before.Expected(id, q.Expect, before.Value.request()); err != nil {
			return now, err
		}
		locks := slices.Clone(inForce(before))
		i := slices.IndexFunc(locks, func(l envelope.Lock) bool { return l.LockTarget == q.LockTarget })
		now.Request = id
		now.Locks, now.Changed = edit(locks, i)
		return now, nil
	}, func(_ *entry, after entry) error {
		switch {
		case !after.Changed:
			return nil
		case len(after.Locks) > maxLocks:
			return replica.Refuse(tooMany())
		}
		if err := s.Record(ctx, audit.LockChanged(e, by.Tenant, by.Actor, q, s.Now())); err != nil {
			return replica.Refuse(replica.Unrecorded(err))
		}
		return nil
	})
	if err == nil && after.Value.Changed {
		err = s.Store.Refresh(ctx) // the next request here finds the change
	}
	if err != nil {
		return a, replica.Answer(err, bucket)
	}
	return envelope.LocksResponse{
		Locks: after.Value.locks(), Changed: after.Value.Changed, Revision: &after.Revision,
	}, nil
}

func tooMany() *envelope.Error {
	return envelope.NewError(envelope.CodeLimit, fmt.Sprintf("%d locks are in force", maxLocks)).
		WithFix("clear a lock, or lock a lane or all calls instead of single tools")
}

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
