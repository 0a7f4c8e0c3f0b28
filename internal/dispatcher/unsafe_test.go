package dispatcher_test

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"

	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/call"
	"github.com/seed-018f16cc/toolbus/internal/encoding/jsonschema"
)

// takesPath gives the tool a member that is a path, and a folder for absolute ones.
func takesPath(w *world) {
	w.t.Helper()
	schema, err := jsonschema.Compile("in", []byte(`{"type":"object","required":["n"],"additionalProperties":false,
		"properties":{"n":{"type":"integer"},"to":{"type":"string","format":"path"}}}`), nil)
	if err != nil {
		w.t.Fatal(err)
	}
	w.manifest.Functions["say"].Request = schema
	w.manifest.Capability.FS = []string{"/srv/data"}
}

// An unsafe input is refused with its place, also where it is in the payload store. A safe one is admitted as it came.
func TestSanitising(t *testing.T) {
	sum := strings.Repeat("c", 64)
	for input, refused := range map[string]bool{
		`{"n":1,"to":"a/./b"}`: false, `{"n":1,"to":"/srv/data/a"}`: false, `{"n":1}`: false,
		`{"n":1,"to":"../a"}`: true, `{"n":1,"to":"/etc/a"}`: true, `{"n":1,"to":"\u002e\u002e"}`: true,
	} {
		for _, stored := range []bool{false, true} {
			bubble(t, call.Pure, func(t *testing.T, w *world) {
				takesPath(w)
				in := w.request(1, `{"n":1}`, input)
				if stored {
					w.payloads[sum] = []byte(input)
					in = w.request(1, `{"n":1}`, `null`)
					in.InputRef = fmt.Sprintf("sha256:%s;%d", sum, len(input))
				}
				w.d.Handle(t.Context(), in)
				synctest.Wait()
				if !refused {
					if w.acceptedBy(1) != 1 {
						t.Errorf("%s, stored %t: %+v", input, stored, w.outcome(1).Error)
					}
					return
				}
				e := w.outcome(1).Error
				if e.Code != envelope.CodeUnsafe || e.Details.Effect != envelope.EffectNone || len(w.log.Entries()) != 0 {
					t.Errorf("%s, stored %t: %+v", input, stored, e)
				}
				want := []jsonschema.Violation{{Pointer: "/input/to", Rule: "format", Message: e.Details.Violations[0].Message}}
				if diff := cmp.Diff(want, e.Details.Violations); diff != "" {
					t.Error(diff)
				}
			})
		}
	}
}
