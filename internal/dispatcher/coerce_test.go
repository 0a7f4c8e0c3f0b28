package dispatcher_test

import (
	"strings"
	"testing"

	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/call"
	"github.com/seed-018f16cc/toolbus/internal/encoding/jsonschema"
)

// coerces is the endpoint of a tool whose inputs are coerced, or are not.
type coerces struct {
	defined
	on bool
}

func (c coerces) Coerces() bool { return c.on }

// coercing gives the tool an endpoint that coerces, and a list of paths.
func coercing(w *world, on bool) {
	w.t.Helper()
	schema, err := jsonschema.Compile("in", []byte(`{"type":"object","required":["n"],"properties":{"n":{"type":"integer"},
		"force":{"type":"boolean"},"to":{"type":"array","items":{"type":"string","format":"path"}}}}`), nil)
	if err != nil {
		w.t.Fatal(err)
	}
	w.manifest.Functions["say"].Request, w.manifest.Endpoint = schema, coerces{defined{}, on}
}

// A string that spells the number which the schema wants is admitted. The log has the request as it was sent, so that
// the same request again joins, and one with the number itself is another input.
func TestCoerced(t *testing.T) {
	bubble(t, call.Idempotent, func(t *testing.T, w *world) {
		coercing(w, true)
		w.ask(1, `{"n":1}`, `{"n":"1"}`)
		w.ask(2, `{"n":1}`, `{"n":"1"}`)
		if w.acceptedBy(1) != 1 || w.acceptedBy(2) != 1 {
			t.Fatalf("accepted %d and %d times", w.acceptedBy(1), w.acceptedBy(2))
		}
		first := w.log.Entries()[0]
		if !strings.Contains(string(first.Body), `{"n":"1"}`) {
			t.Errorf("the log has %s", first.Body)
		}
		if got := first.State.ArgsHash; got != envelope.ArgumentsHash([]byte(`{"n":"1"}`)) {
			t.Errorf("the log has the hash %s", got)
		}
		w.ask(3)
		if e := w.outcome(3).Error; e == nil || e.Code != envelope.CodeKeyReused {
			t.Errorf("with the number: %v", e)
		}
	})
}

// Checks after the schema look at the value that the tool gets, also of a copy of the request.
func TestCoercedIsChecked(t *testing.T) {
	for input, want := range map[string]envelope.Code{
		`{"n":"1","to":"[\"a\"]"}`:    "",
		`{"n":"1","to":"[\"../a\"]"}`: envelope.CodeUnsafe,
		`{"n":"one"}`:                 envelope.CodeSchema,
		`{"n":"1","force":"false"}`:   "",
		`{"n":"1","force":"true"}`:    envelope.CodeProhibited,
		`{"n":"1","force":"yes"}`:     envelope.CodeSchema,
	} {
		bubble(t, call.Pure, func(t *testing.T, w *world) {
			coercing(w, true)
			w.d.Policy = rules{lanes: "l", tools: "echo", flags: "force"}.in(w)
			for n := range 2 {
				w.ask(n, append(ofRole("agent", "l"), `{"n":1}`, input)...)
				switch {
				case want == "" && w.acceptedBy(n) != 1:
					t.Errorf("%s: %+v", input, w.outcome(n).Error)
				case want != "" && w.outcome(n).Error.Code != want:
					t.Errorf("%s: %+v, want %s", input, w.outcome(n).Error, want)
				}
			}
		})
	}
}

// Only tools whose endpoint says so get coerced inputs, and only inputs that are inside of a request are.
func TestNotCoerced(t *testing.T) {
	refused := func(w *world, n int) {
		w.t.Helper()
		e := w.outcome(n).Error
		if e == nil || e.Code != envelope.CodeSchema || e.Details.Violations[0].Pointer != "/input/n" {
			w.t.Errorf("%+v", e)
		}
	}
	bubble(t, call.Pure, func(t *testing.T, w *world) {
		w.ask(1, `{"n":1}`, `{"n":"1"}`)
		refused(w, 1)
		coercing(w, false)
		w.ask(2, `{"n":1}`, `{"n":"1"}`)
		refused(w, 2)
		coercing(w, true)
		w.askLarge(3, `{"n":"1"}`)
		refused(w, 3)
	})
}
