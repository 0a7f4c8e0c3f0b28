// Package tokensource reads the token of a process from a file, and renews it.
//
// A [Source] sends the token to the NATS server and to dispatchers, and renews it before it expires. It writes the new
// token to the file, from which the next process reads it. A [ConnectBackoff] delays reconnects after refusals. Start
// reading at source.go and backoff.go.
package tokensource
