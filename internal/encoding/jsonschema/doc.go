// Package jsonschema compiles and validates JSON Schemas, and derives them from Go types ([FromType]).
//
// [Compile] reads a schema (2020-12, or the older draft that its $schema names; formats asserted) and the documents
// that it refers to, and never fetches one from a network. [Schema.Validate] says all that is wrong with a text at
// once, each [Violation] with a JSON pointer, and never repeats a value, which may be a secret. What a validation may
// cost is bounded by [MaxSteps], so that no schema of a tool and no input of a caller can hold up a process. Start
// reading at schema.go; accept.go is the fast path, which accepts an input or says nothing.
package jsonschema
