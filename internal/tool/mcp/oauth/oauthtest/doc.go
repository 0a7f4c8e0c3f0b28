// Package oauthtest is an authorization server for tests. It rotates refresh tokens, and revokes the grant if one is
// used twice. Start reading at oauthtest.go.
package oauthtest
