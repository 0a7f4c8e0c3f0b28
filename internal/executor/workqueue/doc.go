// Package workqueue pulls admitted calls from a pool's consumers into free slots.
//
// A [Puller] pulls from all partitions and priorities of one pool, as many messages as it has free slots. For each
// message it returns the number of earlier deliveries, if that is certain. A delivery does not prove which executor
// runs a call; the call log does. Start reading at work.go. slots.go assigns slots, delivery.go holds prefetched
// messages and detects repeated ones, and consumerage.go decides when the delivery count of the server can be trusted.
package workqueue
