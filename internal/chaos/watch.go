package chaos

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-018f16cc/toolbus/internal/chaos/checker"
	"github.com/seed-018f16cc/toolbus/internal/timer"
	"github.com/seed-018f16cc/toolbus/subjects"
)

// watch observes the leaders of the streams that admission and decisions need. It has a connection to every server, so
// that a frozen server does not delay the answers of the others.
type watch struct {
	conns   []*nats.Conn
	asked   []jetstream.JetStream
	streams []string

	mu   sync.Mutex
	led  []checker.Span
	skew time.Duration                     // largest known skew of a server's clock
	from time.Time                         // start of the last observation
	seen map[string]*jetstream.ClusterInfo // its result by stream; without streams that have no leader
}

// Interval of observations, and timeout of one.
const (
	lookEvery = 200 * time.Millisecond
	lookTime  = time.Second
)

// newWatch connects to every server. The caller must call close.
func newWatch(c *cluster, partitions int) (*watch, error) {
	w := &watch{streams: []string{subjects.AuditStream}}
	if c.deployment != nil {
		w.streams = append(w.streams, subjects.ControlStream)
	}
	for p := range subjects.Partition(partitions) {
		w.streams = append(w.streams, p.Stream())
	}
	for _, s := range c.servers {
		nc, err := c.deployment.Administrator(s.url()).Dial("chaos-watch")
		if err != nil {
			return nil, errors.Join(err, w.close())
		}
		js, err := jetstream.New(nc)
		if w.conns = append(w.conns, nc); err != nil {
			return nil, errors.Join(err, w.close())
		}
		w.asked = append(w.asked, js)
	}
	return w, nil
}

func (w *watch) close() error {
	for _, nc := range w.conns {
		nc.Close()
	}
	return nil
}

// run observes until ctx ends.
func (w *watch) run(ctx context.Context) {
	for before := false; timer.Sleep(ctx, lookEvery); {
		from, seen := time.Now(), w.lookAll(ctx)
		w.note(seen, from, time.Now(), before)
		before = len(seen) == len(w.streams)
	}
}

// lookAll returns leader and replicas of all streams that have a leader.
func (w *watch) lookAll(ctx context.Context) map[string]*jetstream.ClusterInfo {
	var all sync.WaitGroup
	infos := make([]*jetstream.ClusterInfo, len(w.streams))
	for i, stream := range w.streams {
		all.Go(func() { infos[i] = w.look(ctx, stream) })
	}
	all.Wait()
	seen := map[string]*jetstream.ClusterInfo{}
	for i, stream := range w.streams {
		if infos[i] != nil {
			seen[stream] = infos[i]
		}
	}
	return seen
}

// look returns leader and replicas of a stream, or nil if no server reports a leader.
func (w *watch) look(ctx context.Context, stream string) *jetstream.ClusterInfo {
	ctx, cancel := context.WithTimeout(ctx, lookTime)
	defer cancel()
	answers := make(chan *jetstream.ClusterInfo, len(w.asked))
	for _, js := range w.asked {
		go func() { // ends with ctx
			asked := time.Now()
			s, err := js.Stream(ctx, stream)
			if err != nil {
				answers <- nil
				return
			}
			w.compare(asked, s.CachedInfo().TimeStamp, time.Now())
			info := s.CachedInfo().Cluster
			if info == nil { // a server without a cluster
				info = &jetstream.ClusterInfo{Leader: server}
			}
			answers <- info
		}()
	}
	for range w.asked {
		if info := <-answers; info != nil && info.Leader != "" {
			return info
		}
	}
	return nil
}

// compare records the skew of a server's clock that showed at between two local times.
func (w *watch) compare(asked, at, answered time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.skew = max(w.skew, asked.Sub(at), at.Sub(answered))
}

// inTheWeather is the longest time until an event is stored without a storm, on a busy machine.
const inTheWeather = 300 * time.Millisecond

// apart returns the longest time between the admission of a request and its timestamp in the log.
func (w *watch) apart() time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.skew + inTheWeather
}

// note extends the span in which all streams had leaders, or starts a new one.
func (w *watch) note(seen map[string]*jetstream.ClusterInfo, from, now time.Time, before bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.from, w.seen = from, seen
	switch {
	case len(seen) < len(w.streams):
	case before:
		w.led[len(w.led)-1].To = now
	default:
		w.led = append(w.led, checker.Span{From: now, To: now})
	}
}

// spans returns the spans in which all streams had leaders.
func (w *watch) spans() []checker.Span {
	w.mu.Lock()
	defer w.mu.Unlock()
	return append([]checker.Span(nil), w.led...)
}

// leader returns the leader of a stream, or "" if the stream has no leader.
func (w *watch) leader(stream string) string {
	w.mu.Lock()
	defer w.mu.Unlock()
	if info := w.seen[stream]; info != nil {
		return info.Leader
	}
	return ""
}

// whole reports whether an observation that started after since found a leader and all current replicas of every
// stream.
func (w *watch) whole(since time.Time, servers int) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.from.Before(since) {
		return false
	}
	for _, stream := range w.streams {
		info := w.seen[stream]
		if info == nil || len(info.Replicas) != servers-1 {
			return false
		}
		for _, r := range info.Replicas {
			if !r.Current || r.Offline {
				return false
			}
		}
	}
	return true
}
