package dispatcher

import (
	"cmp"
	"context"

	"golang.org/x/sync/errgroup"

	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/auth"
	"github.com/seed-018f16cc/toolbus/internal/call"
	"github.com/seed-018f16cc/toolbus/internal/dispatcher/answer"
	"github.com/seed-018f16cc/toolbus/internal/dispatcher/deadline"
	"github.com/seed-018f16cc/toolbus/subjects"
)

// maxOpenPage is the largest number of open attempts that one answer lists: each is read from the log, and executors
// may be asked for it.
const maxOpenPage = 32

// OpenCalls lists one page of the open calls of the sender or, for an operator, of a tenant. A call that the holder
// of a bound token may not see is left out.
func (d *Dispatcher) OpenCalls(
	ctx context.Context, from call.Sender, q envelope.OpenCallsRequest,
) (a envelope.OpenCallsResponse, _ *envelope.Error) {
	of, refusal := listedOwner(auth.FromContext(ctx), Named(from), q.Tenant)
	if refusal != nil {
		return a, refusal
	}
	page, next, more := d.Deadlines.OpenAfter(q.After, maxOpenPage, of)
	calls, err := eachOpen(ctx, d, page, func(s call.State, a call.Attempt) (*envelope.OpenCall, error) {
		return d.openCall(ctx, s, a, of), nil
	})
	if err != nil {
		return a, logUnread(err).WithCause(err.Error())
	}
	return envelope.OpenCallsResponse{Calls: calls, Next: next, More: more}, nil
}

// eachOpen calls do at the same time for each attempt of a page that is still open, and returns what is not nil.
func eachOpen[T any](
	ctx context.Context, d *Dispatcher, page []deadline.Place, do func(call.State, call.Attempt) (*T, error),
) ([]T, error) {
	found := make([]*T, len(page))
	var g errgroup.Group
	for i, open := range page {
		g.Go(func() error {
			last, err := d.Head(ctx, open.Tool, open.ID)
			switch {
			case answer.Damaged(err) != nil: // what became of it is not known
				return nil
			case err != nil:
				return err
			}
			if a, ok := last.State.Attempt(open.Attempt); ok && a.Open() && a.Admitted == open.At.Seq {
				found[i], err = do(last.State, a)
			}
			return err
		})
	}
	err := g.Wait()
	all := []T{}
	for _, one := range found {
		if one != nil {
			all = append(all, *one)
		}
	}
	return all, err
}

// listedOwner returns the owner whose open calls the sender may list; its Actor is "" for all of a tenant.
func listedOwner(p *auth.Principal, from call.Sender, tenant string) (subjects.Owner, *envelope.Error) {
	switch {
	case p == nil && tenant != "": // a bus without tokens
		return subjects.Owner{Tenant: tenant}, nil
	case p == nil:
		return subjects.Owner{Tenant: from.Tenant, Actor: from.Actor}, nil
	case auth.SeesTenant(subjects.OpCallList, p):
		return subjects.Owner{Tenant: cmp.Or(tenant, p.Tenant)}, nil
	case tenant != "":
		return subjects.Owner{}, auth.ForbiddenForRole(p.Role, "the open calls of a tenant", auth.Operator)
	}
	return subjects.Owner{Tenant: p.Tenant, Actor: p.Actor}, nil
}

// openCall returns an attempt for a list. It returns nil if the attempt is not of the owner, or may not be seen.
func (d *Dispatcher) openCall(ctx context.Context, s call.State, a call.Attempt, of subjects.Owner) *envelope.OpenCall {
	if s.Tenant != of.Tenant || of.Actor != "" && a.Owner.Actor != of.Actor || !covered(ctx, a) {
		return nil
	}
	c := &envelope.OpenCall{
		Ref: s.Ref(), Tool: s.Tool, Fn: s.Fn, Tenant: s.Tenant, Actor: a.Owner.Actor, Attempt: a.N,
		State: envelope.OpenWaiting, Since: a.At.Time().UTC(), Deadline: a.Due().UTC(),
	}
	if d.runs(ctx, s, a) {
		c.State = envelope.OpenRunning
	}
	return c
}
