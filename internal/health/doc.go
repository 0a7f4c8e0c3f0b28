// Package health looks at a deployment from inside: its streams, executors and record, as whoever may ask JetStream
// sees them. Dispatchers do so for operators; [Look] changes nothing.
package health
