package call

import "context"

// credentialKey is the key of a [Credential] in a context.
type credentialKey struct{}

// With returns ctx for a question with that credential.
func With(ctx context.Context, c Credential) context.Context {
	return context.WithValue(ctx, credentialKey{}, c)
}

// By returns the credential of the question that ctx is for.
func By(ctx context.Context) Credential {
	c, _ := ctx.Value(credentialKey{}).(Credential)
	return c
}
