// Package members writes and reads the JSON objects that every call needs. A [Table] is made of the fields of a
// struct and their json tags, so that its members stand once. It writes, byte for byte, what the JSON library writes,
// and reads that form and no other. Everything else it leaves to its caller, which uses the library instead.
package members
