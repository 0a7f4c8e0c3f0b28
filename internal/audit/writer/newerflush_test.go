package writer

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"testing"

	"github.com/seed-018f16cc/toolbus/internal/audit"
	"github.com/seed-018f16cc/toolbus/internal/encoding/format"
	"github.com/seed-018f16cc/toolbus/internal/natsserver/bustest"
)

// beginAsNewer stores the first segments of the records of two tenants as a newer build would, with old replaced by
// with in the lines of the records.
func beginAsNewer(b *bustest.Bus, segments int, old, with string) {
	b.T.Helper()
	p := observed(b)
	f := p.next()
	lines, err := audit.SplitSegments(f.records, audit.MaxSegment)
	if err != nil {
		b.T.Fatal(err)
	}
	msgs, err := p.chain.seal(lines, f.segment)
	if err != nil {
		b.T.Fatal(err)
	}
	for _, m := range msgs {
		head, body, _ := bytes.Cut(m.Data, []byte("\n"))
		body = bytes.ReplaceAll(body, []byte(old), []byte(with))
		m.Data = bytes.Join([][]byte{head, body}, []byte("\n"))
	}
	if _, err := p.chain.append(b.T.Context(), msgs[:segments]); err != nil {
		b.T.Fatal(err)
	}
}

// A projector goes on behind segments with records in form 4, and completes a flush that a newer build has begun. It
// adds no record that is there, and a record of another event does not replace a missing one.
func TestProjectorBehindForm4(t *testing.T) {
	const requested = `"form":4,"event":"tool_requested"`
	for name, c := range map[string]struct {
		segments int
		with     string
		want     []string
	}{
		"complete": {2, `"form":4,"event":"tool_requested"`, []string{"1 tool_requested", "2 tool_requested"}},
		"begun":    {1, `"form":4,"event":"tool_requested"`, []string{"1 tool_requested", "2 tool_requested"}},
		"another event": {1, `"form":4,"event":"tool_allowed"`,
			[]string{"1 tool_allowed", "1 tool_requested", "2 tool_requested"}},
	} {
		t.Run(name, func(t *testing.T) {
			b := bustest.Start(t)
			admit(b, 0, "t0")
			admit(b, 1, "t1")
			beginAsNewer(b, c.segments, requested, c.with)
			admit(b, 2, "t0")
			next := observed(b)
			bustest.Run(t, func(ctx context.Context) {
				if err := next.Run(ctx); err != nil {
					t.Error(err)
				}
			})
			if err := WaitRecorded(t.Context(), b.JS); err != nil {
				t.Fatal(err)
			}
			have := map[string]int{}
			for _, r := range recorded(t, b.JS) {
				have[fmt.Sprint(r.LogSeq, " ", r.Event)]++
			}
			if got, want := slices.Sorted(maps.Keys(have)), append(c.want, "3 tool_requested"); !slices.Equal(got, want) {
				t.Errorf("on record are %v, not %v", got, want)
			}
			for record, n := range have {
				if n != 1 {
					t.Errorf("%s is recorded %d times", record, n)
				}
			}
		})
	}
}

// A projector stands by if it cannot read the records of an unfinished flush: it would record their events again.
func TestProjectorBehindForm5(t *testing.T) {
	for _, with := range []string{`"form":5,"event":"tool_requested"`, `"form":4,"event":"tool_dreamed"`} {
		b := bustest.Start(t)
		admit(b, 0, "t0")
		admit(b, 1, "t1")
		beginAsNewer(b, 1, `"form":4,"event":"tool_requested"`, with)
		_, _, err := NewProjector(t.Context(), b.JS, 0, slog.New(slog.DiscardHandler), func() uint64 { return 0 })
		if !format.Newer(err) {
			t.Errorf("%s: a projector goes on: %v", with, err)
		}
	}
}
