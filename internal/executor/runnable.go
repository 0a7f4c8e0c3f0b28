package executor

import (
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
		a, here := adapters[m.Transport]
		if !here || m.Pool != pool || !m.Callable() || m.Missing != "" {
			continue
		}
		if err := a.Validate(m); err != nil {
			all = errors.Join(all, fmt.Errorf("tool %s cannot run here: %w", m.ToolID, err))
		}
	}
	return all
}
