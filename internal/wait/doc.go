// Package wait waits: [For] a time to pass, unless what it is for ends first, and, with [Retry], until something has
// been done. No wait outlasts its context. A [Heap] holds what is due at some time, a [Queue] likewise for concurrent use.
package wait
