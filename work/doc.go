// Package work hands admitted calls to executors: [Workers] pull from all partitions and priorities of a pool, as many
// messages as there are free slots, and say of each how often it was handed out before, as far as that is certain.
// Nothing here proves who runs a call; the call log does.
package work
