package main

import (
	"fmt"
	"log/slog"
	"os"
	"path/filepath"

	"github.com/seed-018f16cc/toolbus/internal/auth"
)

// globalAccount is the account of all users of a server without accounts.
const globalAccount = "$G"

// moveStreams moves the streams of a store between the accounts of a bus with tokens and without (open), if an earlier
// start was of the other kind. No server may have the store open.
func moveStreams(store string, open bool, log *slog.Logger) error {
	from, to := globalAccount, auth.TB
	if open {
		from, to = to, from
	}
	of := func(account string) string { return filepath.Join(store, "jetstream", account) }
	hasStreams := func(account string) bool {
		entries, err := os.ReadDir(filepath.Join(of(account), "streams"))
		return err == nil && len(entries) > 0
	}
	switch {
	case !hasStreams(from):
		return nil
	case hasStreams(to):
		return fmt.Errorf("%s holds streams with tokens (%s) and without (%s): move one of the folders away, or name "+
			"another directory with --data-dir", filepath.Join(store, "jetstream"), auth.TB, globalAccount)
	}
	if err := os.RemoveAll(of(to)); err != nil {
		return fmt.Errorf("streams of the account %s: %w", to, err)
	}
	log.Warn("the streams of an earlier start are taken over into another account", "from", from, "to", to)
	if err := os.Rename(of(from), of(to)); err != nil {
		return fmt.Errorf("streams of the account %s: %w", from, err)
	}
	return nil
}
