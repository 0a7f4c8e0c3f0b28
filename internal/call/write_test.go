package call_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/seed-018f16cc/toolbus/internal/call"
)

// The list of writes is a JSON list of limited size, whatever a tool reports, and counts what it leaves out.
func TestNoteWrites(t *testing.T) {
	t.Parallel()
	many := make([]jsontext.Value, 1000)
	for i := range many {
		many[i] = jsontext.Value(fmt.Sprintf(`{"kind":"k","target":"file:/%d/%s"}`, i, strings.Repeat("x|;%", i%300)))
	}
	writes := call.Writes(many)
	for n := range len(writes) + 1 {
		list, left := call.NoteWrites(writes[:n])
		var read []call.ReportedWrite
		if n > 0 {
			if err := json.Unmarshal([]byte(list), &read); err != nil {
				t.Fatalf("%d writes: %v in %s", n, err, list)
			}
		}
		if len(read)+left != n || len(list) > 4<<10 || n > 0 && len(read) == 0 {
			t.Fatalf("of %d writes, %d are listed and %d left out: %s", n, len(read), left, list)
		}
	}
}

// An executor may write any text as the list of writes of a decision. The record takes only a list.
func TestWritten(t *testing.T) {
	t.Parallel()
	for text, ok := range map[string]bool{
		"": false, "x": false, `{"kind":"x"}`: false, `[1]`: false, `[{"kind":"a","kind":"b"}]`: false, "[{}": false,
		`[{"kind":1}]`: false, `[{"bytes":1e30}]`: false, "[]": true, `[{"kind":"k","later":[1]}]`: true,
	} {
		d := call.Decision{Writes: text, WritesLeft: -1}
		if list, left := d.Written(); (list != nil) != ok || left != 0 {
			t.Errorf("%s: %s, %d", text, list, left)
		}
	}
}

// Each class has the canonical name of its effect, and an unknown one its own.
func TestCanonicalEffect(t *testing.T) {
	t.Parallel()
	for want, facts := range map[string]call.Pinned{
		call.EffectPure: {Class: call.Pure}, call.EffectIdempotentWrite: {Class: call.Idempotent},
		call.EffectNonIdempotentWrite: {Class: call.SideEffectful},
		call.EffectExternal:           {Class: call.SideEffectful, External: true}, "later": {Class: "later"},
	} {
		if got := facts.CanonicalEffect(); got != want {
			t.Errorf("%+v is %s, want %s", facts, got, want)
		}
	}
}
