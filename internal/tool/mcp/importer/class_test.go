package importer

import (
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
		`{"readOnlyHint":true}`: call.Pure,
		`{"readOnlyHint":true,"destructiveHint":null}`:                       call.Pure,
		`{"readOnlyHint":true,"destructiveHint":false}`:                      call.Pure,
		`{"readOnlyHint":true,"destructiveHint":true}`:                       call.SideEffectful,
		`{"readOnlyHint":true,"destructiveHint":true,"idempotentHint":true}`: call.SideEffectful,
		`{"idempotentHint":true}`:                                            call.Idempotent,
		`{"idempotentHint":true,"destructiveHint":true}`:                     call.Idempotent,
		`{"readOnlyHint":"yes"}`:                                             call.SideEffectful,
	} {
		if got, why := proposed(client.Tool{Annotations: []byte(annotations)}); got != want || why == "" {
			t.Errorf("%s is %s, %q; want %s", annotations, got, why, want)
		}
	}
}
