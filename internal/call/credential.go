package call

import "context"

// credentialKey is the key of a [Credential] in a context.
type credentialKey struct{}

// NewContext returns ctx for a question with that credential.
func NewContext(ctx context.Context, c Credential) context.Context {
	return context.WithValue(ctx, credentialKey{}, c)
}

// CredentialFromContext returns the credential of the question that ctx is for.
func CredentialFromContext(ctx context.Context) Credential {
	c, _ := ctx.Value(credentialKey{}).(Credential)
	return c
}
