package importer

import (
	"strings"
	"testing"

	"github.com/seed-018f16cc/toolbus/internal/call"
	"github.com/seed-018f16cc/toolbus/internal/tool/mcp/client"
)

// TestProposed checks that the class follows an explicit destructive hint, and that the default of that hint, true, has
// no effect.
func TestProposed(t *testing.T) {
	for annotations, want := range map[string]call.EffectClass{
		``:                      call.SideEffectful,
		`{}`:                    call.SideEffectful,
		`{"readOnlyHint":true}`: call.Idempotent,
		`{"readOnlyHint":true,"destructiveHint":null}`:                       call.Idempotent,
		`{"readOnlyHint":true,"destructiveHint":false}`:                      call.Idempotent,
		`{"readOnlyHint":true,"destructiveHint":true}`:                       call.SideEffectful,
		`{"readOnlyHint":true,"destructiveHint":true,"idempotentHint":true}`: call.SideEffectful,
		`{"idempotentHint":true}`:                                            call.Idempotent,
		`{"idempotentHint":true,"destructiveHint":true}`:                     call.Idempotent,
		`{"readOnlyHint":"yes"}`:                                             call.SideEffectful,
	} {
		if got, why := proposed(client.Tool{Annotations: []byte(annotations)}); got != want || why == "" {
			t.Errorf("%s is %s, %q; want %s", annotations, got, why, want)
		}
		readOnly := strings.HasPrefix(annotations, `{"readOnlyHint":true`) && want == call.Idempotent
		if got := reads(client.Tool{Annotations: []byte(annotations)}); got != readOnly {
			t.Errorf("%s: read only: %t", annotations, got)
		}
	}
}
