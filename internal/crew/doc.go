// Package crew keeps goroutines ready for many short jobs of one kind. A [Crew] starts a job at once, in a goroutine
// that is used again afterwards. [New] sets no limit; [Bounded] limits the jobs that run at once. At most 64 idle
// goroutines are kept. After [Crew.End] none is left.
package crew
