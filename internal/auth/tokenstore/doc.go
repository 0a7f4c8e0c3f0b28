// Package tokenstore stores the signing keys, and the issued and revoked credentials, in the bucket "control". It
// issues, renews, narrows and revokes tokens, and rotates keys.
//
// All dispatchers follow the bucket, so within 1 s all of them refuse a token that one of them revoked. A [Store]
// accepts no token unless it has proved within the last 900 ms that it has read the newest entry of the bucket. A
// [Service] answers the requests about tokens in the service "toolbus". Start reading at store.go.
package tokenstore
