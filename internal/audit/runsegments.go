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

// Add adds a record of the run. Records of other things than calls have no effect.
func (f *RunSegments) Add(r *Record) {
	state := segmentState(r)
	if state == "" {
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
