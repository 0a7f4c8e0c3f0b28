package audit

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/mod/sumdb/tlog"

	"github.com/seed-018f16cc/toolbus/internal/encoding/format"
)

// some returns n records of several tenants.
func some(n, tenants int) []Record {
	records := make([]Record, n)
	for i := range records {
		records[i] = typicalRecord()
		records[i].Tenant, records[i].LogSeq = fmt.Sprint("t", i%tenants), uint64(i+1)
	}
	return records
}

func seal(t *testing.T, l *SegmentBody, s Segment) ([]byte, string) {
	t.Helper()
	data, hash, err := l.Seal(s)
	if err != nil {
		t.Fatal(err)
	}
	return data, hash
}

// Records that were split and sealed are read back unchanged: each once, with its tenant, in order. No message exceeds
// the given size.
func TestSegments(t *testing.T) {
	for _, c := range []struct{ records, tenants, most int }{
		{1, 1, 1 << 20}, {2, 1, 1 << 20}, {7, 3, 1 << 20}, {500, 1, 20_000}, {1000, 10, 20_000}, {3, 1, 1},
	} {
		t.Run(fmt.Sprint(c), func(t *testing.T) {
			records := some(c.records, c.tenants)
			lines, err := SplitSegments(records, c.most)
			if err != nil {
				t.Fatal(err)
			}
			got := map[string][]uint64{}
			prev := ""
			for i, l := range lines {
				want := Segment{Source: SourceLog, K: i + 1, N: len(lines), Prev: prev,
					Through: Position{Seq: 1000, Time: time.Unix(5, 7).UTC()}}
				data, hash := seal(t, l, want)
				s, ok, err := Open(data)
				if !ok || err != nil || s.Hash != hash || s.Whole() != nil {
					t.Fatalf("%t, %v, %v", ok, err, s.Whole())
				}
				if len(data) > c.most && l.Count > 1 {
					t.Errorf("%d bytes", len(data))
				}
				want.Form, want.Count, want.Root = format.Segment.Current(), l.Count, s.Root
				if diff := cmp.Diff(want, s.Segment); diff != "" {
					t.Error(diff)
				}
				for line := range s.Lines() {
					r, ok, err := Decode(line)
					if !ok || err != nil || r.Tenant != l.Tenant || r.Salt == "" {
						t.Fatalf("%+v, %v", r, err)
					}
					got[r.Tenant] = append(got[r.Tenant], r.LogSeq)
				}
				prev = hash
			}
			n := 0
			for tenant, seqs := range got {
				if n += len(seqs); !slices.IsSorted(seqs) {
					t.Errorf("%s: %v", tenant, seqs)
				}
			}
			if n != c.records || len(got) != min(c.tenants, c.records) {
				t.Errorf("%d records of %d tenants", n, len(got))
			}
		})
	}
}

// SplitSegments does not change its argument, because a projector appends to the same slice meanwhile.
func TestCutChangesNoRecord(t *testing.T) {
	records := some(3, 2)
	before := slices.Clone(records)
	if _, err := SplitSegments(records, MaxSegment); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(before, records); diff != "" {
		t.Error(diff)
	}
}

// root returns the same hash as the library, which implements RFC 6962.
func TestRoot(t *testing.T) {
	var stored []tlog.Hash
	var leaves []tlog.Hash
	reader := tlog.HashReaderFunc(func(at []int64) (hashes []tlog.Hash, err error) {
		for _, i := range at {
			hashes = append(hashes, stored[i])
		}
		return hashes, nil
	})
	for n := range int64(70) {
		leaf := tlog.RecordHash(fmt.Append(nil, n))
		hashes, err := tlog.StoredHashesForRecordHash(n, leaf, reader)
		if err != nil {
			t.Fatal(err)
		}
		stored, leaves = append(stored, hashes...), append(leaves, leaf)
		want, err := tlog.TreeHash(n+1, reader)
		if got := root(leaves); err != nil || got != want {
			t.Fatalf("%d leaves: %v, want %v, %v", n+1, got, want, err)
		}
	}
}

