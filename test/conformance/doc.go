// Command conformance serves the tools that the official conformance suite of MCP asks for, on a bus of its own, behind
// the door for MCP clients. `make mcp-conformance` runs the suite against it, in both protocols; what fails is in
// expected-*.yaml, with the reason. With -import it serves the tools of an MCP server instead, so that the suite can be
// run against that server directly and through the bus; -compare holds the results against each other.
package main
