package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/audit"
	"github.com/seed-018f16cc/toolbus/internal/call"
	"github.com/seed-018f16cc/toolbus/internal/operation"
	"github.com/seed-018f16cc/toolbus/internal/policy/replica"
	"github.com/seed-018f16cc/toolbus/internal/rpc"
	"github.com/seed-018f16cc/toolbus/kv"
	"github.com/seed-018f16cc/toolbus/subjects"
)

const (
	// maxDamaged is the number of calls in the list. Damaged calls beyond it are refused, and not listed.
	maxDamaged = 256
	// noteAgain is the time after which a damaged log is listed again: an operator may have decided meanwhile, and the
	// log may be damaged again.
	noteAgain = 10 * time.Second
)

// repairs lists the calls whose logs are damaged in an entry of the bucket "control", so that all dispatchers and
// operators see the same ones. A decision of an operator is in the log itself, see [kv.Log.Repair].
type repairs struct {
	list   *replica.Replica[damagedCalls]
	log    *kv.Log
	record func(context.Context, audit.Record) error
	toolOf func(token string) (string, bool)
	now    func() time.Time
	logger *slog.Logger

	mu    sync.Mutex
	noted map[string]time.Time // by reference: when it was listed
}

// damagedCalls is the content of the entry.
type damagedCalls struct {
	Calls []envelope.DamagedCall `json:"calls"`
}

// openRepairs opens the list. The caller sets record.
func openRepairs(ctx context.Context, d *dispatcherProcess) (*repairs, error) {
	list, err := replica.Open[damagedCalls](ctx, d.state.js, subjects.ControlStream, "damaged calls", nil, d.copies)
	return &repairs{
		list: list, log: d.Log, toolOf: d.options.Tools.Named, now: d.Clock.Now, logger: d.Logger,
		noted: map[string]time.Time{},
	}, err
}

// kept returns the calls of an entry that have not expired, and the index of one of them, or -1.
func (r *repairs) kept(e replica.Entry[damagedCalls], ref string) (all []envelope.DamagedCall, at int) {
	if e.Value != nil {
		now := r.now()
		all = slices.DeleteFunc(slices.Clone(e.Value.Calls), func(c envelope.DamagedCall) bool {
			return !now.Before(c.Expires)
		})
	}
	return all, slices.IndexFunc(all, func(c envelope.DamagedCall) bool { return c.Ref == ref })
}

// damage lists a call whose log is damaged. It writes at most one entry for each call in [noteAgain].
func (r *repairs) damage(ctx context.Context, c envelope.DamagedCall) {
	if !r.isDue(c.Ref) {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, 2*replica.AskTime)
	defer cancel()
	c.Found = r.now().UTC()
	_, _, err := r.list.Change(ctx, subjects.Repairs, func(e replica.Entry[damagedCalls]) (damagedCalls, error) {
		all, i := r.kept(e, c.Ref)
		switch {
		case i < 0 && len(all) >= maxDamaged:
			return damagedCalls{}, replica.ErrUnchanged
		case i < 0:
			return damagedCalls{append(all, c)}, nil
		case all[i].Tenant == "" && c.Tenant != "":
			all[i].Tenant = c.Tenant
			return damagedCalls{all}, nil
		case all[i].Decision == "" || c.Found.Sub(all[i].Decided) < noteAgain:
			return damagedCalls{}, replica.ErrUnchanged
		}
		all[i] = c // it is damaged again
		return damagedCalls{all}, nil
	}, nil)
	if err != nil {
		r.logger.Warn("a damaged call is not listed", "call", c.Ref, "err", err)
	}
}

// isDue reports whether a call was not listed within [noteAgain], and takes it as listed.
func (r *repairs) isDue(ref string) bool {
	now := time.Now()
	r.mu.Lock()
	defer r.mu.Unlock()
	if at, ok := r.noted[ref]; ok && now.Sub(at) < noteAgain {
		return false
	}
	if len(r.noted) > 4*maxDamaged {
		clear(r.noted)
	}
	r.noted[ref] = now
	return true
}

const controlBucket = "the control bucket"

// all lists the calls whose logs are damaged.
func (r *repairs) all(ctx context.Context) (a envelope.RepairsResponse, _ *envelope.Error) {
	e, err := r.list.Read(ctx, subjects.Repairs)
	if err != nil {
		return a, replica.Answer(err, controlBucket)
	}
	a.Calls, _ = r.kept(e, "")
	return a, nil
}

