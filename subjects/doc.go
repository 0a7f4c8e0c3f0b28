// Package subjects builds and parses every name that Toolbus uses on the bus: subjects, streams,
// buckets, consumers and headers. No other package holds a subject literal.
//
// # Tokens
//
// Tool ids, actors, tenants and versions come from outside and may hold any byte. Each becomes
// one token by [Token]: the bytes [A-Za-z0-9-] stay, every other byte is "_" and two lower-case
// hex digits, so web.fetch is web_2efetch and mcp::github::issues.create is
// mcp_3a_3agithub_3a_3aissues_2ecreate. The same token serves subjects, keys of buckets, names of
// consumers and folders. The empty string is "_e".
//
// A token longer than 100 bytes is replaced by its first 40 bytes (fewer, if that would cut an
// escape), "_h" and 128 bits of the SHA-256 of the name in hex. Such a digested token cannot be
// turned back ([ErrDigested]), but two names still never share one, and none equals a plain
// token, because "h" is no hex digit. Parsers return a digested name as the empty string: take
// the name from the message then, and compare the subject with the one built from it.
//
// Words of our own vocabulary (events, operations) keep their underscore; what else they might
// hold is "=" and two hex digits.
package subjects
