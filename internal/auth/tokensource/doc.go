// Package tokensource reads the token of one process from a file, and renews it.
//
// [Source] presents the token to the NATS server and to dispatchers, and renews it before it expires. It writes the new
// token to the file, so that the next process can renew it as well. [ConnectBackoff] delays reconnects after refusals.
// Start reading at source.go and backoff.go.
package tokensource
