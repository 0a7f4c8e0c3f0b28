// Package mcpclient calls tools over MCP, through any of several doors, as agents do that want one outcome: with a key
// of their own, again and again until there is an answer.
package mcpclient
