// Package ack sends a message to a stream and waits for the server's word that it is stored. Start with [Publish]. Over
// a connection made [With] it costs half of what the library's own publish does: one inbox for all, one timer for all,
// and answers that are read without reflection.
package ack
