// Package programtest tests tools that are made with package program. It runs calls in-process or with the built
// program, and checks each answer against the process protocol. A [Suite] compares a tool with its tool.yaml, schemas,
// examples and golden cases.
package programtest
