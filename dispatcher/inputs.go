package dispatcher

import (
	"context"
	"sync/atomic"
	"time"

	"golang.org/x/sync/semaphore"

	"github.com/seed-018f16cc/toolbus/envelope"
)

// Large inputs are read whole, to be checked, and a request of a few hundred bytes may refer to 64 MiB.
const (
	maxInputs     = 128 << 20 // bytes of large inputs that one dispatcher holds at once; others wait for their turn
	maxInputsHeld = 256       // requests with a large input that it works on at once, so that others find a handler
)

// inputs bounds the large inputs that a dispatcher holds.
type inputs struct {
	requests atomic.Int64
	bytes    *semaphore.Weighted
}

func newInputs() *inputs { return &inputs{bytes: semaphore.NewWeighted(maxInputs)} }

// reserve waits for room for an input, which free gives back. It reports false when there is none in time.
func (i *inputs) reserve(ctx context.Context, size int64) (free func(), ok bool) {
	if i.requests.Add(1) > maxInputsHeld || i.bytes.Acquire(ctx, size) != nil {
		i.requests.Add(-1)
		return nil, false
	}
	return func() {
		i.bytes.Release(size)
		i.requests.Add(-1)
	}, true
}

func noRoomForInput() *envelope.Error {
	return envelope.NewError(envelope.CodeCapacity, "too many large inputs are being checked").WithRetryAfter(time.Second)
}
