package executor

import (
	"cmp"
	"errors"
	"fmt"

	"github.com/seed-018f16cc/toolbus/internal/tool"
)

// Runnable returns an error that names each tool of the pool that this host cannot run. It ignores tools without an
// adapter here, and those whose manifest names no program and whose default program is missing. Executors call it at
// the start, so that any other such tool does not fail only when it is called.
func Runnable(tools []*tool.Manifest, adapters map[string]tool.Adapter, pool string) error {
	var all error
	for _, m := range tools {
		if a := adapterOf(m, adapters, pool); a != nil {
			if err := a.Validate(m); err != nil {
				all = errors.Join(all, fmt.Errorf("tool %s cannot run here: %w", m.ToolID, err))
			}
		}
	}
	return all
}

// CannotRun returns why no run of a tool could start here, or nil. It ignores the tools that [Runnable] ignores, and
// unlike that it refuses the missing program of an interpreter, too: then a reload keeps the build before.
func CannotRun(m *tool.Manifest, adapters map[string]tool.Adapter, pool string) error {
	if a := adapterOf(m, adapters, pool); a != nil {
		return m.CannotRun(a)
	}
	return nil
}

// adapterOf returns the adapter of a tool of the pool, or nil if it needs none to be served.
func adapterOf(m *tool.Manifest, adapters map[string]tool.Adapter, pool string) tool.Adapter {
	if m.Pool != pool || !m.Callable() || m.Missing != "" {
		return nil
	}
	return adapters[m.Transport]
}

// UnrunnableTool is a tool of which no run could start on this host, with the reason.
type UnrunnableTool struct {
	Tool string
	Why  error
}

// Unrunnable returns the tools of the pool of which no run could start on this host now, such as those whose program
// was removed or built again after it was loaded. Unlike [Runnable] it ignores no missing program.
func Unrunnable(tools []*tool.Manifest, adapters map[string]tool.Adapter, pool string) (all []UnrunnableTool) {
	for _, m := range tools {
		a, here := adapters[m.Transport]
		if !here || m.Pool != pool || !m.Callable() {
			continue
		}
		if err := cmp.Or(m.Intact(), a.Validate(m), startable(a, m)); err != nil {
			all = append(all, UnrunnableTool{m.ToolID, err})
		}
	}
	return all
}

// startable asks an adapter that starts something else than the program of the tool.
func startable(a tool.Adapter, m *tool.Manifest) error {
	if s, ok := a.(interface{ Startable(*tool.Manifest) error }); ok {
		return s.Startable(m)
	}
	return nil
}
