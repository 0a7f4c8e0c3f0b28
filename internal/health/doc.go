// Package health checks a deployment through JetStream: its streams, executors and audit record. Dispatchers make these
// checks for operators, and `toolbus doctor` makes them itself if its connection may use JetStream. [Look] changes
// nothing.
package health
