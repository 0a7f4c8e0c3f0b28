package chaos

import (
	"fmt"
	"os"
	"path/filepath"
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

// Dispatchers of an older build get --insecure-no-auth only if their help lists it.
func TestKnowsInsecure(t *testing.T) {
	for help, want := range map[string]bool{
		"      --insecure-no-auth[=true|false]   serve without secrets": true,
		"      --secrets-dir DIR": false,
	} {
		old := filepath.Join(t.TempDir(), "toolbus")
		script := fmt.Sprintf("#!/bin/sh\n[ \"$*\" = 'dispatcher --help' ] && echo '%s'\n", help)
		if err := os.WriteFile(old, []byte(script), 0o700); err != nil {
			t.Fatal(err)
		}
		if got := knowsInsecure(old); got != want {
			t.Errorf("%s: %t", help, got)
		}
	}
	if knowsInsecure(filepath.Join(t.TempDir(), "none")) {
		t.Error("a program that does not exist knows it")
	}
}
