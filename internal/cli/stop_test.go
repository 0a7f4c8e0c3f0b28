package cli

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// A process that waits for running calls after a signal says so. A process that ends at once prints nothing.
func TestPatience(t *testing.T) {
	for took, want := range map[time.Duration]string{0: "", soon / 2: "", 2 * soon: "calls in hand"} {
		synctest.Test(t, func(t *testing.T) {
			var said strings.Builder
			ctx, stop := context.WithCancel(t.Context())
			ended := Patience(ctx, &said)
			<-time.After(time.Hour)
			stop()
			<-time.After(took)
			ended()
			if got := said.String(); !strings.Contains(got, want) || (got != "") != (want != "") {
				t.Errorf("after %s it says %q", took, got)
			}
		})
	}
	var said strings.Builder
	Patience(t.Context(), &said)() // the process failed before a signal
	if said.Len() > 0 {
		t.Errorf("it says %q", said.String())
	}
}
