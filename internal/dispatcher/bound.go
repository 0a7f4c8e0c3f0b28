package dispatcher

import (
	"context"
	"fmt"
	"strings"

	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/auth"
	"github.com/seed-018f16cc/toolbus/internal/call"
)

// covers reports whether the holder of a token may learn of an attempt, see [auth.Principal.Covers]. It returns true if
// p is nil, which means that the deployment has no tokens.
func covers(p *auth.Principal, a call.Attempt) bool {
	if p == nil {
		return true
	}
	scopes, known := a.Owner.Needs()
	return p.Covers(a.Owner.Role, a.Owner.Run, a.Owner.Lane, scopes, known)
}

// covered is [covers] for the sender of the service request that ctx belongs to.
func covered(ctx context.Context, a call.Attempt) bool { return covers(auth.FromContext(ctx), a) }

// misdirected reports whether a message names a reply subject that the permissions of its bound token do not let it
// subscribe to.
func (d *Dispatcher) misdirected(p *auth.Principal, reply string) bool {
	return p.Bound() && !d.OlderBuilds && !strings.HasPrefix(reply, p.Answers())
}

func elsewhere(p *auth.Principal) *envelope.Error {
	return envelope.NewError(envelope.CodeIdentity,
		"a token that is bound to a run, a lane or scopes is answered below "+p.Answers()).
		WithFix("name a reply subject that begins so; clients of earlier builds need dispatchers with --older-builds")
}

// outside refuses a request whose answer would be about an attempt that its bound token does not cover. That can happen
// because all calls of an actor, also in other runs, share the scope of a key.
func outside(p *auth.Principal, s call.State, v call.AdmitResult) *envelope.Error {
	if v.Do != call.Join && v.Do != call.Await && v.Do != call.Replay {
		return nil
	}
	a, ok := s.Attempt(v.Attempt)
	if !ok || covers(p, a) {
		return nil
	}
	return envelope.NewError(envelope.CodeScope, fmt.Sprintf(
		"the token does not cover the call that attempt %d of this key is of: its role, run, lane or scopes are others",
		a.N)).
		WithFix("use a key of your own, or a token that covers that call")
}
