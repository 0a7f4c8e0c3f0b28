package cli

import (
	"io"
	"log/slog"
	"strings"
)

// timestampFormat is RFC 3339 with milliseconds.
const timestampFormat = "2006-01-02T15:04:05.000Z07:00"

// newJSONHandler writes each event as one line of JSON, with the time and the level as in 004 §4.2, and
// durations as text.
func newJSONHandler(to io.Writer, level slog.Level) slog.Handler {
	return slog.NewJSONHandler(to, &slog.HandlerOptions{Level: level, ReplaceAttr: inForm})
}

// inForm returns a member of an event in the form that newJSONHandler writes.
func inForm(groups []string, a slog.Attr) slog.Attr {
	switch {
	case a.Value.Kind() == slog.KindDuration:
		return slog.String(a.Key, a.Value.Duration().String())
	case len(groups) > 0:
	case a.Key == slog.TimeKey && a.Value.Kind() == slog.KindTime:
		return slog.String("timestamp", a.Value.Time().UTC().Format(timestampFormat))
	case a.Key == slog.LevelKey:
		if l, ok := a.Value.Any().(slog.Level); ok {
			return slog.String(slog.LevelKey, strings.ToLower(l.String()))
		}
	}
	return a
}
