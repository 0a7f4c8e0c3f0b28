package mcp

import (
	"encoding/json"
	"sync"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/seed-018f16cc/toolbus/envelope"
)

// How many notifications of one call there are at once, and afterwards every so often: what comes sooner is left out.
const (
	progressBurst = 10
	progressPause = 100 * time.Millisecond
)

// progress tells a client how far a call is. A client that does not read holds up neither the call nor what follows it:
// what is not told soon is not told.
type progress struct {
	notify func(*sdk.ProgressNotificationParams)
	next   chan *sdk.ProgressNotificationParams // what is to be told
	done   sync.WaitGroup

	// Of whoever hands in chunks.
	last    float64
	counted bool // the tool has said numbers
	left    int  // notifications that may follow at once
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

// stop ends it: no notification follows the answer.
func (p *progress) stop() {
	close(p.next)
	p.done.Wait()
}

// far is how far a tool says that it is; tools have several words for it.
type far struct {
	Progress *float64 `json:"progress"`
	Done     *float64 `json:"done"`
	Total    float64  `json:"total"`
	Message  string   `json:"message"`
	Unit     string   `json:"unit"`
}

// chunk takes a chunk of the call. What is told only grows, also where the tool runs again.
func (p *progress) chunk(c envelope.Chunk) error {
	n := p.of(c)
	if n == nil || n.Progress <= p.last || !p.may() {
		return nil
	}
	select {
	case p.next <- n:
		p.last = n.Progress
		p.left--
	default: // the client has not read those before
	}
	return nil
}

// may reports whether the next notification may follow already.
func (p *progress) may() bool {
	if earned := int(time.Since(p.since) / progressPause); earned > 0 {
		p.left = min(p.left+earned, progressBurst)
		p.since = p.since.Add(time.Duration(earned) * progressPause)
	}
	return p.left > 0
}

// of is what a chunk says of how far the call is; nil for nothing.
func (p *progress) of(c envelope.Chunk) *sdk.ProgressNotificationParams {
	var says far
	var text string
	if json.Unmarshal(c.Data, &text) != nil && json.Unmarshal(c.Data, &says) != nil {
		says = far{}
	}
	at := says.Progress
	if at == nil {
		at = says.Done
	}
	switch {
	case c.Kind == envelope.ChunkProgress && at != nil:
		p.counted = true
		message := says.Message
		if message == "" {
			message = says.Unit
		}
		return &sdk.ProgressNotificationParams{Progress: *at, Total: max(0, says.Total), Message: message}
	case p.counted:
		return nil // numbers say more
	case c.Kind == envelope.ChunkData:
		text = "" // is part of the output
	}
	return &sdk.ProgressNotificationParams{Progress: max(0, p.last) + 1, Message: text}
}
