package health

import (
	"testing"

	"github.com/seed-018f16cc/toolbus/internal/audit"
	"github.com/seed-018f16cc/toolbus/subjects"
)

// sealed returns the messages of n segments of one chain, with one record each.
func sealed(t *testing.T, n int) (all []stored) {
	t.Helper()
	prev := ""
	for i := range n {
		bodies, err := audit.SplitSegments([]audit.Record{{Event: audit.ToolDenied, Tenant: "acme"}}, audit.MaxSegment)
		if err != nil {
			t.Fatal(err)
		}
		s := audit.Segment{Source: audit.SourceRefusal, Writer: "d1", K: 1, N: 1, Prev: prev}
		data, hash, err := bodies[0].Seal(s)
		if err != nil {
			t.Fatal(err)
		}
		prev = hash
		all = append(all, stored{"tb.denied.d1.acme", uint64(i + 1), data})
	}
	return all
}

// A chain may have lost its oldest segments, which expire, and none in between. A segment holds what it was sealed
// with.
func TestRecordChains(t *testing.T) {
	changed := sealed(t, 2)
	changed[1].data[len(changed[1].data)-3] ^= 1
	whole := sealed(t, 4)
	for name, c := range map[string]struct {
		first uint64
		msgs  []stored
		wrong int
	}{
		"whole":              {1, whole, 0},
		"foreign":            {1, []stored{{"tb.denied.d1.acme", 1, []byte("{}")}}, 0},
		"expired":            {3, whole[2:], 0},
		"without its first":  {1, whole[1:], 1},
		"without its second": {1, append(whole[:1:1], whole[2:]...), 1},
		"changed":            {1, changed, 1},
	} {
		s := &stream{name: subjects.DeniedStream}
		s.begun.FirstSeq = c.first
		r := recordOf(s)
		for _, m := range c.msgs {
			r.segment(m)
		}
		if len(r.wrong) != c.wrong {
			t.Errorf("%s: %v", name, r.wrong)
		}
	}
}

// A set of sequences has those that were added, by their low halves, also beyond 32 bits.
func TestPositions(t *testing.T) {
	const first = 1<<32 - 100
	var p positions
	for seq := uint64(first); seq < first+200; seq += 3 {
		p.add(seq)
	}
	for seq := uint64(first - 10); seq < first+300; seq++ {
		if want := seq >= first && seq < first+200 && (seq-first)%3 == 0; p.has(uint32(seq)) != want {
			t.Errorf("%d: %t", seq, !want)
		}
	}
}
