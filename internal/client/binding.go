package client

import (
	"sync/atomic"

	"github.com/seed-018f16cc/toolbus/internal/auth"
)

// binding caches the run and the lane of the client's token. Decoding a token takes longer than the rest of building a
// request, so it is decoded once. The zero value is empty. It is safe for concurrent use.
type binding struct{ last atomic.Pointer[bound] }

// bound is the run and the lane that one token is bound to; "" is any.
type bound struct{ token, run, lane string }

// of returns the binding of a token; the zero value for one that cannot be decoded, which dispatchers refuse.
func (b *binding) of(token string) *bound {
	if last := b.last.Load(); last != nil && last.token == token {
		return last
	}
	says, _ := auth.Inspect(token) // the zero value if it cannot be decoded
	next := &bound{token, says.Run, says.Lane}
	b.last.Store(next)
	return next
}

// Bound returns the run and the lane that the client's token is bound to; "" is any. Calls of the client get them as
// context.run_id and context.lane_id unless [Call.Context] sets others, which dispatchers refuse with A-AUTH-SCOPE.
func (c *Client) Bound() (run, lane string) {
	if c.Token == nil {
		return "", ""
	}
	b := c.binding.of(c.Token())
	return b.run, b.lane
}
