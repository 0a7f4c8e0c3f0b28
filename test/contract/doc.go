// Package contract compares docs/tool_contract.md with a copy of its source in testdata, clause by clause, and the
// tests that it names with those that exist.
package contract
