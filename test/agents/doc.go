// Package agents tests the bus with clients and servers of MCP that were written elsewhere: the official SDKs, the
// Inspector, two agent frameworks, the reference servers, and a server of 300 tools. Each client works once against the
// server itself and once through the bus, and the package compares what the client receives.
//
// With -frameworks it runs agents of eight frameworks, which a stand-in for the API of a model gives a plan. Start
// reading at frameworks/conduct.py.
package agents
