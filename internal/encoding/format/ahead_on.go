//go:build formahead

package format

// ahead makes this build write, and read, events of the next form, as a later release will.
const ahead = 1
