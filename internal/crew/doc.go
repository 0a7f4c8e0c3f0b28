// Package crew keeps goroutines ready for many short jobs of one kind. A [Crew] starts a job at once, in a goroutine
// that is used again afterwards; it bounds nothing, which is its caller's part. Ended, it has no goroutine left.
package crew
