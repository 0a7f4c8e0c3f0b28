// Package tool says what a tool is: its manifest, what a run of it takes and gives, how it can
// fail, and what an adapter has to do to run it.
//
// A tool is a folder with a tool.yaml, named by the token codec of the tool's id. [Load] reads a
// folder of such folders into a [Set], or says everything that is wrong with all of them.
// Adapters, one for each transport, live in packages of their own (process, native, mcp) and pass the
// conformance suite of package tooltest. Whatever way a run fails, it ends in one of the error
// types of errors.go, and [Classify] gives each its place in the taxonomy.
package tool
