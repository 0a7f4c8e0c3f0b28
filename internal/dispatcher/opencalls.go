package dispatcher

import (
	"cmp"
	"context"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/auth"
	"github.com/seed-018f16cc/toolbus/internal/call"
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
	a.Calls, a.Next, a.More = []envelope.OpenCall{}, next, more
	found := make([]*envelope.OpenCall, len(page))
	var g errgroup.Group
	for i, o := range page {
		g.Go(func() (err error) {
			found[i], err = d.openCall(ctx, o, of)
			return err
		})
	}
	if err := g.Wait(); err != nil {
		return a, envelope.NewError(envelope.CodeUnavailable, "the call log could not be read").
			WithRetryAfter(time.Second).WithCause(err.Error())
	}
	for _, c := range found {
		if c != nil {
			a.Calls = append(a.Calls, *c)
		}
	}
	return a, nil
}

// listedOwner returns the owner whose open calls the sender may list; its Actor is "" for all of a tenant.
func listedOwner(p *auth.Principal, from call.Sender, tenant string) (subjects.Owner, *envelope.Error) {
	switch {
	case p == nil && tenant != "": // a bus without tokens
		return subjects.Owner{Tenant: tenant}, nil
	case p == nil:
		return subjects.Owner{Tenant: from.Tenant, Actor: from.Actor}, nil
	case p.Role == auth.Operator:
		return subjects.Owner{Tenant: cmp.Or(tenant, p.Tenant)}, nil
	case tenant != "":
		return subjects.Owner{}, auth.ForbiddenForRole(p.Role, "the open calls of a tenant")
	}
	return subjects.Owner{Tenant: p.Tenant, Actor: p.Actor}, nil
}

// openCall returns an attempt for a list. It returns nil if the attempt is decided, is not of the owner, or may not be
// seen.
func (d *Dispatcher) openCall(
	ctx context.Context, open deadline.Place, of subjects.Owner,
) (*envelope.OpenCall, error) {
	last, err := d.Head(ctx, open.Tool, open.ID)
	if err != nil {
		return nil, err
	}
	s := last.State
	a, ok := s.Attempt(open.Attempt)
	if !ok || !a.Open() || a.Admitted != open.At.Seq || s.Tenant != of.Tenant ||
		of.Actor != "" && a.Owner.Actor != of.Actor || !covered(ctx, a) {
		return nil, nil
	}
	c := &envelope.OpenCall{
		Ref: s.Ref(), Tool: s.Tool, Fn: s.Fn, Tenant: s.Tenant, Actor: a.Owner.Actor, Attempt: a.N,
		State: envelope.OpenWaiting, Since: a.At.Time().UTC(), Deadline: a.Due().UTC(),
	}
	if d.runs(ctx, s, a) {
		c.State = envelope.OpenRunning
	}
	return c, nil
}
