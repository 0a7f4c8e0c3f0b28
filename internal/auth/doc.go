// Package auth verifies tokens, authenticates messages, and lists the NATS permissions of each role.
//
// A token is a JWT, signed with an Ed25519 key of the deployment. [Verifier.Verify] is the one place where a credential
// becomes an identity, for new connections, for each request on the bus and for the gateways: it verifies the signature
// against the keys that are valid now ([Keyring]), the times, and that neither the token nor one that it was made from
// was revoked ([Revocations]). A [Signer] signs tokens; [Principal.Narrow] makes a token of fewer rights.
//
// [AuthenticateCall] and [AuthenticateRequest] compare the token of a message with the subject that the message came on
// and with the connection that it came over. The package does no I/O: what the server says of the connection comes with
// the message. Start reading at principal.go.
package auth
