// Package heartbeat writes and reads the heartbeats of executors in the bucket "pools", and reports since when a pool
// has no live executor.
//
// A [Store] writes and reads heartbeats. A heartbeat that is not renewed expires after the lease. An [AbsenceMonitor]
// follows the bucket, and reports since when a pool has no executor with a heartbeat. While the server does not answer,
// it reports no pool as absent. Start reading at pools.go and absence.go.
package heartbeat
