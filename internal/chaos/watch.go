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

// watch looks all the time who leads the streams without which no call is admitted or decided. It asks
// every server on a connection of its own: one that is frozen keeps nobody from asking the others.
type watch struct {
	conns   []*nats.Conn
	asked   []jetstream.JetStream
	streams []string

	mu   sync.Mutex
	led  []checker.Span
	skew time.Duration                     // of the clock of any server, at the most
	from time.Time                         // when the last look began
	seen map[string]*jetstream.ClusterInfo // by it and stream; one that nobody leads is missing
}

// How often it is looked, and how long a leader may take to answer.
const (
	lookEvery = 200 * time.Millisecond
	lookTime  = time.Second
)

// newWatch connects to every server. Close it.
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

// run looks until ctx ends.
func (w *watch) run(ctx context.Context) {
	for before := false; timer.Sleep(ctx, lookEvery); {
		from, seen := time.Now(), w.lookAll(ctx)
		w.note(seen, from, time.Now(), before)
		before = len(seen) == len(w.streams)
	}
}

// lookAll returns who leads and follows, by stream.
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

// look returns who leads the stream and who follows, or nil if no server knows.
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
			if info == nil { // a server of its own
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

// compare notes how far the clock of a server is off, which has said that it was at between two moments.
func (w *watch) compare(asked, at, answered time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.skew = max(w.skew, asked.Sub(at), at.Sub(answered))
}

// inTheWeather is how long an event may take to the log when there is no storm, on a machine that is busy.
const inTheWeather = 300 * time.Millisecond

// apart is how long after a request was admitted its time may be in the log.
func (w *watch) apart() time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.skew + inTheWeather
}

// note adds to the time during which everything was led, or begins anew.
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

// spans returns when everything was led.
func (w *watch) spans() []checker.Span {
	w.mu.Lock()
	defer w.mu.Unlock()
	return append([]checker.Span(nil), w.led...)
}

// leader returns the server that leads a stream; "" is nobody.
func (w *watch) leader(stream string) string {
	w.mu.Lock()
	defer w.mu.Unlock()
	if info := w.seen[stream]; info != nil {
		return info.Leader
	}
	return ""
}

// whole says whether every stream had a leader, and that many servers which have all of it, in a look that
// began after since.
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
