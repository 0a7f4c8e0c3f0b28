package attack

import (
	"context"
	"log/slog"
	"slices"
	"strings"
	"sync"
)

// overheard keeps what the server logs.
type overheard struct {
	mu    sync.Mutex
	lines []string
}

// Enabled implements slog.Handler.
func (*overheard) Enabled(context.Context, slog.Level) bool { return true }

// Handle implements slog.Handler.
func (o *overheard) Handle(_ context.Context, r slog.Record) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.lines = append(o.lines, r.Message)
	return nil
}

// WithAttrs implements slog.Handler.
func (o *overheard) WithAttrs([]slog.Attr) slog.Handler { return o }

// WithGroup implements slog.Handler.
func (o *overheard) WithGroup(string) slog.Handler { return o }

// count counts the lines that have all of some texts in them.
func (o *overheard) count(texts ...string) int { return len(o.with(texts...)) }

// with returns these lines.
func (o *overheard) with(texts ...string) (lines []string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, line := range o.lines {
		if !slices.ContainsFunc(texts, func(text string) bool { return !strings.Contains(line, text) }) {
			lines = append(lines, line)
		}
	}
	return lines
}
