package mcp

import (
	"encoding/json"
	"sync"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/seed-018f16cc/toolbus/envelope"
)

// A call may send progressBurst notifications at once, and then one every progressPause. Others are dropped.
const (
	progressBurst = 10
	progressPause = 100 * time.Millisecond
)

// progress sends progress notifications of a call. If the client does not read, notifications are dropped, and the call
// is not delayed.
type progress struct {
	notify func(*sdk.ProgressNotificationParams)
	next   chan *sdk.ProgressNotificationParams // notifications to be sent
	done   sync.WaitGroup

	// The fields below belong to the goroutine that calls chunk.
	last    float64
	counted bool // the tool has reported numbers
	left    int  // notifications that may be sent at once
	since   time.Time
}

func newProgress(notify func(*sdk.ProgressNotificationParams)) *progress {
	p := &progress{
		notify: notify, next: make(chan *sdk.ProgressNotificationParams, progressBurst),
		last: -1, left: progressBurst, since: time.Now(),
	}
	p.done.Go(func() {
		for n := range p.next {
			p.notify(n)
		}
	})
	return p
}

// stop waits until all notifications are sent, so that none follows the answer.
func (p *progress) stop() {
	close(p.next)
	p.done.Wait()
}

// far is the progress that a tool reports. Tools use different members for it.
type far struct {
	Progress *float64 `json:"progress"`
	Done     *float64 `json:"done"`
	Total    float64  `json:"total"`
	Message  string   `json:"message"`
	Unit     string   `json:"unit"`
}

// chunk handles a chunk of the call. The reported progress only grows, even if the tool runs again.
func (p *progress) chunk(c envelope.Chunk) error {
	n := p.of(c)
	if n == nil || n.Progress <= p.last || !p.may() {
		return nil
	}
	select {
	case p.next <- n:
		p.last = n.Progress
		p.left--
	default: // the client has not read the earlier ones
	}
	return nil
}

// may reports whether the next notification may be sent now.
func (p *progress) may() bool {
	if earned := int(time.Since(p.since) / progressPause); earned > 0 {
		p.left = min(p.left+earned, progressBurst)
		p.since = p.since.Add(time.Duration(earned) * progressPause)
	}
	return p.left > 0
}

// of returns the notification for a chunk, or nil if it has none.
func (p *progress) of(c envelope.Chunk) *sdk.ProgressNotificationParams {
	var state far
	var text string
	if json.Unmarshal(c.Data, &text) != nil && json.Unmarshal(c.Data, &state) != nil {
		state = far{}
	}
	at := state.Progress
	if at == nil {
		at = state.Done
	}
	switch {
	case c.Kind == envelope.ChunkProgress && at != nil:
		p.counted = true
		message := state.Message
		if message == "" {
			message = state.Unit
		}
		return &sdk.ProgressNotificationParams{Progress: *at, Total: max(0, state.Total), Message: message}
	case p.counted:
		return nil // the tool reports numbers, which are better
	case c.Kind == envelope.ChunkData:
		text = "" // part of the output
	}
	return &sdk.ProgressNotificationParams{Progress: max(0, p.last) + 1, Message: text}
}
