package envelope

import (
	"maps"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/go-cmp/cmp"
)

// The details of an error name the call of the answer that carries it, whatever a tool or an older build has put there.
func TestCorrelated(t *testing.T) {
	const trace = "0af76519-16cd-43dd-8448-eb211c80319c"
	e := NewError(CodeUpstream, "").WithDetails(jsontext.Value(`{"url":"x","call_id":"c","owner":"o","attempt":"third"}`))
	if diff := cmp.Diff(map[string]jsontext.Value{"url": jsontext.Value(`"x"`)}, e.Details.Extra); diff != "" {
		t.Errorf("what a tool may add:\n%s", diff)
	}
	e.Details.Extra["trace_id"], e.Details.Extra["attempt"] = jsontext.Value("7"), jsontext.Value(`"third"`) // older build
	was := maps.Clone(e.Details.Extra)
	const id = "7d1f3a52-6f0c-4a3b-9b53-2f6f0c1e8a02"
	r := Failure(id, e, Provenance{ToolID: "echo", ToolVersion: strings.Repeat("1", 300), Attempt: 3}, Metrics{})
	got := r.Correlated(trace)
	want := map[string]jsontext.Value{
		"url": jsontext.Value(`"x"`), "call_id": jsontext.Value(`"` + id + `"`), "attempt": jsontext.Value("3"),
		"trace_id": jsontext.Value(`"` + trace + `"`), "tool_id": jsontext.Value(`"echo"`),
		"tool_version": jsontext.Value(`"` + strings.Repeat("1", MaxID-len("…")) + `…"`),
	}
	if diff := cmp.Diff(want, got.Error.Details.Extra); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(was, r.Error.Details.Extra); diff != "" {
		t.Errorf("the response itself was changed:\n%s", diff)
	}
	raw, err := json.Marshal(got.Error)
	if bad := ErrorSchema().Validate(raw); err != nil || len(bad) > 0 {
		t.Errorf("%v, %v", bad, err)
	}
	unknown := Failure("", NewError(CodeMalformed, "").WithDetails(jsontext.Value(`{"a":1}`)), Provenance{}, Metrics{})
	unknown.Error.Details.Extra["trace_id"] = jsontext.Value("7")
	want = map[string]jsontext.Value{"a": jsontext.Value("1")}
	if diff := cmp.Diff(want, unknown.Correlated("no trace").Error.Details.Extra); diff != "" {
		t.Error(diff)
	}
	if tool := unknown.Correlated(trace).Error.Details.OfTool(); len(tool) != 1 || tool["a"] == nil {
		t.Errorf("of the tool: %v", tool)
	}
	if ok := (&Response{Status: Success}); ok.Correlated(trace) != ok {
		t.Error("a success was copied")
	}
}
