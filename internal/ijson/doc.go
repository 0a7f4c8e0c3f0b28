// Package ijson reads JSON text that all libraries read alike: I-JSON (RFC 7493) within limits. [Scan] walks a text
// once and says all there is to know of it; the functions of tokens.go are for text that is known to be fine. What it
// refuses, it lists as a [Violation], each with a JSON pointer. Start reading at scan.go.
package ijson
