// Package languages serves the tools that `toolbus tools new` writes, one in each language, on a bus, and runs the
// tests that they bring. It needs Python 3, Node.js and jq.
package languages
