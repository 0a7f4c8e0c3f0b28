package executor

import (
	"regexp"
	"testing"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/seed-018f16cc/toolbus/internal/call"
)

// A tool gets the members that its manifest lists, as they stand in the request, however that was written.
func TestListed(t *testing.T) {
	const context = ` { "actor_id":"a","scope" : {"actor_id":1},"scopes":["x"],"b":{"env":1},"e\u006ev":"dev"} `
	for want, names := range map[string][]string{
		"":                                nil,
		`{"actor_id":"a"}`:                {"actor_id"},
		`{"actor_id":"a","scopes":["x"]}`: {"scopes", "locale", "actor_id"},
		`{"scope":{"actor_id":1}}`:        {"scope"},
		`{"e\u006ev":"dev"}`:              {"env"},
	} {
		if got := listed(names, jsontext.Value(context), call.Owner{}); string(got) != want {
			t.Errorf("%q: %s, want %s", names, got, want)
		}
	}
	for _, context := range []string{"", "{}", `{"locale":"de"}`, "null", `["env"]`} {
		if got := listed([]string{"env"}, jsontext.Value(context), call.Owner{}); got != nil {
			t.Errorf("%s: %s", context, got)
		}
	}
	raw := jsontext.Value(context)
	if allocs := testing.AllocsPerRun(10, func() { listed(nil, raw, call.Owner{Run: "r"}) }); allocs > 0 {
		t.Errorf("a tool that lists nothing costs %v allocations", allocs)
	}
}

// Every run has a valid traceparent with a span id of its own, in the trace of the request if that names one.
func TestNewTraceparent(t *testing.T) {
	spans := map[string]bool{}
	for id, trace := range map[string]string{
		"0af76519-16cd-43dd-8448-EB211C80319C": "0af7651916cd43dd8448eb211c80319c",
		"00000000-0000-0000-0000-000000000000": "[0-9a-f]{31}[1-9a-f]",
		"no id":                                "[0-9a-f]{32}",
		"":                                     "[0-9a-f]{32}",
	} {
		is := regexp.MustCompile("^00-" + trace + "-([0-9a-f]{16})-01$").FindStringSubmatch(newTraceparent(id))
		if is == nil || is[1] == "0000000000000000" || spans[is[1]] {
			t.Errorf("%q: %q", id, is)
			continue
		}
		spans[is[1]] = true
	}
}

// The run, the role and the lane of a call are in its log, and its request may leave them out or have them empty.
func TestListedOwner(t *testing.T) {
	owner := call.Owner{Run: "r", Lane: `l"`}
	for context, want := range map[string]string{
		`{"env":"dev"}`:                          `{"run_id":"r","lane_id":"l\""}`,
		`{"lane_id":"","env":"dev"}`:             `{"lane_id":"l\"","run_id":"r"}`,
		`{"run_id":"r","role_id":"own","x":[1]}`: `{"run_id":"r","role_id":"own","lane_id":"l\""}`,
	} {
		got := listed([]string{"run_id", "role_id", "lane_id"}, jsontext.Value(context), owner)
		if string(got) != want {
			t.Errorf("of %s: %s, want %s", context, got, want)
		}
	}
	if got := listed([]string{"timezone"}, jsontext.Value(`{}`), owner); got != nil {
		t.Errorf("not listed: %s", got)
	}
}
