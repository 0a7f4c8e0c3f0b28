// Package wait waits: [For] a time to pass, unless what it is for ends first, and, with [Retry], until something has
// been done. No wait outlasts its context. A [Queue] says what is due, and how long nothing is.
package wait
