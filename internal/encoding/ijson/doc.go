// Package ijson checks, canonicalises and writes I-JSON (RFC 7493), the subset of JSON that all libraries read in the
// same way, within limits.
//
// [Scan] reads a text once, and returns its properties and a [Violation] with a JSON pointer for each broken rule. The
// functions of tokens.go require text that is known to be valid. A [Table] encodes and decodes a struct type faster
// than the JSON library: it writes the same bytes as the library, and reads only that form. If it returns false, use
// the library. Start reading at scan.go.
package ijson
