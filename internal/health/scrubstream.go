package health

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"hash/maphash"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"golang.org/x/sync/errgroup"

	"github.com/seed-018f16cc/toolbus/bus"
	"github.com/seed-018f16cc/toolbus/internal/timer"
)

// stored is a message that the server could read, without the data if [stream.heads].
type stored struct {
	subject string
	seq     uint64
	data    []byte
}

// stream reads one stream. The server checks the checksum of each message when it reads it. Make one with openStream.
type stream struct {
	jetstream.Stream
	js    jetstream.JetStream
	name  string
	heads bool                        // the data is not needed
	group func(subject string) string // returns a filter: messages that belong together
	visit func(stored)                // called for each message; may be nil
	tell  Progress

	begun jetstream.StreamState // when reading began: later messages are not read
	last  uint64                // sequence up to which the stream was read
	read  uint64                // number of messages that were read

	seed   maphash.Seed
	groups map[uint64]uint32 // number of messages that were read of each group, by its hash
}

const (
	window      = 256 // sequences that are asked for one by one, after a message that cannot be read
	atOnce      = 16  // questions at the same time
	maxSuspects = 10_000
)

// openStream returns a stream that has not been read.
func openStream(ctx context.Context, js jetstream.JetStream, name string) (*stream, error) {
	at, err := js.Stream(ctx, name)
	if err != nil {
		return nil, err
	}
	return &stream{
		Stream: at, js: js, name: name, group: strings.Clone, begun: at.CachedInfo().State, seed: maphash.MakeSeed(),
		groups: map[uint64]uint32{}, tell: func(string, uint64, uint64) {},
	}, nil
}

// readAll reads all that was there when reading began. The server delivers nothing after a message that it cannot read.
// So readAll then asks for some messages one by one.
func (s *stream) readAll(ctx context.Context) error {
	for s.last < s.begun.LastSeq {
		err := s.consume(ctx)
		if err == nil {
			break
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err := s.ask(ctx); err != nil {
			return err
		}
	}
	return nil
}

// consume reads until the server delivers no more.
func (s *stream) consume(ctx context.Context) error {
	cfg := bus.StartAfter(s.last)
	cfg.HeadersOnly, cfg.NamePrefix = s.heads, rand.Text() // a stream has room for some hundreds of consumers
	for m, err := range bus.Messages(ctx, s.js, s.name, cfg, bus.ReadTimeout) {
		if err != nil {
			return err
		}
		if m.Seq > s.begun.LastSeq {
			break
		}
		s.add(stored{m.Subject(), m.Seq, m.Data()})
	}
	return nil
}

func (s *stream) add(m stored) {
	s.last = m.seq
	s.groups[maphash.String(s.seed, s.group(m.subject))]++
	s.read++
	if s.visit != nil {
		s.visit(m)
	}
	if s.read%1024 == 0 {
		s.tell(s.name, s.read, s.begun.Msgs)
	}
}

// ask asks for each of the next sequences.
func (s *stream) ask(ctx context.Context) error {
	info, err := s.Info(ctx)
	if err != nil {
		return err
	}
	from, through := s.last+1, min(s.last+window, s.begun.LastSeq)
	if from < info.State.FirstSeq { // expired
		s.last = info.State.FirstSeq - 1
		return nil
	}
	found := make([]*jetstream.RawStreamMsg, through-from+1)
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(atOnce)
	for i := range found {
		group.Go(func() (err error) {
			found[i], err = bus.MessageAt(ctx, s.Stream, from+uint64(i))
			if errors.Is(err, jetstream.ErrMsgNotFound) {
				found[i], err = nil, nil
			}
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return err
	}
	for _, m := range found {
		if m != nil {
			s.add(stored{m.Subject, m.Sequence, m.Data})
		}
	}
	s.last = through
	return nil
}

// damaged returns the groups with messages that the server counts and cannot read. Expired and deleted messages do not
// count, nor do those that are stored meanwhile.
func (s *stream) damaged(ctx context.Context) (all []string, err error) {
	if s.read >= s.begun.Msgs {
		return nil, nil
	}
	suspects, err := s.suspects(ctx)
	if err != nil {
		return nil, err
	}
	bad := make([]bool, len(suspects))
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(atOnce)
	for i, filter := range suspects {
		group.Go(func() (err error) {
			for try := 0; try < tries; try++ {
				if bad[i], err = s.lacks(ctx, filter); err != nil || !bad[i] {
					return err
				}
				if !timer.Sleep(ctx, doubt) {
					return ctx.Err()
				}
			}
			return nil
		})
	}
	err = group.Wait()
	for i, filter := range suspects {
		if bad[i] {
			all = append(all, filter)
		}
	}
	slices.Sort(all)
	return all, err
}

// A group counts as damaged if it looks so each of tries times, with a pause of doubt.
const (
	tries = 3
	doubt = 400 * time.Millisecond
)

// suspects returns the groups of which the server counts more messages than were read.
func (s *stream) suspects(ctx context.Context) (all []string, err error) {
	counted := map[uint64]uint32{}
	named := map[string]bool{}
	for offset := 0; len(named) < maxSuspects; {
		page, total, err := s.subjects(ctx, offset)
		if err != nil {
			return nil, err
		}
		for subject, n := range page {
			filter := s.group(subject)
			key := maphash.String(s.seed, filter)
			if counted[key] += n; counted[key] > s.groups[key] {
				named[filter] = true
			}
		}
		if offset += len(page); len(page) == 0 || offset >= total {
			break
		}
	}
	for filter := range named {
		all = append(all, filter)
	}
	return all, nil
}

// subjects returns the number of messages of some subjects, and the number of subjects.
func (s *stream) subjects(ctx context.Context, offset int) (page map[string]uint32, total int, err error) {
	q := fmt.Sprintf(`{"subjects_filter":">","offset":%d}`, offset)
	msg, err := s.js.Conn().RequestWithContext(ctx, "$JS.API.STREAM.INFO."+s.name, []byte(q))
	if err != nil {
		return nil, 0, err
	}
	var a struct {
		Total int `json:"total"`
		State struct {
			Subjects map[string]uint32 `json:"subjects"`
		} `json:"state"`
	}
	err = json.Unmarshal(msg.Data, &a)
	return a.State.Subjects, a.Total, err
}

// lacks reports whether the server counts more messages of a group than were read, although none has come since.
func (s *stream) lacks(ctx context.Context, filter string) (bool, error) {
	counted, err := s.count(ctx, filter)
	if err != nil || counted <= int(s.groups[maphash.String(s.seed, filter)]) {
		return false, err
	}
	m, err := s.GetLastMsgForSubject(ctx, filter)
	if errors.Is(err, jetstream.ErrMsgNotFound) || errors.Is(err, nats.ErrBadHeaderMsg) {
		return true, nil
	}
	return err == nil && m.Sequence <= s.begun.LastSeq, err
}

func (s *stream) count(ctx context.Context, filter string) (n int, err error) {
	info, err := s.Info(ctx, jetstream.WithSubjectFilter(filter))
	if err != nil {
		return 0, err
	}
	for _, count := range info.State.Subjects {
		n += int(count)
	}
	return n, nil
}
