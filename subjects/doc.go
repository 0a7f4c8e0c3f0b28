// Package subjects builds and parses all names that Toolbus uses on the bus: subjects, streams, buckets, consumers and
// headers. Other packages contain no literals of them. All functions are safe for concurrent use.
//
// # Tokens
//
// Callers choose tool ids, actors, tenants and versions, which may hold any byte. [Token] encodes each as one token:
// the bytes [A-Za-z0-9-] stay, and every other byte becomes "_" and two lower-case hex digits. So web.fetch becomes
// web_2efetch, and mcp::github::issues.create becomes mcp_3a_3agithub_3a_3aissues_2ecreate. The same token is used in
// subjects, keys of buckets, names of consumers and names of folders. The token of the empty string is "_e".
//
// A token longer than 100 bytes is replaced by its first 40 bytes (fewer, if an escape would be cut), "_h" and the
// first 128 bits of the SHA-256 of the name in hex. Such a digested token cannot be decoded ([ErrDigested]). Two names
// never share a token, short of a collision of SHA-256, and no digested token equals a plain one, because "h" is not a
// hex digit. Functions that parse a subject return "" for a digested name: then take the name from the message, and
// compare the subject with the one that is built from it.
//
// Names of events, operations and queues are fixed by Toolbus, and keep their underscores. In them, any byte besides
// [A-Za-z0-9_-] becomes "=" and two hex digits.
//
// Start reading at subjects.go and calls.go; token.go has the encoding.
package subjects
