package pause

import (
	"context"
	"time"

	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/policy"
	"github.com/seed-018f16cc/toolbus/internal/tool"
)

// allowing is a policy that allows every call.
type allowing struct {
	*policy.Snapshot
	err error
}

func (a allowing) Current() (*policy.Snapshot, error) { return a.Snapshot, a.err }

func allow(tools *tool.Set) (a allowing) {
	d, err := policy.Generate(tools.List())
	if err != nil {
		return allowing{err: err}
	}
	set, err := policy.Parse(d)
	if err != nil {
		return allowing{err: err}
	}
	a.Snapshot, a.err = policy.Compile(set, tools.List())
	return a
}

// implicit has no runs but those that are started.
type implicit struct{}

func (implicit) Known(string, string) (*policy.Run, bool) { return nil, false }

func (implicit) Find(context.Context, string, string, time.Time) (*policy.Run, error) {
	return nil, nil
}

func (implicit) Start(_ context.Context, r envelope.Run) (*policy.Run, error) {
	return &policy.Run{
		Tenant: r.Tenant, Actors: r.Actors, State: policy.RunState(r.State), Pinned: r.Policies,
	}, nil
}