// Whole detects a changed byte, and lines that were removed, inserted or swapped.
func TestSegmentTampered(t *testing.T) {
	lines, err := SplitSegments(some(5, 1), MaxSegment)
	if err != nil {
		t.Fatal(err)
	}
	data, hash := seal(t, lines[0], Segment{Source: SourceLog, K: 1, N: 1})
	found := func(name string, data []byte) {
		t.Helper()
		if s, ok, err := Open(data); ok && err == nil && s.Hash == hash && s.Whole() == nil {
			t.Errorf("%s is not found", name)
		}
	}
	for i := range data {
		changed := bytes.Clone(data)
		changed[i] ^= 1
		found(fmt.Sprintf("byte %d", i), changed)
	}
	text := strings.SplitAfter(string(data), "\n")
	found("a line less", []byte(strings.Join(slices.Delete(slices.Clone(text), 2, 3), "")))
	found("a line more", []byte(strings.Join(slices.Insert(slices.Clone(text), 2, text[1]), "")))
	text[1], text[2] = text[2], text[1]
	found("another order", []byte(strings.Join(text, "")))
}

// Equal records have different hashes.
func TestSaltsDiffer(t *testing.T) {
	r := typicalRecord()
	lines, err := SplitSegments([]Record{r, r}, MaxSegment)
	if err != nil || lines[0].leaves[0] == lines[0].leaves[1] {
		t.Errorf("%v, %v", lines[0].leaves, err)
	}
}

func FuzzOpen(f *testing.F) {
	lines, err := SplitSegments(some(3, 1), MaxSegment)
	if err != nil {
		f.Fatal(err)
	}
	data, _, err := lines[0].Seal(Segment{Source: SourceProcess, Writer: "w", K: 1, N: 1})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(data)
	f.Add([]byte("{}\n"))
	f.Add([]byte(`{"form":9}` + "\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		s, ok, err := Open(data)
		if !ok || err != nil {
			return
		}
		n := 0
		for line := range s.Lines() {
			_, _, _ = Decode(line)
			n++
		}
		if s.Whole() == nil && n != s.Count {
			t.Errorf("%d lines, and it says %d", n, s.Count)
		}
	})
}

func BenchmarkSegment(b *testing.B) {
	records := some(1000, 1)
	b.ReportAllocs()
	for b.Loop() {
		lines, err := SplitSegments(records, 1<<20)
		if err != nil {
			b.Fatal(err)
		}
		if _, _, err := lines[0].Seal(Segment{Source: SourceLog, K: 1, N: 1}); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*len(records)), "ns/record")
}

// The second record of a request is encoded from the line of the first one, and is the same as if it was encoded by
// itself. Another record of the same place is not taken for it.
func TestAllowedLine(t *testing.T) {
	request := typicalRecord()
	request.Event, request.Name, request.LogSeq, request.EventID = ToolRequested, "ToolInvoked", 7, ""
	allowed := request
	allowed.Event, allowed.Name = ToolAllowed, "PolicyApplied"
	other, elsewhere := allowed, allowed
	other.CallID, elsewhere.LogSeq = "another", 8
	for _, second := range []Record{allowed, other, elsewhere} {
		bodies, err := SplitSegments([]Record{request, second}, MaxSegment)
		if err != nil || len(bodies) != 1 {
			t.Fatalf("%d bodies, %v", len(bodies), err)
		}
		lines := strings.Split(strings.TrimSuffix(string(bodies[0].text), "\n"), "\n")
		for i, want := range []Record{request, second} {
			got, ok, err := Decode([]byte(lines[i]))
			if !ok || err != nil || got.Salt == "" {
				t.Fatalf("%t, %v: %s", ok, err, lines[i])
			}
			want.Salt = got.Salt
			if line, err := want.Append(nil); err != nil || string(line) != lines[i] {
				t.Errorf("%s\nwant %s, %v", lines[i], line, err)
			}
		}
	}
	line, err := allowed.Append(nil)
	if err != nil {
		t.Fatal(err)
	}
	if before := string(line); appendAllowed(&line, "salt") || string(line) != before {
		t.Errorf("made of another line: %s", line)
	}
}
