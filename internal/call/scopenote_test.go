package call_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/seed-018f16cc/toolbus/internal/audit"
	"github.com/seed-018f16cc/toolbus/internal/call"
)

// A note gives back the keys of a scope with the hashes that the record of a denial has.
func TestScopeNote(t *testing.T) {
	for _, scope := range []map[string]string{
		nil, {"case_id": "77"}, {"case_id": "77", "customer": ""}, {"a=b&c d%\n;|é": "x"},
	} {
		note := call.NoteScope(scope)
		if diff := cmp.Diff(audit.HashScope(scope), note.Hashes()); diff != "" {
			t.Errorf("%q: %s", note, diff)
		}
	}
	large := map[string]string{}
	for i := range 96 {
		large[fmt.Sprint(i, strings.Repeat("é", 120))] = "x"
	}
	if note := call.NoteScope(large); len(note) > 4<<10 || len(note.Hashes()) == 0 {
		t.Errorf("%d bytes, %d keys", len(note), len(note.Hashes()))
	}
	for _, odd := range []call.ScopeNote{"%", "a", "a=*", "&&", ";"} {
		odd.Hashes() // does not panic
	}
}
