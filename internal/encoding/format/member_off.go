//go:build !formmember

package format

// Member is an additional member of each attempt in an event, as a later release may add it. Only the build of
// test/mixed has one.
const Member = ""
