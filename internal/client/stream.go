package client

import (
	"context"
	"iter"

	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/client/exchange"
)

// StreamItem is an element of a streamed call: a chunk, or at the end the outcome.
type StreamItem struct {
	Chunk    *envelope.Chunk
	Response *envelope.Response
}

// Stream makes a call and yields its chunks as they come, then its outcome. Ending the loop
// early leaves the call running; cancel it if it is not wanted any more.
func (c *Client) Stream(ctx context.Context, call Call) iter.Seq2[StreamItem, error] {
	return func(yield func(StreamItem, error) bool) {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		parts := make(chan StreamItem)
		call.OnChunk = func(chunk envelope.Chunk) error {
			select {
			case parts <- StreamItem{Chunk: &chunk}:
				return nil
			case <-ctx.Done():
				return exchange.ErrStopped
			}
		}
		type end struct {
			resp *envelope.Response
			err  error
			is   any // what the call panicked with
		}
		done := make(chan end, 1)
		go func() { // waited for below
			var e end
			defer func() { e.is = recover(); done <- e }()
			e.resp, e.err = c.Call(ctx, call)
		}()
		for {
			select {
			case p := <-parts:
				if !yield(p, nil) {
					cancel()
					<-done
					return
				}
			case e := <-done:
				if e.is != nil {
					panic(e.is)
				}
				yield(StreamItem{Response: e.resp}, e.err)
				return
			}
		}
	}
}
