//go:build linux

package importer_test

import (
	"testing"
	"time"

	"github.com/seed-018f16cc/toolbus/internal/tool"
	"github.com/seed-018f16cc/toolbus/internal/tool/mcp"
	"github.com/seed-018f16cc/toolbus/internal/tool/mcp/importer"
)

// TestImportSwitchedOff writes no manifest of a tool that is switched off, and gives the others the timeout.
func TestImportSwitchedOff(t *testing.T) {
	for name, c := range map[string]struct{ timeout, want time.Duration }{
		"of the configuration": {45 * time.Second, 45 * time.Second},
		"too long":             {time.Hour, 10 * time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			s := newShop(t, stock)
			s.options.Timeout = c.timeout
			s.options.Skip = func(tool string) bool { return tool == "reserve" }
			for _, one := range s.imports().Tools {
				if off := one.Name == "reserve"; off != (one.State == importer.Off) {
					t.Errorf("%s is %s", one.Name, one.State)
				}
			}
			all, err := tool.Load(s.options.Dir, mcp.Describe())
			if err != nil {
				t.Fatal(err)
			}
			for _, m := range all.List() {
				if e, ok := m.Endpoint.(mcp.Endpoint); !ok || e.Tool == "reserve" {
					t.Errorf("%s was imported", m.ToolID)
				}
				usual, longest := m.Limits.TimeoutDefaultMS, m.Limits.TimeoutMaxMS
				if want := c.want.Milliseconds(); usual != want || longest != want {
					t.Errorf("%s: %d and %d ms, want %d", m.ToolID, usual, longest, want)
				}
			}
			if len(all.List()) == 0 {
				t.Error("nothing was imported")
			}
		})
	}
}
