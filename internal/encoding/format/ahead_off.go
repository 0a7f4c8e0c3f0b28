//go:build !formahead

package format

// ahead is added to the format number of events. Only the build of test/mixed has another value.
const ahead = 0
