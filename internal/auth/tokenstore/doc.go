// Package tokenstore keeps what a deployment knows of tokens, and is its porter. A [Store] holds the keys that tokens
// are signed with, and what was revoked, in a bucket that all dispatchers follow: what one of them revokes, none
// believes any more a moment later. The [Callout] tells the server who a new connection is and what that may do; an
// [Evictor] closes connections whose token was revoked, and [Connections] bounds those of each credential. Start
// reading at store.go.
package tokenstore
