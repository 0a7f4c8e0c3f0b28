package app

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/seed-018f16cc/toolbus/internal/rpc"
	"github.com/seed-018f16cc/toolbus/internal/timer"
	"github.com/seed-018f16cc/toolbus/internal/tool"
)

// toolPeers tells other dispatchers which tools this one has loaded, and knows who has loaded others. It is safe for
// concurrent use.
type toolPeers struct {
	instance string
	tools    *tool.Set
	publish  func(rpc.ToolNotice)
	log      *slog.Logger

	mu    sync.Mutex
	other map[string]peer // dispatchers with other tools, by instance
}

// peer is another dispatcher, with the digest of its tools and the time at which it told that.
type peer struct {
	digest string
	heard  time.Time
}

// Times of the notices.
const (
	tellTools  = 5 * time.Second
	peerSilent = 3 * tellTools // then another dispatcher is gone
	maxPeers   = 1000          // a process in the account of dispatchers can forge notices
)

func newToolPeers(instance string, tools *tool.Set, publish func(rpc.ToolNotice), log *slog.Logger) *toolPeers {
	return &toolPeers{instance: instance, tools: tools, publish: publish, log: log, other: map[string]peer{}}
}

// notice returns what this dispatcher tells the others.
func (p *toolPeers) notice() rpc.ToolNotice {
	return rpc.ToolNotice{Instance: p.instance, Digest: p.tools.Digest()}
}

// run tells the others until ctx ends, and asks them at first.
func (p *toolPeers) run(ctx context.Context) {
	first := p.notice()
	first.Ask = true
	for p.publish(first); timer.Sleep(ctx, tellTools); {
		p.publish(p.notice())
	}
}

// hear takes the notice of a dispatcher.
func (p *toolPeers) hear(n rpc.ToolNotice) {
	if n.Instance == p.instance {
		return
	}
	own := p.notice()
	if n.Ask {
		p.publish(own)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	before, known := p.other[n.Instance]
	switch {
	case n.Digest == own.Digest:
		delete(p.other, n.Instance)
	case known || len(p.other) < maxPeers:
		if p.other[n.Instance] = (peer{n.Digest, time.Now()}); before.digest != n.Digest {
			p.log.Warn("another dispatcher has loaded other tools: calls of these end now one way and now the other; "+
				"`toolbus doctor` names them", "other", n.Instance)
		}
	}
}

// differ reports whether another dispatcher that lives has loaded other tools.
func (p *toolPeers) differ() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	for instance, other := range p.other {
		if time.Since(other.heard) > peerSilent {
			delete(p.other, instance)
		}
	}
	return len(p.other) > 0
}
