package executor

import (
	"errors"
	"fmt"

	"github.com/seed-018f16cc/toolbus/internal/tool"
)

// Runnable says which of the tools that belong to a pool, and have an adapter here, this host could not run, if any.
// Better now than call by call.
func Runnable(tools []*tool.Manifest, adapters map[string]tool.Adapter, pool string) error {
	var all error
	for _, m := range tools {
		a, here := adapters[m.Transport]
		if !here || m.Pool != pool || !m.Callable() {
			continue
		}
		if err := a.Validate(m); err != nil {
			all = errors.Join(all, fmt.Errorf("tool %s cannot run here: %w", m.ToolID, err))
		}
	}
	return all
}
