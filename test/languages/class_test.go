package languages

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/seed-018f16cc/toolbus"
	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/tool/scaffold"
)

// TestClasses writes a tool of each class that changes something, in each language. A call has its effect once,
// although its executor dies, and a lookup finds it. Without an effect, only an idempotent tool runs again.
func TestClasses(t *testing.T) {
	t.Parallel()
	for _, l := range scaffold.Languages() {
		for _, c := range []scaffold.Class{scaffold.Idempotent, scaffold.SideEffectful} {
			t.Run(string(l)+"/"+string(c), func(t *testing.T) {
				t.Parallel()
				testClass(t, scaffold.Spec{ID: id, Language: l, Class: c})
			})
		}
	}
}

func testClass(t *testing.T, s scaffold.Spec) {
	t.Helper()
	folder, bus := served(t, s)
	call := toolbus.Call{Tool: id, Input: []byte(`{"name":"Ada"}`)}
	bus.CrashAfterRun(id)
	resp, err := bus.Call(t.Context(), call)
	if err != nil || !strings.Contains(string(resp.Output), "Hello Ada") {
		t.Errorf("after a run: %v, %v", resp, err)
	}
	if files, err := os.ReadDir(filepath.Join(folder, "../../effects", id)); err != nil || len(files) != 1 {
		t.Errorf("the effects are %v, %v", files, err)
	}
	fails(t, bus, `{"name":"nobody"}`, "I-REQ-UNKNOWN_NAME")
	bus.CrashBeforeRun(id)
	_, err = bus.Call(t.Context(), call)
	want := envelope.Code("")
	if s.Class == scaffold.SideEffectful {
		want = envelope.CodeToolUnknownState
	}
	if got := toolbus.CodeOf(err); got != want {
		t.Errorf("before a run: %v, want %q", err, want)
	}
}
