// Package crew keeps goroutines ready for many short jobs of one kind.
package crew
