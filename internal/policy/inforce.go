package policy

import "errors"

// Errors of a store of policies, instead of the policy in force.
var (
	ErrNone  = errors.New("the bus has no policy")
	ErrStale = errors.New("whether the policy is still in force was not confirmed within the last second")
	// ErrUnusable means that the set in force is damaged, or does not fit the tools of the process. It is wrapped.
	ErrUnusable = errors.New("the policy in force cannot be used")
)
