// Package flow is flow control: it shares workers, memory and rates fairly between the senders of messages.
//
// A [Queue] holds messages within bounds for each actor, each tenant and all senders. Tenants take turns, and within a
// tenant its actors, each for about the same number of bytes. A [Lane] is a queue with the goroutines that serve it. A
// [WorkerPool] keeps goroutines for many short jobs of one kind: at most 64 of them are idle, and none is left after
// [WorkerPool.Wait].
//
// A [MemoryBudget] bounds the bytes of large payloads that a process holds at once. [Counters] count the open calls of
// each actor and tenant. A [Bucket] limits a rate, and [Throughput] estimates one. A [SeenSet] and a [TTLMap] remember
// names within bounds.
//
// The package imports nothing of this module. Start reading at queue.go.
package flow
