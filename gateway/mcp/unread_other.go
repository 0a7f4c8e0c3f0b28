//go:build !linux

package mcp

import (
	"context"
	"io"
)

// unread waits until ctx ends: only on Linux can the gateway detect that no reader is left.
func unread(ctx context.Context, _ io.Writer) bool {
	<-ctx.Done()
	return false
}
