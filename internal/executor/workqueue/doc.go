// Package workqueue hands admitted calls to executors: [Puller] pull from all partitions and priorities of a pool, as
// many messages as there are free slots, and say of each how often it was handed out before, as far as that is
// certain. Nothing here proves who runs a call; the call log does. Start reading at work.go: share.go gives out slots,
// hand.go holds what has none, and incarnation.go says how far the server's counts can be believed.
package workqueue
