// Package ijson scans, canonicalises and writes I-JSON (RFC 7493), the JSON that all libraries read alike, within
// limits.
//
// [Scan] walks a text once and says all there is to know of it; the functions of tokens.go are for text that is known
// to be valid. What it refuses, it lists as a [Violation], each with a JSON pointer. A [Table] is made of the fields
// of a struct and their json tags. It writes, byte for byte, what the JSON library writes, and reads that form and no
// other: where it returns false, its caller uses the library. Start reading at scan.go.
package ijson
