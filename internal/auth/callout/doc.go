// Package callout answers NATS auth callouts, and disconnects revoked users.
//
// [Serve] tells a server who a new connection is, by its token, and what that may do. A [RevocationWatcher] closes the
// connections whose token was revoked, through a [Disconnector]. [Connections] bounds the connections of each
// credential, and shuts out those that flood a server. Start reading at callout.go.
package callout
