// Package auth says who speaks: what a token says of its holder, and whether it is to be believed.
//
// A token is a JWT, signed with an Ed25519 key of the deployment. [Checker.Check] is the one place where a credential
// becomes an identity, for new connections, for each request on the bus, and for every door: it verifies the signature
// against the keys that are good now ([Keyring]), the times, and that neither the token nor one that it was made from
// was revoked ([Revocations]). A [Signer] mints tokens; [Principal.Narrow] makes less of one. The package does no I/O
// and knows no server. Start reading at principal.go.
package auth
