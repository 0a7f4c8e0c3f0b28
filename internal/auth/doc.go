// Package auth verifies tokens, authenticates messages, and lists the NATS permissions of each role.
//
// A token is a JWT that is signed with an Ed25519 key of the deployment. [Verifier.Verify] verifies every token: of new
// connections, of requests on the bus and of HTTP requests to gateways. It checks the signature against the valid keys
// ([Keyring]), the times, and that neither the token nor one that it was made from is revoked ([Revocations]). A
// [Signer] signs tokens. [Principal.Narrow] returns a principal with fewer rights.
//
// [AuthenticateCall] and [AuthenticateRequest] compare the token of a message with its subject, and with the connection
// that sent it. The package does no I/O: the NATS server puts its description of the connection into a header of the
// message. Start reading at principal.go.
package auth
