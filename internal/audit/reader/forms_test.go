package reader_test

import (
	"bytes"
	"fmt"
	"os"
	"slices"
	"testing"

	"github.com/seed-018f16cc/toolbus/internal/audit"
	"github.com/seed-018f16cc/toolbus/internal/audit/reader"
	"github.com/seed-018f16cc/toolbus/internal/encoding/format"
	"github.com/seed-018f16cc/toolbus/subjects"
)

// seal stores lines as a segment.
func (f *fixture) seal(lines ...[]byte) {
	f.T.Helper()
	head := fmt.Appendf(nil, `{"form":2,"source":"gate","k":1,"n":1,"count":%d,"root":""}`, len(lines))
	data := bytes.Join(append([][]byte{head}, append(lines, nil)...), []byte("\n"))
	if _, err := f.JS.Publish(f.T.Context(), subjects.JournalSubject("p", "t"), data); err != nil {
		f.T.Fatal(err)
	}
}

// ids returns the ids of the matching records.
func (f *fixture) ids(filter reader.Filter) (all []string, err error) {
	for r, err := range reader.Replay(f.T.Context(), reader.Streams(f.JS), filter) {
		if err != nil {
			return all, err
		}
		all = append(all, r.EventID)
	}
	return all, nil
}

// A filter finds each event.
func TestReplayOfForm4(t *testing.T) {
	f := setup(t)
	stored, err := os.ReadFile("../testdata/form4.ndjson")
	if err != nil {
		t.Fatal(err)
	}
	lines := bytes.Split(bytes.TrimSpace(stored), []byte("\n"))
	f.seal(lines...)
	for _, e := range audit.Events() {
		want := []string{fmt.Sprint("x.", slices.Index(audit.Events(), e))}
		if got, err := f.ids(reader.Filter{Event: e}); err != nil || !slices.Equal(got, want) {
			t.Errorf("%s: %v, %v, not %v", e, got, err, want)
		}
	}
	if got, err := f.ids(reader.Filter{}); err != nil || len(got) != len(lines) {
		t.Errorf("%d records, %v", len(got), err)
	}
}

// A record in form 5, or with an event that form 4 does not have, ends the replay with an error.
func TestReplayOfNewerRecords(t *testing.T) {
	for _, line := range []string{`{"form":5,"event":"tool_requested"}`, `{"form":4,"event":"tool_dreamed"}`} {
		f := setup(t)
		f.seal([]byte(`{"form":4,"event":"tool_requested"}`), []byte(line))
		if got, err := f.ids(reader.Filter{}); !format.Newer(err) || len(got) != 0 {
			t.Errorf("%s: %v, %v", line, got, err)
		}
	}
}
