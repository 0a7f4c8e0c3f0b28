package health

import (
	"fmt"

	"github.com/seed-018f16cc/toolbus/internal/audit"
	"github.com/seed-018f16cc/toolbus/subjects"
)

// recordChains checks the segments of a stream of the audit record.
type recordChains struct {
	stream string
	begins bool              // the stream still has its first message
	hashes map[string]string // of the last segment of each chain
	wrong  []string
}

func recordOf(s *stream) *recordChains {
	return &recordChains{stream: s.name, begins: s.begun.FirstSeq == 1, hashes: map[string]string{}}
}

// isRecord reports whether a stream is one of the audit record.
func isRecord(stream string) bool {
	return stream == subjects.AuditStream || stream == subjects.SurplusStream || stream == subjects.DeniedStream
}

// segment checks a message, and returns the segment in it. ok is false if it is of a newer build, foreign or damaged.
// The oldest segments of a chain expire, so the first one that is left may follow on any.
func (r *recordChains) segment(m stored) (s audit.OpenedSegment, ok bool) {
	s, ok, err := audit.Open(m.data)
	if err != nil || !ok {
		return s, false
	}
	chain := fmt.Sprint(s.Source, " ", s.Part, s.Writer)
	if r.stream == subjects.SurplusStream {
		chain = m.subject
	}
	before, known := r.hashes[chain]
	r.hashes[chain] = s.Hash
	if err := s.Whole(); err != nil {
		r.wrong = append(r.wrong, fmt.Sprintf("%s at %d (%v)", m.subject, m.seq, err))
		return s, false
	}
	if (known || r.begins) && s.Prev != before {
		r.wrong = append(r.wrong, fmt.Sprintf("%s before %d (a segment is missing)", m.subject, m.seq))
	}
	return s, true
}