// decide carries out the decision of an operator. It writes the log first: if the list is not written after that, the
// same request writes it.
func (r *repairs) decide(ctx context.Context, by call.Sender, q envelope.RepairRequest) (
	a envelope.RepairsResponse, _ *envelope.Error) {
	key, err := subjects.ParseRef(q.Ref)
	if refusal := checkRepair(q, err); refusal != nil {
		return a, refusal
	}
	if key.Tool == "" { // the reference contains only a digest of the tool id
		token, _, _ := strings.Cut(q.Ref, ".")
		key.Tool, _ = r.toolOf(token)
	}
	e, err := r.list.Read(ctx, subjects.Repairs)
	if err != nil {
		return a, replica.Answer(err, controlBucket)
	}
	c := envelope.DamagedCall{Ref: q.Ref, Tool: key.Tool}
	if listed, i := r.kept(e, q.Ref); i >= 0 {
		c = listed[i]
		r.log.Expect(key.Tool, key.ID, c.Newest, c.Expires)
	}
	_, err = r.log.Last(ctx, key.Tool, key.ID)
	damaged, ok := errors.AsType[*call.DamagedError](err)
	if err != nil && !ok {
		return a, unreadLog(err)
	}
	if refusal := undecidable(q, c, damaged); refusal != nil {
		return a, refusal
	}
	if c.Decision == q.Decision && (damaged == nil || damaged.Refused) {
		return envelope.RepairsResponse{Calls: []envelope.DamagedCall{c}}, nil
	}
	if damaged != nil && !damaged.Refused { // otherwise the decision is on record, and in the log
		if err := r.record(ctx, audit.LogRepaired(by.Tenant, by.Actor, c, q, r.now())); err != nil {
			return a, replica.Unrecorded(err)
		}
		c.End, c.Newest, c.Expires = damaged.End, damaged.Newest, damaged.Expires.UTC()
		if err := r.log.Repair(ctx, key.Tool, key.ID, damaged, q.Decision == envelope.RepairRefuse); err != nil {
			return a, unreadLog(err)
		}
	}
	c.Decision, c.Reason, c.By, c.Decided = q.Decision, q.Reason, by.Tenant+"/"+by.Actor, r.now().UTC()
	if err := r.store(ctx, c); err != nil {
		return a, replica.Answer(err, controlBucket)
	}
	return envelope.RepairsResponse{Calls: []envelope.DamagedCall{c}, Changed: true}, nil
}

// store stores a call with its decision in the list, if there is room.
func (r *repairs) store(ctx context.Context, c envelope.DamagedCall) error {
	_, _, err := r.list.Change(ctx, subjects.Repairs, func(e replica.Entry[damagedCalls]) (damagedCalls, error) {
		all, i := r.kept(e, c.Ref)
		switch {
		case i >= 0:
			all[i] = c
		case len(all) < maxDamaged:
			all = append(all, c)
		}
		return damagedCalls{all}, nil
	}, nil)
	return err
}

// undecidable refuses a decision that the log does not allow. damaged is nil if the log is whole.
func undecidable(q envelope.RepairRequest, c envelope.DamagedCall, damaged *call.DamagedError) *envelope.Error {
	switch {
	case damaged != nil && damaged.Refused && q.Decision == envelope.RepairAccept:
		return envelope.NewError(envelope.CodeMalformed, damaged.Error()).
			WithFix("call with a new key: callers know that this one has ended")
	case damaged == nil && (q.Decision == envelope.RepairRefuse || c.Found.IsZero()):
		return envelope.NewError(envelope.CodeNotFound, fmt.Sprintf("the log of call %.200s is not damaged", q.Ref)).
			WithFix("`toolbus repair list` lists the damaged ones")
	}
	return nil
}

// checkRepair refuses a request whose reference, decision or reason is not one. unread is the error of the reference.
func checkRepair(q envelope.RepairRequest, unread error) *envelope.Error {
	problem := ""
	switch {
	case unread != nil:
		problem = "the reference is not of the form <tool>.<id>"
	case q.Decision != envelope.RepairAccept && q.Decision != envelope.RepairRefuse:
		problem = "the decision is accept or refuse"
	case q.Reason == "" || len(q.Reason) > envelope.MaxLockReason:
		problem = fmt.Sprintf("the reason has 1 to %d bytes", envelope.MaxLockReason)
	default:
		return nil
	}
	return envelope.NewError(envelope.CodeMalformed, problem).
		WithFix("name a call of `toolbus repair list` and a reason: `toolbus repair accept REF --reason TEXT`")
}

func unreadLog(err error) *envelope.Error {
	return envelope.NewError(envelope.CodeUnavailable, "the call log could not be reached").
		WithRetryAfter(time.Second).WithCause(err.Error())
}

// repairEndpoints returns the endpoints for damaged logs. The caller must guard them: they are for operators.
func (d *dispatcherParts) repairEndpoints() []rpc.Endpoint {
	return []rpc.Endpoint{
		rpc.NewEndpoint(operation.Repair, fromNamed(d.repairs.decide)),
		rpc.NewEndpoint(operation.Repairs, fromAny(func(ctx context.Context, _ struct{}) (
			envelope.RepairsResponse, *envelope.Error) {
			return d.repairs.all(ctx)
		})),
	}
}
