// Package programtest tests programs that are tools, as package program makes them: it runs calls
// in-process or against the built program, checks every answer against the process protocol, and
// holds a tool to its own tool.yaml, schemas, examples and golden cases (see Suite).
package programtest
