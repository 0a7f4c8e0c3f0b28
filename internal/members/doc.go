// Package members writes JSON objects member by member, byte for byte as the JSON library writes the structs
// that every call encodes, but without reflection, and reads those again of which an audit reads a million. It judges
// nothing: of a value that the library would refuse or replace, a [Writer] only says that it is odd, and its owner has
// the library write the whole instead; a [Reader] does likewise.
package members
