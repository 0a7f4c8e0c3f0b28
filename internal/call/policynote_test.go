package call_test

import (
	"crypto/sha256"
	"encoding/hex"
	"testing"

	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/call"
)

// The short form has no byte that the header of an event would escape, and gives back the digests.
func TestPolicyNote(t *testing.T) {
	t.Parallel()
	digest := func(s string) string { sum := sha256.Sum256([]byte(s)); return hex.EncodeToString(sum[:]) }
	for n, v := range map[int]envelope.PolicyVersions{
		0:   {},
		131: {Roles: digest("r"), Lanes: digest("l"), ToolRegistry: digest("t")},
		4:   {Roles: "a", Lanes: "b"}, 130: {Roles: digest("r"), Lanes: digest("x")[:63] + "g"},
	} {
		note := call.NotePolicy(v)
		if note.Versions() != v || n == 131 && len(note) != n {
			t.Errorf("%+v becomes %q, which is %+v", v, note, note.Versions())
		}
	}
	for _, odd := range []call.PolicyNote{".", "..", "....", "x", "\xff.\xff"} {
		odd.Versions() // does not panic
	}
}
