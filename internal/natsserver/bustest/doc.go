// Package bustest is a bus for tests of what is built on it: an embedded server with the topology, and calls that are
// written into the log by hand.
package bustest
