// Package programtest tests tools that are made with package program: it runs calls in-process or with the built
// program, checks each answer against the process protocol, and compares a tool with its tool.yaml, schemas, examples
// and golden cases (see [Suite]).
package programtest
