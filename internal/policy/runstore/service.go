package runstore

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/seed-018f16cc/toolbus/bus"
	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/audit"
	"github.com/seed-018f16cc/toolbus/internal/call"
	"github.com/seed-018f16cc/toolbus/internal/policy"
	"github.com/seed-018f16cc/toolbus/internal/policy/replica"
)

// maxName is the largest length, in bytes, of the id of a run, and of an actor, a role or a lane of one.
const maxName = 256

// Service handles the requests of operators and agents about runs. The caller has authenticated each request. Each
// change is written to the audit record before it is stored. The methods are safe for concurrent use.
type Service struct {
	Store       *Store
	Record      func(context.Context, audit.Record) error
	DefaultRole string // role of tokens without roles
	// Policy returns the policy in force, as it was after the call of Policy.
	Policy func(context.Context) (*policy.Snapshot, error)
}

// Start starts a run.
func (s *Service) Start(ctx context.Context, by Sender, q envelope.RunStartRequest) (
	a envelope.RunResponse, refusal *envelope.Error) {
	if q, refusal = s.mayStart(by, q); refusal != nil {
		return a, refusal
	}
	if refusal := checkStart(q); refusal != nil {
		return a, refusal
	}
	in, refusal := s.inForce(ctx)
	if refusal != nil {
		return a, refusal
	}
	if err := in.CheckRun(q.Role, q.Lanes); err != nil {
		return a, malformed(err.Error()).WithFix("name a role and lanes of the policy: `toolbus policy show`")
	}
	run := envelope.Run{
		ID: q.ID, Tenant: q.Tenant, Actors: q.Actors, Role: q.Role, Lanes: q.Lanes, State: string(policy.RunActive),
		Policies: in.Versions(), Start: s.Store.Now().UTC(), By: by.name(),
	}
	var started *starter
	started, run.Expires = by.starter()
	id := call.CredentialFromContext(ctx).Request
	if refusal := checkSize(record{Run: run, Starter: started, Request: id}); refusal != nil {
		return a, refusal
	}
	return s.edit(ctx, by, audit.RunStarted, name{q.Tenant, q.ID}, q.Reason, nil,
		func(before *envelope.Run) (envelope.Run, error) {
			switch {
			case before == nil:
				return run, s.Store.admit(ctx, by)
			case sameStart(*before, run):
				return *before, replica.ErrUnchanged
			}
			return run, replica.Refuse(envelope.NewError(envelope.CodeRunState, "a run with this id exists already").
				WithFix("start one with another id: `toolbus runs start RUN_ID`"))
		})
}

// sameStart reports whether a run is what a repeated request would start.
func sameStart(have, run envelope.Run) bool {
	have.Start = run.Start
	return have.By == run.By && have.State == run.State && have.Role == run.Role && !have.Implicit &&
		have.Policies == run.Policies && slices.Equal(have.Actors, run.Actors) && slices.Equal(have.Lanes, run.Lanes)
}

// Change pauses, resumes or closes a run.
func (s *Service) Change(
	ctx context.Context, by Sender, q envelope.RunChangeRequest,
) (a envelope.RunResponse, _ *envelope.Error) {
	event, known := map[string]audit.Event{
		string(policy.RunActive): audit.RunResumed, string(policy.RunPaused): audit.RunPaused,
		string(policy.RunClosed): audit.RunClosed,
	}[q.State]
	if !known {
		return a, malformed("the state is active, paused or closed")
	}
	if refusal := by.mayChange(q); refusal != nil {
		return a, refusal
	}
	n := name{orOwn(q.Tenant, by), q.ID}
	return s.edit(ctx, by, event, n, q.Reason, q.Expect, func(before *envelope.Run) (envelope.Run, error) {
		switch {
		case before == nil || !by.owns(before):
			return envelope.Run{}, ErrNone
		case before.State == q.State:
			return *before, replica.ErrUnchanged
		case before.State == string(policy.RunClosed):
			return *before, replica.Refuse(envelope.NewError(envelope.CodeRunState, "the run is closed").
				WithFix("start another run: `toolbus runs start`"))
		}
		after := *before
		if after.State = q.State; q.State == string(policy.RunClosed) {
			after.End = s.Store.Now().UTC()
		}
		return s.Store.kept(ctx, after), nil
	})
}

// Repin pins a run to the policy in force.
func (s *Service) Repin(
	ctx context.Context, by Sender, q envelope.RunRequest,
) (a envelope.RunResponse, _ *envelope.Error) {
	in, refusal := s.inForce(ctx)
	if refusal != nil {
		return a, refusal
	}
	n := name{orOwn(q.Tenant, by), q.ID}
	return s.edit(ctx, by, audit.RunRepinned, n, q.Reason, nil, func(before *envelope.Run) (envelope.Run, error) {
		switch {
		case before == nil:
			return envelope.Run{}, ErrNone
		case before.Policies == in.Versions():
			return *before, replica.ErrUnchanged
		case before.Implicit:
			return *before, replica.Refuse(envelope.NewError(envelope.CodeRunState, "implicit runs are not moved").
				WithFix("the next call of its token starts an implicit run of the policy in force"))
		case before.State == string(policy.RunClosed):
			return *before, replica.Refuse(envelope.NewError(envelope.CodeRunState, "the run is closed").
				WithFix("start another run: `toolbus runs start`"))
		}
		after := *before
		after.Policies = in.Versions()
		return after, nil
	})
}

