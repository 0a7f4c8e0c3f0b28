package app

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/seed-018f16cc/toolbus/internal/rpc"
	"github.com/seed-018f16cc/toolbus/internal/timer"
	"github.com/seed-018f16cc/toolbus/internal/tool"
)

// toolPeers tells other dispatchers which tools this one has loaded, and knows who has loaded others. It is safe for
// concurrent use.
type toolPeers struct {
	own     rpc.ToolNotice
	publish func(rpc.ToolNotice)
	log     *slog.Logger

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
	return &toolPeers{
		own:     rpc.ToolNotice{Instance: instance, Digest: digestOf(tools)},
		publish: publish, log: log, other: map[string]peer{},
	}
}

// digestOf returns a digest of all builds of a set of tools. It is the same for the same builds.
func digestOf(tools *tool.Set) string {
	var all []string
	for _, m := range tools.List() {
		all = append(all, fmt.Sprintf("%q %s %s\n", m.ToolID, m.Semver, m.Digest))
	}
	slices.Sort(all)
	sum := sha256.New()
	for _, line := range all {
		sum.Write([]byte(line))
	}
	return hex.EncodeToString(sum.Sum(nil))
}

// run tells the others until ctx ends, and asks them at first.
func (p *toolPeers) run(ctx context.Context) {
	first := p.own
	first.Ask = true
	for p.publish(first); timer.Sleep(ctx, tellTools); {
		p.publish(p.own)
	}
}

// hear takes the notice of a dispatcher.
func (p *toolPeers) hear(n rpc.ToolNotice) {
	if n.Instance == p.own.Instance {
		return
	}
	if n.Ask {
		p.publish(p.own)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	before, known := p.other[n.Instance]
	switch {
	case n.Digest == p.own.Digest:
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
