package main

import (
	"log/slog"
	"os"
	"path/filepath"
	"testing"
)

// moveStreams neither mixes streams with tokens and without, nor deletes any.
func TestMoveStreams(t *testing.T) {
	store, log := t.TempDir(), slog.New(slog.DiscardHandler)
	stream := func(account string) string { return filepath.Join(store, "jetstream", account, "streams", "AUDIT") }
	there := func(account string, want bool) {
		t.Helper()
		if _, err := os.Stat(stream(account)); (err == nil) != want {
			t.Errorf("%s: %v", account, err)
		}
	}
	if err := moveStreams(store, false, log); err != nil {
		t.Error("of nothing:", err)
	}
	if err := os.MkdirAll(stream("$G"), 0o700); err != nil {
		t.Fatal(err)
	}
	for _, open := range []bool{true, false, false, true} {
		if err := moveStreams(store, open, log); err != nil {
			t.Error(err)
		}
		there("$G", open)
		there("TB", !open)
	}
	if err := os.MkdirAll(stream("TB"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := moveStreams(store, false, log); err == nil {
		t.Error("both were taken for one")
	}
	there("$G", true)
	there("TB", true)
}