// Show returns the record of a run.
func (s *Service) Show(
	ctx context.Context, by Sender, q envelope.RunRequest,
) (a envelope.RunResponse, _ *envelope.Error) {
	run, revision, err := s.Store.Get(ctx, orOwn(q.Tenant, by), q.ID)
	if err != nil {
		return a, refusalOf(err)
	}
	return envelope.RunResponse{Run: run, Revision: &revision}, nil
}

// edit stores what change returns for the stored run, or for nil, and records the event e before. If change returns an
// error, it does neither. With [replica.ErrUnchanged], which is no refusal, it stores the run as it is and records
// nothing: a request that expects an earlier revision is late, and must not undo this one.
func (s *Service) edit(
	ctx context.Context, by Sender, e audit.Event, n name, reason string, expect *uint64,
	change func(*envelope.Run) (envelope.Run, error),
) (a envelope.RunResponse, _ *envelope.Error) {
	if len(reason) > envelope.MaxReason {
		return a, malformed(fmt.Sprintf("the reason has at most %d bytes", envelope.MaxReason))
	}
	id := call.CredentialFromContext(ctx).Request
	var was replica.Entry[record]
	var now record
	after, err := s.Store.edit(ctx, n, func(before replica.Entry[record]) (_ record, err error) {
		was, now = before, record{Request: id}
		if before.Value = s.Store.now(before.Value); before.Value != nil {
			now.Starter = before.Value.Starter
		} else {
			now.Starter, _ = by.starter()
		}
		if err := before.Expected(id, expect, before.Value.request()); err != nil {
			return now, err
		}
		now.Run, err = change(before.Value.run())
		if now.Changed = err == nil; errors.Is(err, replica.ErrUnchanged) {
			err = nil
		}
		return now, err
	}, func(before *record, after record) error {
		if !after.Changed {
			return nil
		}
		var pinned envelope.PolicyVersions
		if before != nil {
			pinned = before.Policies
		}
		err := s.Record(ctx, audit.RunChanged(e, by.name(), by.Actor, after.Run, pinned, reason, s.Store.Now()))
		if err != nil {
			return replica.Refuse(replica.Unrecorded(err))
		}
		if before == nil {
			return s.Store.take(ctx, after)
		}
		return nil
	})
	if bus.IsStorageFull(err) && now.ends() {
		after.Value, err = &now, s.Store.remove(ctx, n, was.Revision)
	}
	if err != nil {
		return a, refusalOf(err)
	}
	s.Store.leave(ctx, *after.Value)
	return envelope.RunResponse{Run: after.Value.Run, Changed: after.Value.Changed, Revision: &after.Revision}, nil
}

// inForce returns the policy in force.
func (s *Service) inForce(ctx context.Context) (*policy.Snapshot, *envelope.Error) {
	in, err := s.Policy(ctx)
	switch {
	case err == nil:
		return in, nil
	case errors.Is(err, policy.ErrNone), errors.Is(err, policy.ErrUnusable):
		return nil, envelope.NewError(envelope.CodePolicyVersion, "the bus has no policy to pin the run to").
			WithFix("push one: `toolbus policy push DIR`").WithCause(err.Error())
	}
	return nil, envelope.NewError(envelope.CodeUnavailable, err.Error()).WithRetryAfter(time.Second)
}

// checkStart refuses names that are too long or unreadable.
func checkStart(q envelope.RunStartRequest) *envelope.Error {
	switch {
	case policy.IsImplicitRunID(q.ID):
		return malformed("ids that begin with implicit- are those of implicit runs").WithFix("choose another run_id")
	case len(q.Actors) == 0 || len(q.Actors) > envelope.MaxRunActors:
		return malformed(fmt.Sprintf("a run has 1 to %d actors", envelope.MaxRunActors)).
			WithFix("name the actors whose calls may belong to the run: `toolbus runs start --calls-of ACTOR`")
	case len(q.Lanes) > envelope.MaxRunLanes:
		return malformed(fmt.Sprintf("a run has at most %d lanes", envelope.MaxRunLanes)).
			WithFix("name no lane to allow all that the role may use")
	}
	if strings.ContainsFunc(q.ID, func(r rune) bool { return unicode.IsSpace(r) || !unicode.IsGraphic(r) }) {
		return malformed("the id of a run has no spaces, control or format characters").
			WithFix("choose a run_id such as nightly-42, or leave it out: `toolbus runs start` makes one")
	}
	for _, text := range slices.Concat([]string{q.ID, q.Tenant}, q.Actors, q.Lanes) {
		if text == "" || len(text) > maxName || !utf8.ValidString(text) || strings.ContainsFunc(text, unicode.IsControl) {
			return malformed(fmt.Sprintf("the run, its tenant, its actors and its lanes are named in 1 to %d bytes without "+
				"control characters", maxName))
		}
	}
	return nil
}

// refusalOf returns the answer for an error of the store.
func refusalOf(err error) *envelope.Error {
	switch {
	case errors.Is(err, ErrNone):
		return envelope.NewError(envelope.CodeRunUnknown, "").WithFix("list the runs with `toolbus runs list`")
	case bus.IsStorageFull(err):
		return full("the bucket of the runs is full")
	}
	return replica.Answer(err, "the bucket of the runs")
}

func malformed(message string) *envelope.Error {
	return envelope.NewError(envelope.CodeMalformed, message)
}
