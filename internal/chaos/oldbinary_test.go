package chaos

import (
	"slices"
	"strings"
	"testing"
)

func TestOldBinaryArgs(t *testing.T) {
	for args, want := range map[string]string{
		"dispatcher --sync always --batch 2 --lease 2s": "dispatcher --fsync --group 2 --lease 2s",
		"dispatcher --secrets-dir /keys --lease 2s":     "dispatcher --keys /keys --lease 2s",
		"executor --sync interval --slots 8":            "executor --slots 8",
	} {
		if got := oldBinaryArgs(strings.Fields(args)); !slices.Equal(got, strings.Fields(want)) {
			t.Errorf("%s: %q, want %s", args, got, want)
		}
	}
}
