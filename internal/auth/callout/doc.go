// Package callout answers NATS auth callouts, and disconnects revoked users.
//
// [Serve] verifies the token of each new connection and returns its user and permissions to the server. A
// [RevocationWatcher] closes the connections whose token was revoked, through a [Disconnector]. [Connections] bounds
// the connections of each credential, and refuses those that flood a server. Start reading at callout.go.
package callout
