package mcp

import (
	"context"
	"maps"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/seed-018f16cc/toolbus/envelope"
)

// Watch checks the tools every Options.Every until ctx ends, and sends notifications/tools/list_changed to clients when
// they have changed, or the policy has, which decides what each client may list. While there are clients, it asks for
// the policy every 500 ms in between. If MCP servers have resources or prompts, it sends the notifications for these,
// too. It first calls Options.Connect if [New] got no client.
func (s *Server) Watch(ctx context.Context) {
	if !s.connect(ctx) {
		return
	}
	lists, policies := time.NewTicker(s.o.Every), time.NewTicker(policyEvery)
	defer lists.Stop()
	defer policies.Stop()
	for {
		looking, cancel := context.WithTimeout(ctx, s.o.Every)
		v, err := s.catalogue.refresh(looking, s.own.Load())
		cancel()
		if err == nil {
			watching{s}.compare(v, s.newest.Swap(v))
		}
		asks := policies.C
		if err != nil {
			asks = nil
		}
		if !(watching{s}).pause(ctx, lists.C, asks) {
			return
		}
	}
}

// watching is the part of a server that finds out about changes and tells its clients.
type watching struct{ *Server }

// compare notifies the clients of the difference between two lists. last is nil if nobody has listed before.
func (s watching) compare(v, last *view) {
	bare, behind := s.bare.Swap(false), s.behind.Swap(false)
	switch {
	case bare, behind, last != nil && (v.sum != last.sum || v.policies != last.policies):
		s.changed()
		s.listsChanged(v, last)
	case last != nil && !maps.Equal(v.announced, last.announced):
		s.listsChanged(v, last)
	}
}

// Times of questions for the policy in force. They are cheap, and a list of all tools is not: a dispatcher compares no
// tool with the policy, and describes none.
const (
	policyEvery = 500 * time.Millisecond
	policyTime  = 400 * time.Millisecond // longest wait for an answer
	noTool      = "?"                    // no tool has this id
)

// gave notes the view that a client has listed. Watch compares its first list with the first view of a client. If a
// later view is by another policy than the newest list, a dispatcher had not heard of a push yet, and Watch notifies
// the clients once more.
func (s watching) gave(v *view) {
	if !s.newest.CompareAndSwap(nil, v) && s.newest.Load().policies != v.policies {
		s.behind.Store(true)
	}
}

// pause waits for the time of the next list, or until another policy is in force than that of the newest. It returns
// false if ctx has ended. asks has the times of questions for the policy. After one that is refused it asks no more.
func (s watching) pause(ctx context.Context, list, asks <-chan time.Time) bool {
	for {
		select {
		case <-list:
			return true
		case <-ctx.Done():
			return false
		case <-asks:
		}
		if !s.hasClients() {
			continue
		}
		now, err := s.policies(ctx)
		switch {
		case err != nil && isSilent(err): // dispatchers may be busy, or away
		case err != nil:
			asks = nil
		case now != s.newest.Load().policies, s.behind.Load():
			return true
		}
	}
}

// hasClients reports whether a client is connected, or one over HTTP has a session, a request or a stream.
func (s watching) hasClients() bool {
	for range s.server.Sessions() {
		return true
	}
	return false
}

// policies returns the digests of the policy in force. A dispatcher says so with each description of tools, also of one
// that does not exist.
func (s watching) policies(ctx context.Context) (envelope.PolicyVersions, error) {
	ctx, cancel := context.WithTimeout(ctx, policyTime)
	defer cancel()
	d, err := s.own.Load().client.DescribeTools(ctx, envelope.DescribeRequest{Tool: noTool})
	return d.Policies, err
}

// changed makes the library notify all clients: it does so when a tool is added to its own list, which clients never
// see.
func (s *Server) changed() {
	s.server.AddTool(&sdk.Tool{Name: "changed", InputSchema: map[string]any{"type": "object"}}, nil)
}
