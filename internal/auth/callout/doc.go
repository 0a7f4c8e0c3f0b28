// Package callout answers the auth callouts of NATS servers, and closes connections with revoked tokens or with
// tokens of distrusted keys.
//
// [Serve] verifies the token of each new connection, and returns its user and permissions to the server. A
// [RevocationWatcher] closes such connections through a [Disconnector]. [Connections] limits the
// connections of each credential, and refuses credentials that flood a server. [Peers] closes the connections of
// dispatchers that hang. Start reading at callout.go.
package callout
