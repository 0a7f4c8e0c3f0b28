package docs_test

// Kinds of old words.
const (
	flagWord       = "flag"        // of a command, without dashes
	messageWord    = "log message" // or a part of it
	fieldWord      = "log field"   // key of an attribute of a log line
	identifierWord = "identifier"  // Name, package.Name, package.Type.Name: where it is declared, not where it is used
	fileWord       = "file"        // base name, or path from the root of the repository
)

// oldWord is a word that has been replaced. Stored and sent words are never among them: they keep their names.
type oldWord struct {
	old, kind, now string
	except         []string // files that may use it
}

// oldWords lists them. An old flag may be the argument of cli.OldFlag and cli.OldSyncFlag, which make hidden aliases of
// it for one release.
func oldWords() []oldWord {
	chaos := []string{"internal/chaos/oldbinary.go"}
	return []oldWord{
		{"fsync", flagWord, "--sync always", chaos},
		{"sync-always", flagWord, "--sync always", nil},
		{"sync default", flagWord, "--sync interval", nil},
		{"group", flagWord, "--batch", chaos},
		{"ahead-per-actor", flagWord, "--overflow-after", nil},
		{"keys", flagWord, "--secrets-dir", chaos},
		{"state", flagWord, "--data-dir", nil},
		{"store", flagWord, "--store-dir", nil},
		{"otlp", flagWord, "--otlp-endpoint", nil},
		{"for-actor", flagWord, "--actor", nil},
		{"calm", flagWord, "--no-faults", nil},
		{"only", flagWord, "--fault", nil},
		{"beside", flagWord, "--old-binary", nil},

		{"handed back", messageWord, "nak", nil},
		{"not told", messageWord, "not delivered", nil},
		{"not heard of", messageWord, "not received", nil},
		{"put off", messageWord, "delayed", nil},

		{"again_in", fieldWord, "retry_in", nil},
		{"in", fieldWord, "operation", nil},
		{"counts", fieldWord, "count", nil},
		{"told", fieldWord, "lease, or configured", nil},
	}
}
