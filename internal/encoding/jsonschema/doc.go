// Package jsonschema compiles and validates JSON Schemas, and derives them from Go types ([FromType]).
//
// [Compile] reads a schema (2020-12, or the older draft that its $schema names; formats are asserted) and the documents
// to which it refers. It never uses the network. [Schema.Validate] returns a [Violation] with a JSON pointer for each
// broken rule, and stops after 100. It never includes a value, which may be a secret. [MaxSteps] limits the time of a
// validation, and its memory depends on neither, so that no schema of a tool and no input of a caller can block a
// process. [Schema.Coerce] replaces strings that spell
// the value which a schema wants.
//
// Start reading at schema.go. accept.go is a fast path that either accepts an input or leaves it to the full validation
// in checker.go and combine.go. A library compiles the schemas, and plan.go prepares its result.
package jsonschema
