package dispatcher_test

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/call"
	"github.com/seed-018f16cc/toolbus/internal/encoding/ijson"
	"github.com/seed-018f16cc/toolbus/internal/encoding/jsonschema"
)

// takesNumbers gives the tool an input whose check takes one step and more for each number.
func takesNumbers(w *world) {
	w.t.Helper()
	const raw = `{"properties":{"n":{"items":{"enum":[1]}}},"additionalProperties":false}`
	schema, err := jsonschema.Compile("in", []byte(raw), nil)
	if err != nil {
		w.t.Fatal(err)
	}
	w.manifest.Functions["say"].Request = schema
}

// The check of an input ends at the deadline of the call. A late request whose check has ended before is refused for
// its input, because that is the earlier step.
func TestSchemaCheckEndsAtTheDeadline(t *testing.T) {
	ones := `{"n":[` + strings.Repeat("1,", 20_000)
	for _, c := range []struct {
		input string
		late  bool
		want  envelope.Code
	}{
		{ones + "1]}", false, ""}, {ones + "2]}", false, envelope.CodeSchema}, {ones + "2]}", true, envelope.CodeTimeout},
		{`{"n":[2]}`, true, envelope.CodeSchema},
	} {
		bubble(t, call.Pure, func(t *testing.T, w *world) {
			takesNumbers(w)
			in := w.request(1, `{"n":1}`, c.input)
			if c.late {
				in.Received = in.Received.Add(-time.Minute)
			}
			w.d.Handle(t.Context(), in)
			synctest.Wait()
			switch {
			case c.want == "" && w.acceptedBy(1) != 1:
				t.Errorf("%.20s: %+v", c.input, w.outcome(1).Error)
			case c.want != "" && w.outcome(1).Error.Code != c.want:
				t.Errorf("%.20s: %+v, want %s", c.input, w.outcome(1).Error, c.want)
			}
		})
	}
}

// A refusal lists 100 violations, and says if there are more.
func TestViolationsTruncated(t *testing.T) {
	for _, more := range []int{0, 1, 200} {
		bubble(t, call.Pure, func(t *testing.T, w *world) {
			takesNumbers(w)
			var members []string
			for i := range ijson.MaxViolations + more {
				members = append(members, fmt.Sprintf(`"m%d":1`, i))
			}
			w.ask(1, `{"n":1}`, "{"+strings.Join(members, ",")+"}")
			got := w.outcome(1).Error.Details
			if len(got.Violations) != ijson.MaxViolations || got.ViolationsTruncated != (more > 0) {
				t.Errorf("%d violations and %d more: %d, truncated: %t", ijson.MaxViolations, more, len(got.Violations),
					got.ViolationsTruncated)
			}
		})
	}
}
