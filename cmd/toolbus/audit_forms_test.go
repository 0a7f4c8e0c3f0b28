package main

import (
	"context"
	"fmt"
	"io"
	"iter"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/seed-018f16cc/toolbus/internal/audit/reader"
	"github.com/seed-018f16cc/toolbus/subjects"
)

// storedSegment is a source whose stream AUDIT holds one segment, and whose stream DENIED is empty.
type storedSegment string

func (s storedSegment) Messages(_ context.Context, stream string, _ reader.StartAt, _ time.Duration) iter.Seq2[
	reader.Message, error] {
	return func(yield func(reader.Message, error) bool) {
		if stream == subjects.AuditStream {
			yield(reader.Message{Seq: 1, Data: []byte(s)}, nil)
		}
	}
}

func (s storedSegment) State(context.Context, string) (reader.State, error) {
	return reader.State{}, nil
}
func (s storedSegment) WaitRecorded(context.Context) error     { return nil }
func (s storedSegment) Now(context.Context) (time.Time, error) { return time.Now(), nil }

// Both forms of the audit record are printed, and nobody takes tool_allowed of the one for that of the other.
func TestAuditForms(t *testing.T) {
	form4, err := os.ReadFile("../../internal/audit/testdata/form4.ndjson")
	if err != nil {
		t.Fatal(err)
	}
	stored := `{"form":3,"event":"tool_allowed","timestamp_utc":"2026-11-26T11:59:58Z","tenant":"t",` +
		`"tool_name":"web.fetch","attempt":1,"call_id":"aaaaaaaa-0000-4000-8000-000000000000"}` + "\n" +
		`{"form":3,"event":"tool_allowed","timestamp_utc":"2026-11-26T11:59:59Z","tenant":"t",` +
		`"tool_name":"web.fetch","attempt":1,"call_id":"bbbbbbbb-0000-4000-8000-000000000000",` +
		`"status":"success","effect":"applied","dry_run":true}` + "\n" + string(form4)
	source := storedSegment(fmt.Sprintf(`{"form":2,"source":"gate","k":1,"n":1,"count":%d}`+"\n%s",
		strings.Count(stored, "\n"), stored))
	table, err := os.ReadFile("testdata/audit/forms.txt")
	if err != nil {
		t.Error(err)
	}
	for name, c := range map[string]struct {
		json bool
		want string
	}{"as a table": {false, string(table)}, "as JSON": {true, stored}} {
		var out strings.Builder
		g := newGlobal(&environment{stdout: &out, stderr: io.Discard})
		g.json = c.json
		if _, err := printRecords(g, &out, reader.Lines(t.Context(), source, reader.Filter{}), ""); err != nil {
			t.Fatal(err)
		}
		if *update && !c.json {
			if err := os.WriteFile("testdata/audit/forms.txt", []byte(out.String()), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		if out.String() != c.want {
			t.Errorf("%s:\n%s\nnot\n%s", name, out.String(), c.want)
		}
	}
}
