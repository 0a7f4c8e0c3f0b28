// Package flow implements flow control: it shares workers, memory and rates fairly among the senders of messages.
//
// A [Queue] holds messages, with limits for each actor, each tenant and all senders. Tenants take turns, and within a
// tenant its actors, each for about the same number of bytes. A [Lane] is a Queue with the goroutines that serve it. A
// [WorkerPool] reuses goroutines for many short jobs of one kind: at most 64 of them are idle, and none is left after
// [WorkerPool.Wait].
//
// A [MemoryBudget] limits the bytes of large payloads that a process holds at once. [Counters] count the open calls of
// each actor, family of actors and tenant, and a [Standing] ranks a call by them. A [Bucket] limits a rate, and a
// [Throughput] estimates one. A [SeenSet] and a [TTLMap] are bounded caches. A [Dropped] counts and logs dropped
// messages.
//
// The package imports nothing of this module. Start reading at queue.go.
package flow
