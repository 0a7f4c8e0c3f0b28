//go:build formmember

package format

// Member is an additional member of each attempt in an event, as a later release may add it.
const Member = "added"
