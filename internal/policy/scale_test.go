package policy_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/seed-018f16cc/toolbus/internal/call"
	"github.com/seed-018f16cc/toolbus/internal/policy"
	"github.com/seed-018f16cc/toolbus/internal/tool"
)

// largest returns the set that is generated for 5,000 tools with long descriptions, with 2,000 lanes.
func largest(tb testing.TB) (policy.Documents, []*tool.Manifest) {
	tb.Helper()
	most := 5000
	if testing.Short() {
		most /= 8 // see .ci/race
	}
	tools := make([]*tool.Manifest, most)
	for i := range tools {
		lane := fmt.Sprintf("lane-%d", i%1999)
		tools[i] = manifest(fmt.Sprintf("mcp::server::tool-%d", i), "1.0.0", call.SideEffectful,
			map[string]any{"allowed_lanes": []string{lane}})
		tools[i].Description = strings.Repeat("words ", 500)
	}
	d, err := policy.Generate(tools)
	if err != nil {
		tb.Fatal(err)
	}
	return d, tools
}

// The set of 5,000 tools in 2,000 lanes is within the limits.
func TestLargestSet(t *testing.T) {
	d, tools := largest(t)
	if s := compiled(t, d, tools...); len(s.WhoCan(tools[0].ToolID)) != 1 {
		t.Errorf("%s can be called in %d lanes", tools[0].ToolID, len(s.WhoCan(tools[0].ToolID)))
	}
}

func BenchmarkLargestSet(b *testing.B) {
	d, tools := largest(b)
	set, err := policy.Parse(d)
	if err != nil {
		b.Fatal(err)
	}
	raw, err := set.Parsed()
	if err != nil {
		b.Fatal(err)
	}
	for name, f := range map[string]func() error{
		"read":    func() error { _, err := policy.ReadParsed(raw, d.Versions()); return err },
		"parse":   func() error { _, err := policy.Parse(d); return err },
		"compile": func() error { _, err := policy.Compile(set, tools); return err },
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if err := f(); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(len(d.Roles)+len(d.Lanes)+len(d.ToolRegistry)), "bytes")
		})
	}
}
