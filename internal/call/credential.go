package call

import "context"

// credentialKey is the key of a [Credential] in a context.
type credentialKey struct{}

// NewContext returns a context for a service request with the credential c.
func NewContext(ctx context.Context, c Credential) context.Context {
	return context.WithValue(ctx, credentialKey{}, c)
}

// CredentialFromContext returns the credential of the service request that ctx belongs to, or the zero value.
func CredentialFromContext(ctx context.Context) Credential {
	c, _ := ctx.Value(credentialKey{}).(Credential)
	return c
}
