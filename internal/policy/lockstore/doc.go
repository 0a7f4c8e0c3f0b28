// Package lockstore stores safety locks in the bucket "control", and serves the requests of operators about them. All
// locks are one entry of the bucket. It is changed by compare-and-set, and read from the leader of the bucket, so each
// read proves which locks are in force. Start reading at store.go.
package lockstore
