package policy

import "github.com/seed-018f16cc/toolbus/envelope"

// Facts hold what a decision depended on besides the set, the tool and the arguments. With them it can be repeated.
type Facts struct {
	Run   *RunFacts         // nil if the call named no run, or the run did not exist
	Scope map[string]string // keys that the lane and the tool require, as far as the call had them
}

// RunFacts hold what a decision depended on of a run.
type RunFacts struct {
	Foreign bool // the run is of another tenant or actor; then the other members are zero
	State   RunState
	Pinned  envelope.PolicyVersions // of the set that the run was started with
	Unfit   bool                    // the run is for another role or for other lanes
}

// Facts returns what the decision of q depends on.
func (s *Snapshot) Facts(q Question) (f Facts) {
	v := s.view(q)
	if r := q.Run; r != nil && r.of(q.Tenant, q.Actor) {
		f.Run = &RunFacts{State: r.State, Pinned: r.Pinned, Unfit: !r.has(q.Role, q.Lane)}
	} else if r != nil {
		f.Run = &RunFacts{Foreign: true}
	}
	if v.lane == nil || v.build == nil {
		return f
	}
	for _, key := range union(v.lane.RequiredScopeKeys, v.build.RequiredScopeKeys) {
		if value, named := q.Scope[key]; named {
			if f.Scope == nil {
				f.Scope = map[string]string{}
			}
			f.Scope[key] = value
		}
	}
	return f
}

// Recall returns q with a run and a scope that it is decided by as the call was that f is about.
func (f Facts) Recall(q Question) Question {
	q.Run, q.Scope = nil, f.Scope
	if was := f.Run; was != nil {
		q.Run = &Run{Tenant: q.Tenant, State: was.State, Pinned: was.Pinned}
		if !was.Foreign {
			q.Run.Actors = []string{q.Actor}
		}
		if was.Unfit {
			q.Run.Lanes = []string{""} // of no call
		}
	}
	return q
}
