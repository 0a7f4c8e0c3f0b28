// Package mcpclient calls tools over MCP like an agent that needs one outcome: it retries with the same key, at each of
// several gateways in turn, until it gets an answer.
package mcpclient
