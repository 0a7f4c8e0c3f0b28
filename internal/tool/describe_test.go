package tool

import (
	"testing"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/seed-018f16cc/toolbus/envelope"
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
