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

// joined3 and replayed3 are records in form 3 of a caller that joined a call, and of one that got its stored outcome.
const (
	joined3 = `{"form":3,"event":"tool_allowed","timestamp_utc":"2026-11-25T12:00:00Z","tenant":"t",` +
		`"audit_event_id":"j"}`
	replayed3 = `{"form":3,"event":"tool_allowed","timestamp_utc":"2026-11-25T12:00:01Z","tenant":"t",` +
		`"status":"success","audit_event_id":"r"}`
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

// Records of both forms are read in one stream, and a filter finds each event under the name that its form has for it.
func TestReplayOfBothForms(t *testing.T) {
	f := setup(t)
	stored, err := os.ReadFile("../testdata/form4.ndjson")
	if err != nil {
		t.Fatal(err)
	}
	lines := bytes.Split(bytes.TrimSpace(stored), []byte("\n"))
	f.seal(append([][]byte{[]byte(joined3), []byte(replayed3)}, lines...)...)
	for _, e := range audit.Events() {
		want := []string{fmt.Sprint("x.", slices.Index(audit.Events(), e))}
		switch e {
		case audit.ToolAllowed:
			want = append([]string{"j", "r"}, want...)
		case audit.ToolJoined:
			want = append([]string{"j"}, want...)
		case audit.ToolReplayed:
			want = append([]string{"r"}, want...)
		}
		if got, err := f.ids(reader.Filter{Event: e}); err != nil || !slices.Equal(got, want) {
			t.Errorf("%s: %v, %v, not %v", e, got, err, want)
		}
	}
	if got, err := f.ids(reader.Filter{}); err != nil || len(got) != len(lines)+2 {
		t.Errorf("%d records, %v", len(got), err)
	}
}

// A record in form 5, or with an event that form 4 does not have, ends the replay with an error.
func TestReplayOfNewerRecords(t *testing.T) {
	for _, line := range []string{`{"form":5,"event":"tool_requested"}`, `{"form":4,"event":"tool_dreamed"}`} {
		f := setup(t)
		f.seal([]byte(joined3), []byte(line))
		if got, err := f.ids(reader.Filter{}); !format.Newer(err) || len(got) != 0 {
			t.Errorf("%s: %v, %v", line, got, err)
		}
	}
}
