package timer

import (
	"strings"
	"time"
)

// Text returns d as [time.Duration.String] does, but without zero minutes and seconds at its end: 10m, and not 10m0s.
func Text(d time.Duration) string {
	text := d.String()
	for _, zero := range []string{"m0s", "h0m"} {
		if strings.HasSuffix(text, zero) {
			text = strings.TrimSuffix(text, zero[1:])
		}
	}
	return text
}
