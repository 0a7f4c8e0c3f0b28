//go:build !formmember

package format

// Member is one more member of every attempt in an event, as a later release may add; test/mixed builds one
// that does.
const Member = ""
