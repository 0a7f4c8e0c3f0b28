// Package runstore keeps the records of runs in the bucket "runs". A record is changed by compare-and-set, and read
// from the leader of the bucket. A [Store] keeps what it has read for 900 ms. So a dispatcher needs no round trip for
// most calls, and decides no call by a run as it was more than 1 s ago. Start reading at store.go.
package runstore
