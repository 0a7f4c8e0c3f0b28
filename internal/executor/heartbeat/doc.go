// Package heartbeat keeps executors' heartbeats in bucket "pools", and says since when a pool has none.
//
// [Store] writes and reads heartbeats. One that is not renewed expires after the lease. [AbsenceMonitor] follows the
// bucket and says since when no executor of a pool is there; while a server cannot be asked, it says of nobody that
// they are gone. Start reading at pools.go and absence.go.
package heartbeat
