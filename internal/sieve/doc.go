// Package sieve takes messages out of what a NATS server sends, before the client library reads them: it makes objects
// of the headers of each, one after the other, and has a line where the messages of all senders wait.
package sieve
