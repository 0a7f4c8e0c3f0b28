package app

import (
	"context"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-018f16cc/toolbus/bus"
	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/telemetry"
)

// tally counts what a dispatcher has answered about tokens, since its process started.
type tally struct{ renewed, notRenewed, refused atomic.Int64 }

// renewal counts the answer to a request for a new token.
func (t *tally) renewal(refusal *envelope.Error) {
	if refusal != nil {
		t.notRenewed.Add(1)
		return
	}
	t.renewed.Add(1)
}

// watchNumbers shows what the dispatcher knows of the deployment as metrics, until stop.
func (d *dispatcherParts) watchNumbers() (stop func(), err error) {
	if d.Meter == nil {
		return func() {}, nil
	}
	return d.Meter.Watch(func(ctx context.Context, say telemetry.Say) {
		d.sayQueues(say)
		d.sayLags(say)
		d.sayRules(say)
		d.sayTiers(say)
		say(telemetry.ClockOffset, "", d.Clock.Now().Sub(d.local()).Seconds())
		for tenant, n := range d.dispatcher.Deadlines.Open() {
			say(telemetry.CallsOpen, tenant, float64(n))
		}
		say(telemetry.TokensRenewed, "", float64(d.tally.renewed.Load()))
		say(telemetry.TokensNotRenewed, "", float64(d.tally.notRenewed.Load()))
		say(telemetry.ConnectionsRefused, "", float64(d.tally.refused.Load()))
		for _, s := range d.sizes.of(ctx, d.JS, d.Log.Partitions()) {
			say(telemetry.StreamSize, s.Config.Name, float64(s.State.Bytes))
			say(telemetry.StreamMessages, s.Config.Name, float64(s.State.Msgs))
			say(telemetry.ReplicasAway, s.Config.Name, float64(away(s.Cluster)))
			if s.Config.MaxBytes > 0 {
				say(telemetry.StreamLimit, s.Config.Name, float64(s.Config.MaxBytes))
			}
		}
	})
}

// away counts the replicas of a stream that are away or have not caught up. A stream of one server has none.
func away(of *jetstream.ClusterInfo) (n int) {
	if of == nil {
		return 0
	}
	for _, p := range of.Replicas {
		if !p.Current || p.Offline {
			n++
		}
	}
	return n
}

// sayQueues also tells of pools in which nothing waits.
func (d *dispatcherParts) sayQueues(say telemetry.Say) {
	depth, oldest := d.dispatcher.Deadlines.Waiting(), d.dispatcher.Deadlines.Oldest()
	for _, pool := range poolsOf(d.options.Tools) {
		depth[pool] += 0
	}
	for pool, n := range depth {
		age := time.Duration(0)
		if at, ok := oldest[pool]; ok {
			age = max(0, d.Clock.Now().Sub(at))
		}
		say(telemetry.QueueDepth, pool, float64(n))
		say(telemetry.QueueAge, pool, age.Seconds())
	}
}

func (d *dispatcherParts) sayLags(say telemetry.Say) {
	var follower, record time.Duration
	now := time.Now()
	for _, r := range d.readers {
		follower = max(follower, r.follower.Behind(now))
		record = max(record, r.projector.Lag(r.follower.Served(now)))
	}
	say(telemetry.FollowerLag, "", follower.Seconds())
	say(telemetry.RecordLag, "", record.Seconds())
}

// sayRules tells of the policy and the locks, unless the dispatcher does not know at present which are in force.
func (d *dispatcherParts) sayRules(say telemetry.Say) {
	if revision, ok := d.policy.Revision(); ok {
		say(telemetry.PolicyRevision, "", float64(revision))
	}
	if locks, _, err := d.locks.Board.Known(); err == nil {
		say(telemetry.LocksActive, "", float64(len(locks)))
	}
}

// sayTiers tells the tiers of tools that declare one, so that rules can ask for the tools of a tier.
func (d *dispatcherParts) sayTiers(say telemetry.Say) {
	for _, m := range d.options.Tools.List() {
		if tier, err := strconv.Atoi(strings.TrimPrefix(m.Tier, "T")); err == nil {
			say(telemetry.ToolTier, m.ToolID, float64(tier))
		}
	}
}

// Limits of the questions about streams.
const (
	sizesEvery = 5 * time.Second // however often metrics are read
	sizesTime  = time.Second     // for all streams, so that a reader of metrics waits no longer
)

// streamSizes keeps what the server has said of the streams.
type streamSizes struct {
	mu    sync.Mutex
	asked time.Time
	last  []*jetstream.StreamInfo
}

// of returns what the servers say of the streams, at most sizesEvery old. It leaves out those that it does not hear of
// in time, and those without a leader, of which a server may tell what was.
func (s *streamSizes) of(ctx context.Context, js jetstream.JetStream, partitions int) []*jetstream.StreamInfo {
	s.mu.Lock()
	defer s.mu.Unlock()
	if time.Since(s.asked) < sizesEvery {
		return s.last
	}
	ctx, cancel := context.WithTimeout(ctx, sizesTime)
	defer cancel()
	s.last = nil
	for _, c := range bus.Streams(bus.TopologyOptions{Partitions: partitions}) {
		stream, err := js.Stream(ctx, c.Name)
		if err != nil {
			continue
		}
		if info := stream.CachedInfo(); info.Cluster == nil || info.Cluster.Leader != "" {
			s.last = append(s.last, info)
		}
	}
	s.asked = time.Now()
	return s.last
}
