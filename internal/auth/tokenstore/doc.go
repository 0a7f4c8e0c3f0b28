// Package tokenstore keeps signing keys, issued and revoked tokens in bucket "control"; it issues, narrows, revokes and
// rotates.
//
// All dispatchers follow the bucket: a token that one of them revokes, none of them accepts a moment later. A [Store]
// that cannot prove that it has read the newest entries accepts no token. [Service] answers the requests for tokens of
// the service "toolbus". Start reading at store.go.
package tokenstore
