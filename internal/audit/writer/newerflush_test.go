package writer

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/seed-018f16cc/toolbus/internal/audit"
	"github.com/seed-018f16cc/toolbus/internal/encoding/format"
	"github.com/seed-018f16cc/toolbus/internal/natsserver/bustest"
)

// beginAs stores the first segments of the records of two tenants as another build would, with old replaced by with in
// the lines of the records. An older build writes one record of each event.
func beginAs(b *bustest.Bus, segments int, older bool, old, with string) {
	b.T.Helper()
	p := observed(b)
	f := p.next()
	if older {
		f.records = slices.DeleteFunc(f.records, func(r audit.Record) bool { return !r.FirstOfEvent() })
	}
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

// places returns the events and their records in want, and those of event 3, sorted.
func places(want string) (all []string) {
	words := strings.Fields(want + " 3 tool_allowed 3 tool_requested")
	for pair := range slices.Chunk(words, 2) {
		all = append(all, strings.Join(pair, " "))
	}
	slices.Sort(all)
	return all
}

// A projector goes on behind segments with records in form 3, of which each event has one, and in form 4. It completes
// a flush that such a build has begun: it adds no record that is there, and a record of another event does not replace
// a missing one.
func TestProjectorBehindOthers(t *testing.T) {
	const first = `"form":4,"event":"tool_requested"`
	const all = "1 tool_allowed 1 tool_requested 2 tool_allowed 2 tool_requested"
	for name, c := range map[string]struct {
		segments int
		older    bool // without the records of tool_allowed
		with     string
		want     string
	}{
		"form 3":        {2, true, `"form":3,"event":"tool_requested"`, "1 tool_requested 2 tool_requested"},
		"form 3, begun": {1, true, `"form":3,"event":"tool_requested"`, all},
		"form 4":        {2, false, first, all},
		"form 4, begun": {1, false, first, all},
		"another event": {1, true, `"form":4,"event":"committed"`, all + " 1 committed"},
	} {
		t.Run(name, func(t *testing.T) {
			b := bustest.Start(t)
			admit(b, 0, "t0")
			admit(b, 1, "t1")
			beginAs(b, c.segments, c.older, first, c.with)
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
			if got, want := slices.Sorted(maps.Keys(have)), places(c.want); !slices.Equal(got, want) {
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
		beginAs(b, 1, false, `"form":4,"event":"tool_requested"`, with)
		_, _, err := NewProjector(t.Context(), b.JS, 0, slog.New(slog.DiscardHandler), func() uint64 { return 0 })
		if !format.Newer(err) {
			t.Errorf("%s: a projector goes on: %v", with, err)
		}
	}
}

// TestFlushKeepsRecordsOfAnEvent holds that a flush does not end between two records of one event: what follows the
// position of its end would not be recorded.
func TestFlushKeepsRecordsOfAnEvent(t *testing.T) {
	p := &Projector{more: make(chan struct{}, 1), enough: make(chan struct{}, 1)}
	p.add([]audit.Record{{LogSeq: 1}}, 0)
	for seq := uint64(2); len(p.pending) <= maxFlush; seq++ {
		p.add([]audit.Record{{LogSeq: seq}, {LogSeq: seq, Event: audit.ToolAllowed}}, 0)
	}
	f := p.next()
	if n := len(f.records); n != maxFlush-1 || p.pending[n].LogSeq == f.segment.Through.Seq {
		t.Errorf("a flush of %d records ends at %d, and the next record is of %d", n, f.segment.Through.Seq,
			p.pending[n].LogSeq)
	}
}
