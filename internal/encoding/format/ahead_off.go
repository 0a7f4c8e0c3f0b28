//go:build !formahead

package format

// ahead is how many forms of events this build is ahead of the release; test/mixed builds one that is.
const ahead = 0
