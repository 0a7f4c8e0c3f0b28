// Package wire holds docs/wire.md to its word: a client in Python, written from that page alone, runs against a
// bus and sends the examples of the page as they stand.
package wire
