package audit_test

import (
	"bytes"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"

	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/audit"
	"github.com/seed-018f16cc/toolbus/internal/call"
	"github.com/seed-018f16cc/toolbus/internal/encoding/format"
)

// form4 returns the lines of testdata/form4.ndjson: a record of each event in form 4, with a member that this build
// does not know.
func form4(t *testing.T) []string {
	t.Helper()
	text, err := os.ReadFile("testdata/form4.ndjson")
	if err != nil {
		t.Fatal(err)
	}
	return strings.Split(strings.TrimSpace(string(text)), "\n")
}

// A record of each event in form 4 is read and, printed as JSON, has all its members, also unknown ones.
func TestForm4(t *testing.T) {
	var events []audit.Event
	for _, line := range form4(t) {
		r, ok, err := audit.Parse(line)
		if !ok || err != nil {
			t.Fatalf("%s: %t, %v", line, ok, err)
		}
		if got, err := json.Marshal(r); err != nil || string(got) != line {
			t.Errorf("printed as %s, %v\nand stored as %s", got, err, line)
		}
		if r.Meaning() != r.Event {
			t.Errorf("%s means %s", r.Event, r.Meaning())
		}
		events = append(events, r.Event)
	}
	if !slices.Equal(events, audit.Events()) {
		t.Errorf("testdata/form4.ndjson has the events %v, not %v", events, audit.Events())
	}
}

// An effect class of a record in form 4 has the names of manifests.
func TestForm4EffectNames(t *testing.T) {
	for _, class := range []string{"Pure", "IdempotentWrite", "NonIdempotentWrite", "ExternalSideEffects", "pure"} {
		line := `{"form":4,"event":"tool_requested","determinism":"` + class + `"}`
		if r, ok, err := audit.Parse(line); !ok || err != nil || string(r.Determinism) != class {
			t.Errorf("%s: %q, %t, %v", line, r.Determinism, ok, err)
		}
	}
}

// A value that form 4 does not have, and a later form, are of a newer build. Form 3 is open, as it always was.
func TestNewerRecords(t *testing.T) {
	for line, newer := range map[string]bool{
		`{"form":4,"event":"tool_dreamed"}`:                                 true,
		`{"form":4, "event":"tool_dreamed"}`:                                true, // not as Append writes it
		`{"form":4,"event":"tool_requested","determinism":"SometimesPure"}`: true,
		`{"form":5,"event":"tool_requested"}`:                               true,
		`{"form":5,"event":"tool_requested","attempt":"first"}`:             true,
		`{"form":3,"event":"tool_dreamed"}`:                                 false,
		`{"form":3,"event":"tool_requested","determinism":"SometimesPure"}`: false,
	} {
		if _, ok, err := audit.Parse(line); format.Newer(err) != newer || ok == newer {
			t.Errorf("%s: %t, %v", line, ok, err)
		}
	}
	_, _, err := audit.Parse(`{"form":4,"event":"tool_dreamed"}`)
	if err == nil || !strings.Contains(err.Error(), `audit record of form 4 says event "tool_dreamed"`) {
		t.Errorf("the reader is told %v", err)
	}
}

// tool_allowed of form 3 is never that of form 4.
func TestMeaning(t *testing.T) {
	open, ended := state(nil), state(&call.Decision{Status: envelope.Success})
	for name, c := range map[string]struct {
		record audit.Record
		form   int
		want   audit.Event
	}{
		"joined":           {audit.Shared(open, 1, call.Owner{}, at), 4, audit.ToolJoined},
		"replayed":         {audit.Shared(ended, 1, call.Owner{}, at), 4, audit.ToolReplayed},
		"joined, form 3":   {audit.Record{Event: audit.ToolAllowed}, 3, audit.ToolJoined},
		"replayed, form 3": {audit.Record{Event: audit.ToolAllowed, Status: envelope.Success}, 3, audit.ToolReplayed},
		"allowed":          {audit.Record{Event: audit.ToolAllowed}, 4, audit.ToolAllowed},
		"another":          {audit.Record{Event: audit.ToolExecuted, Status: envelope.Success}, 3, audit.ToolExecuted},
	} {
		c.record.Form = c.form
		if got := c.record.Meaning(); got != c.want {
			t.Errorf("%s: %s, not %s", name, got, c.want)
		}
	}
}

// This build writes form 4, with the canonical names of effects, and a record of form 4 that it has read as the same
// bytes.
func TestWritesForm4(t *testing.T) {
	for _, line := range form4(t) {
		r, ok, err := audit.Parse(line)
		if !ok || err != nil {
			t.Fatalf("%s: %t, %v", line, ok, err)
		}
		if got, err := r.Append(nil); err != nil || string(got) != line {
			t.Errorf("written as %s, %v\nand read as %s", got, err, line)
		}
	}
	for name, facts := range map[string]call.Pinned{
		"Pure": {Class: call.Pure}, "IdempotentWrite": {Class: call.Idempotent},
		"NonIdempotentWrite":  {Class: call.SideEffectful},
		"ExternalSideEffects": {Class: call.SideEffectful, External: true},
	} {
		s := state(nil)
		s.Class, s.External = facts.Class, facts.External
		line, err := new(audit.Shared(s, 1, call.Owner{}, at)).Append(nil)
		if err != nil || !bytes.HasPrefix(line, []byte(`{"form":4,"event":"tool_joined",`)) ||
			!bytes.Contains(line, []byte(`,"determinism":"`+name+`",`)) {
			t.Errorf("a joined caller of a tool with the effect %s is recorded as %s, %v", name, line, err)
		}
	}
}
