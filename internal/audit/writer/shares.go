package writer

import (
	"context"
	"log/slog"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-018f16cc/toolbus/bus"
	"github.com/seed-018f16cc/toolbus/internal/timer"
	"github.com/seed-018f16cc/toolbus/subjects"
)

// tenantShare is the share of a tenant in a stream of the record, as its parts. It holds while the stream is more than
// half full.
const tenantShare = 4

// How full a stream is, in per cent, when counting begins, and from when on shares hold. The first count reads the
// headers of the whole stream, so it is done before it is needed.
const (
	countsFrom = 25
	sharesFrom = 50
	// surplusFrom is how full AUDIT is when a tenant above its share could make it drop records of others.
	surplusFrom = 85
)

// Shares counts what tenants keep in AUDIT, so that none of them fills it for all. It counts from the stream itself,
// also after a restart, once the stream is a quarter full. Its methods are safe for concurrent use. Run may be called
// once.
type Shares struct {
	js     jetstream.JetStream
	stream string
	log    *slog.Logger

	mu    sync.Mutex
	info  jetstream.StreamInfo // as it was measured last; zero before
	spare bool                 // there is a stream SURPLUS
	kept  map[string]int64     // bytes, by the token of the tenant
	spans []span               // of the messages that are counted, oldest first

	told map[string]bool // tenants over their share when tell was called last, which alone uses it
}

// span is a part of the stream that stops to count as a whole, when the stream has dropped its last message.
type span struct {
	last  uint64 // sequence
	bytes int64
	kept  map[string]int64
}

// maxSpans is the number of spans of a full stream.
const maxSpans = 256

// NewShares returns the shares of AUDIT. They report nothing until Run is called. It logs to log when it must count
// again.
func NewShares(js jetstream.JetStream, log *slog.Logger) *Shares {
	return &Shares{js: js, stream: subjects.AuditStream, log: log, kept: map[string]int64{}}
}

// Run counts until ctx ends.
func (s *Shares) Run(ctx context.Context) {
	var measuring sync.WaitGroup
	defer measuring.Wait()
	measuring.Go(func() {
		for ok := true; ok; ok = timer.Sleep(ctx, measureEvery) {
			s.measure(ctx)
			s.tell()
		}
	})
	for timer.Sleep(ctx, measureEvery) {
		if !s.fullTo(countsFrom) {
			continue
		}
		if err := s.count(ctx); ctx.Err() == nil {
			s.log.Warn("what each tenant keeps in the record is counted again", "stream", s.stream, "err", err)
		}
	}
}

// measureEvery is the interval at which the state of the stream is read.
const measureEvery = time.Second

// measure reads the state of the stream, and subtracts what the stream has dropped. If that fails, the last result
// stays.
func (s *Shares) measure(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	stream, err := s.js.Stream(ctx, s.stream)
	if err != nil {
		return
	}
	_, err = s.js.Stream(ctx, subjects.SurplusStream)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.info, s.spare = *stream.CachedInfo(), err == nil
	for len(s.spans) > 0 && s.spans[0].last < s.info.State.FirstSeq {
		for tenant, bytes := range s.spans[0].kept {
			if s.kept[tenant] -= bytes; s.kept[tenant] == 0 {
				delete(s.kept, tenant)
			}
		}
		s.spans = s.spans[1:]
	}
}

// tell logs which tenants are over their share now, and which are no longer. Nothing else tells an operator why calls
// of a tenant are refused.
func (s *Shares) tell() {
	s.mu.Lock()
	tenants := slices.Collect(maps.Keys(s.kept))
	s.mu.Unlock()
	over := map[string]bool{}
	for _, token := range tenants {
		tenant, _ := subjects.ParseToken(token)
		used, share := s.OverRecord(tenant)
		if over[tenant] = share > 0; over[tenant] && !s.told[tenant] {
			s.log.Warn("calls of the tenant are refused with R-CAP-AUDIT: the audit record is half full of records that may "+
				"not go, and the tenant keeps more than its share; raise --audit-bytes", "tenant", tenant, "bytes", used,
				"share", share)
		}
	}
	for tenant := range s.told {
		if !over[tenant] {
			s.log.Info("the tenant is within its share of the audit record: its calls are admitted", "tenant", tenant)
		}
	}
	maps.DeleteFunc(over, func(_ string, is bool) bool { return !is })
	s.told = over
}

// fullTo reports whether the stream was at least that full when it was measured last, in per cent.
func (s *Shares) fullTo(percent int64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	size := s.info.Config.MaxBytes
	return size > 0 && int64(s.info.State.Bytes)*100 >= size*percent
}

// count counts all messages, and then new ones, until ctx or an error ends it.
func (s *Shares) count(ctx context.Context) error {
	s.mu.Lock()
	clear(s.kept)
	s.spans = nil
	s.mu.Unlock()
	for m, err := range bus.Messages(ctx, s.js, s.stream, jetstream.OrderedConsumerConfig{HeadersOnly: true}, 0) {
		if err != nil {
			return err
		}
		size, _ := strconv.Atoi(m.Headers().Get(nats.MsgSize)) // the server leaves it out for an empty body
		s.add(m.Seq, m.Subject(), int64(size+len(m.Subject())+messageRoom))
	}
	return ctx.Err()
}

// messageRoom is about what a message takes in a stream besides its subject and body, for its headers and lengths.
const messageRoom = 150

// add counts a message. The last token of its subject names the tenant.
func (s *Shares) add(seq uint64, subject string, bytes int64) {
	tenant := subject[strings.LastIndexByte(subject, '.')+1:]
	s.mu.Lock()
	defer s.mu.Unlock()
	n := len(s.spans) - 1
	if n < 0 || s.spans[n].bytes >= s.info.Config.MaxBytes/maxSpans {
		s.spans, n = append(s.spans, span{kept: map[string]int64{}}), n+1
	}
	s.kept[tenant] += bytes
	s.spans[n].kept[tenant] += bytes
	s.spans[n].bytes += bytes
	s.spans[n].last = seq
	if seq > s.info.State.LastSeq { // stored since the last measurement
		s.info.State.Bytes += uint64(bytes)
	}
}

// OverRecord returns what a tenant keeps in AUDIT, and the share of which that is more, in bytes. It returns zeros
// while the share is not exceeded, AUDIT is less than half full, or a full AUDIT drops its oldest records.
func (s *Shares) OverRecord(tenant string) (used, share int64) {
	if !s.fullTo(sharesFrom) {
		return 0, 0
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	used, share = s.kept[subjects.Token(tenant)], s.info.Config.MaxBytes/tenantShare
	if s.info.Config.Discard == jetstream.DiscardOld || used < share {
		return 0, 0
	}
	return used, share
}

// crowds reports whether the records of a tenant go to SURPLUS: it has more than its share of AUDIT, which is nearly
// full, drops its oldest records, and has those of other tenants.
func (s *Shares) crowds(tenant string) bool {
	if s == nil || !s.fullTo(surplusFrom) {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.over(s.kept[subjects.Token(tenant)])
}

// crowded reports whether any tenant crowds.
func (s *Shares) crowded() bool {
	if s == nil || !s.fullTo(surplusFrom) {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	most := int64(0)
	for _, bytes := range s.kept {
		most = max(most, bytes)
	}
	return s.over(most)
}

// over reports whether a tenant that keeps that many bytes crowds a nearly full AUDIT. The caller holds s.mu.
func (s *Shares) over(bytes int64) bool {
	return s.spare && s.info.Config.Discard == jetstream.DiscardOld && len(s.kept) > 1 &&
		bytes >= s.info.Config.MaxBytes/tenantShare
}
