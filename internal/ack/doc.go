// Package ack sends a message to a stream and waits for the server's word that it is stored. Start with [Publish]. Over
// a connection made [With] it allocates a third of what the library's own publish does: one inbox and one timer for
// all, and answers that are read without reflection.
package ack
