package tool

import (
	"testing"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/encoding/jsonschema"
)

// The description of a tool contains all its limits under the names of the manifest.
func TestDescribeLimits(t *testing.T) {
	info := (&Manifest{
		Limits: envelope.ToolLimits{
			TimeoutDefaultMS: 1000, TimeoutMaxMS: 60_000, MemoryMB: 256, Concurrency: 3, OutputBytes: 1 << 20, StderrBytes: 4096,
		},
		Capability: Capabilities{Lookup: true}, Retention: time.Hour,
	}).describe(false)
	got, err := json.Marshal(info.Limits)
	const want = `{"timeout_ms_default":1000,"timeout_ms_max":60000,"memory_mb_max":256,"concurrency_max":3,` +
		`"output_bytes_max":1048576,"stderr_bytes_max":4096}`
	if err != nil || string(got) != want || info.RetentionS != 3600 || !info.Lookup {
		t.Errorf("%s, kept for %d s, lookup %t, %v", got, info.RetentionS, info.Lookup, err)
	}
	if info.TimeoutDefaultMS != 1000 || info.TimeoutMaxMS != 60_000 {
		t.Errorf("%+v", info)
	}
}

// anyEndpoint is an endpoint that coerces inputs, or does not.
type anyEndpoint struct{ coerces bool }

func (anyEndpoint) Files() []File   { return nil }
func (anyEndpoint) Name() string    { return "any" }
func (e anyEndpoint) Coerces() bool { return e.coerces }

// A manifest from a description coerces inputs if the tool does. A list of tools does not say so.
func TestDescribeCoerces(t *testing.T) {
	schema, err := jsonschema.Compile("in", []byte(`{"properties":{"n":{"type":"integer"}}}`), nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, on := range []bool{false, true} {
		m := &Manifest{
			ToolID: "t", Endpoint: anyEndpoint{on},
			Functions: map[string]*Function{"run": {Name: "run", Request: schema, Response: schema}},
		}
		if m.describe(false).Coerces {
			t.Error("a list says that inputs are coerced")
		}
		text, err := json.Marshal(m.describe(true))
		var info envelope.ToolInfo
		if err == nil {
			err = json.Unmarshal(text, &info)
		}
		if err != nil {
			t.Fatal(err)
		}
		got, err := FromDescription(info)
		if err != nil {
			t.Fatal(err)
		}
		want := map[bool]string{false: `{"n":"1"}`, true: `{"n":1}`}[on]
		if in := got.Coerced("run", []byte(`{"n":"1"}`)); string(in) != want {
			t.Errorf("coercing %t: %s, want %s", on, in, want)
		}
	}
}
