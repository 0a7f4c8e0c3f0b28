package checker

import (
	"fmt"
	"slices"
	"time"

	"github.com/seed-018f16cc/toolbus/internal/audit"
	"github.com/seed-018f16cc/toolbus/internal/call"
)

// Kept is the content of the audit record.
type Kept struct {
	Audit    []Record  // all records, in the order of each chain
	Segments []Segment // all segments, in the order of each chain
}

// Record is a record with its position and id.
type Record struct {
	Seq uint64 // sequence of its segment in the stream
	ID  string // of a record without an event in the call log
	audit.Record
}

// Segment is a segment with its sequence and timestamp.
type Segment struct {
	Seq  uint64
	Time time.Time
	audit.OpenedSegment
}

// Add adds the content of a message of the audit record. It skips messages that are not segments.
func (k *Kept) Add(data []byte, seq uint64, at time.Time) error {
	s, ok, err := audit.Open(data)
	if err != nil || !ok {
		return err
	}
	k.Segments = append(k.Segments, Segment{seq, at, s})
	for line := range s.Lines() {
		r, ok, err := audit.Decode(line)
		if err != nil || !ok {
			return fmt.Errorf("no record: %.200s: %w", line, err)
		}
		k.Audit = append(k.Audit, Record{seq, r.EventID, r})
	}
	return nil
}

// chain returns the name of the chain of a segment.
func (s Segment) chain() string { return fmt.Sprint(s.Source, " ", s.Part, s.Writer) }

// segments checks that each segment holds the records with which it was sealed, and follows the one before in its
// chain.
func segments(x *index) (found []Violation) {
	last := map[string]Segment{}
	for _, s := range x.Segments {
		wrong := func(format string, args ...any) {
			says := fmt.Sprintf("segment %d of chain %s: ", s.Seq, s.chain()) + fmt.Sprintf(format, args...)
			found = append(found, Violation{Says: says})
		}
		if err := s.Whole(); err != nil {
			wrong("%v", err)
		}
		before, second := last[s.chain()]
		if s.Prev != before.Hash {
			wrong("it follows on %q, and segment %d is %q", s.Prev, before.Seq, before.Hash)
		}
		// A process abandons a flush of its own when no caller waits for it any more.
		ended := !second || before.K == before.N || s.Source != audit.SourceLog && s.K == 1
		switch {
		case ended && s.K != 1, !ended && s.K != before.K+1:
			wrong("it is %d of %d, after %d of %d", s.K, s.N, before.K, before.N)
		case !ended && (s.After != before.After || s.Through != before.Through):
			wrong("it goes on with a flush to %d, and is of one to %d", before.Through.Seq, s.Through.Seq)
		case ended && second && s.Source == audit.SourceLog && s.After != before.Through:
			wrong("it begins after %d, and the flush before ended at %d", s.After.Seq, before.Through.Seq)
		}
		last[s.chain()] = s
	}
	return found
}

// covered checks that a strict attempt starts only after its request is recorded.
func covered(x *index) (found []Violation) {
	for _, l := range x.sorted() {
		for _, e := range l.events {
			a, _ := e.State.Attempt(e.Attempt)
			if e.Kind != call.Requested || !a.Strict {
				continue
			}
			starts := x.startsOf(l.ref, e.Attempt)
			if len(starts) == 0 {
				continue
			}
			on := slices.IndexFunc(x.Segments, func(s Segment) bool { return s.holds(e) })
			for _, start := range starts {
				if on < 0 || x.Segments[on].Time.After(time.Unix(0, start.Time)) {
					found = append(found, l.broken("%+v: its request was not on record", start))
				}
			}
		}
	}
	return found
}

// holds reports whether the segment completes the record of an event. Only the last segment of a flush does.
func (s Segment) holds(e call.Entry) bool {
	return s.Source == audit.SourceLog && s.Part == e.State.Partition && s.K == s.N &&
		s.Through.Seq >= e.State.Seq && !s.Through.Time.Before(e.Time)
}
