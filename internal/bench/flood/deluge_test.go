package flood

import (
	"testing"

	"github.com/seed-018f16cc/toolbus/envelope"
)

// Requests that must be denied, or run, must satisfy their schema: otherwise the flood is of another kind.
func TestRequest(t *testing.T) {
	f := Flood{Tool: "echo", Fn: "run", Input: []byte(`{"n":1}`)}
	for _, version := range []string{"*", "9.x"} {
		r, bad := envelope.DecodeRequest(envelope.ContentJSON, f.request(version, "key-0123456789abcdef"))
		if bad != nil || r.ToolVersion != version {
			t.Errorf("%s: %+v, %v", version, r, bad)
		}
	}
}
