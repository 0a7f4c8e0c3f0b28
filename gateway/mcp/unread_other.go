//go:build !linux

package mcp

import (
	"context"
	"io"
)

// unread waits until ctx ends: only Linux tells whether a reader is left.
func unread(ctx context.Context, _ io.Writer) bool {
	<-ctx.Done()
	return false
}
