package audit

import (
	"cmp"
	"slices"

	"github.com/seed-018f16cc/toolbus/envelope"
)

// States of a [envelope.RunSegment].
const (
	segmentRunning   = "running"
	segmentSucceeded = "succeeded"
	segmentFailed    = "failed"
	segmentDenied    = "denied"
	segmentJoined    = "joined"
)

// RunSegments folds the records of a run into its segments. The zero value has none.
type RunSegments struct {
	byCall map[string]*envelope.RunSegment
}

// Add adds a record that names the run. Records of other things than calls have no effect, and neither have denied
// calls of callers whose run it was not: anybody may name a run.
func (f *RunSegments) Add(r *Record) {
	state := segmentState(r)
	if state == "" || state == segmentDenied && !r.deniedInRun() {
		return
	}
	s := f.segment(r)
	if state == segmentJoined && s.State != "" { // of the same run
		return
	}
	s.Attempts = max(s.Attempts, r.Attempt)
	if s.Start.IsZero() || r.Timestamp.Before(s.Start) {
		s.Start = r.Timestamp
	}
	if s.State, s.Code = state, r.Code; state != segmentRunning && state != segmentJoined {
		s.End = r.Timestamp
	}
}

// deniedInRun reports whether a denied call was proven to be one of an actor of the run that it names. The check of the
// run proves it, or denies the call by what the run was.
func (r *Record) deniedInRun() bool {
	switch {
	case r.Ref != "": // it was admitted before
		return true
	case r.Basis != nil:
		return r.Basis.Run != nil && !r.Basis.Run.Foreign
	case r.Step == 0: // its build has not recorded the step
		return true
	}
	return r.Step > stepRun || r.Rule == "run.state" || r.Rule == "run.policy_versions"
}

// stepRun is the step of the gateway contract that checks the run of a call.
const stepRun = 3

// segment returns the segment of a record: one for each call, and for each request that was denied.
func (f *RunSegments) segment(r *Record) *envelope.RunSegment {
	key := cmp.Or(r.Ref, "denied "+r.CallID)
	s := f.byCall[key]
	if s == nil {
		s = &envelope.RunSegment{Ref: r.Ref, CallID: r.CallID, Tool: r.ToolName, Actor: r.Actor, Lane: r.LaneID}
		if f.byCall == nil {
			f.byCall = map[string]*envelope.RunSegment{}
		}
		f.byCall[key] = s
	}
	return s
}

// segmentState returns the state that the segment of a record has from then on, or "" if the record changes none.
func segmentState(r *Record) string {
	switch r.Meaning() {
	case ToolRequested:
		return segmentRunning
	case ToolExecuted:
		return segmentSucceeded
	case ToolFailed, ToolTimeout, ToolCancelled:
		return segmentFailed
	case ToolDenied:
		return segmentDenied
	case ToolJoined:
		return segmentJoined
	case ToolReplayed:
		if r.Status == envelope.Success {
			return segmentSucceeded
		}
		return segmentFailed
	}
	return ""
}

// All returns the segments in the order of their start.
func (f *RunSegments) All() []envelope.RunSegment {
	all := make([]envelope.RunSegment, 0, len(f.byCall))
	for _, s := range f.byCall {
		all = append(all, *s)
	}
	slices.SortFunc(all, func(a, b envelope.RunSegment) int {
		return cmp.Or(a.Start.Compare(b.Start), cmp.Compare(a.Ref, b.Ref), cmp.Compare(a.CallID, b.CallID))
	})
	return all
}
