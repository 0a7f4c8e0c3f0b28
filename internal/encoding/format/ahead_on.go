//go:build formahead

package format

// ahead makes this build write and read events in the next format, as a later release will.
const ahead = 1
