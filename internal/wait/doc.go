// Package wait waits: [For] a time to pass, unless what it is for ends first, and, with [Retry], until something has
// been done. No wait outlasts its context. A [Heap] orders entries by the time at which they are due; a [Queue]
// is one for concurrent use.
package wait
