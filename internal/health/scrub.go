package health

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-018f16cc/toolbus/bus"
	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/kv"
	"github.com/seed-018f16cc/toolbus/subjects"
)

// Progress gets, now and then, how many messages of a stream were read, and about how many it has.
type Progress func(stream string, read, of uint64)

// Scrub reads all that the streams hold, and returns one check for each of them, which names what the server cannot
// read or has lost. It changes nothing. If ctx ends, it returns one check that says so.
//
// The server checks a message when it reads it, and tells damage from absence only by its counts. So Scrub compares
// what it has read with these, and the call log with the list of kept calls.
func Scrub(ctx context.Context, js jetstream.JetStream, tell Progress) []envelope.Check {
	checks := scrubAll(ctx, js, tell)
	if ctx.Err() != nil { // what was read says nothing about what was not
		return []envelope.Check{envelope.Failed("scrub", fmt.Sprintf("not all streams were read: %v", context.Cause(ctx)),
			"run it again")}
	}
	return checks
}

func scrubAll(ctx context.Context, js jetstream.JetStream, tell Progress) []envelope.Check {
	n, err := bus.Partitions(ctx, js)
	if err != nil {
		return []envelope.Check{envelope.Failed("scrub", err.Error(), damagedStreams)}
	}
	s := &scrub{js: js, tell: tell, calls: newCalls(n)}
	if err := s.open(ctx); err != nil {
		return []envelope.Check{envelope.Failed("scrub", err.Error(), damagedStreams)}
	}
	var all []finding
	for _, c := range bus.Streams(bus.TopologyOptions{Partitions: n}) { // the call log first, then the record
		all = append(all, s.look(ctx, c.Name))
	}
	unjudged := s.judge(ctx)
	var checks []envelope.Check
	for i, f := range all {
		switch {
		case errors.Is(f.err, jetstream.ErrStreamNotFound): // the usual checks say so
			continue
		case i < n:
			f.damaged, f.fix, f.err = s.names(subjects.Partition(i)), repair, cmp.Or(f.err, unjudged)
		case f.stream == subjects.KeptStream:
			f.err = cmp.Or(f.err, s.unlisted)
		}
		checks = append(checks, f.check())
	}
	return checks
}

// damagedStreams is the fix of what is not a call.
const damagedStreams = "see docs/operations.md, damaged streams"

// repair is the fix of a damaged call.
const repair = "find the outcome with `toolbus audit replay --call REF`, then decide with `toolbus repair accept " +
	"REF` or `toolbus repair refuse REF`: docs/operations.md, \"A damaged call log\"; replace the disk"

type scrub struct {
	js jetstream.JetStream
	*calls
	tell     Progress
	unlisted error // the list of kept calls cannot be used
}

// listTries is how often the list of kept calls is read: another process may write it meanwhile.
const listTries = 3

// open opens the call log and reads the list of kept calls.
func (s *scrub) open(ctx context.Context) error {
	clock, err := bus.NewClock(ctx, s.js, nil)
	if err != nil {
		return err
	}
	for range listTries {
		if s.log, err = kv.OpenLog(ctx, s.js, kv.LogOptions{Times: clock.Times}); err != nil {
			return err
		}
		var said bytes.Buffer
		_, s.unlisted = s.log.OpenKept(ctx, slog.New(slog.NewTextHandler(&said, nil)), true)
		if s.unlisted == nil && said.Len() > 0 {
			s.unlisted = errors.New(strings.TrimSpace(said.String()))
		}
		if s.unlisted == nil {
			break
		}
	}
	return nil
}

// finding holds the damage that was found in a stream.
type finding struct {
	stream  string
	read    uint64
	damaged []string
	fix     string
	err     error
}

// look reads a stream.
func (s *scrub) look(ctx context.Context, name string) (f finding) {
	f = finding{stream: name, fix: damagedStreams}
	in, err := openStream(ctx, s.js, name)
	if err != nil {
		f.err = err
		return f
	}
	part, record := s.partition(name), recordOf(in)
	in.tell, in.heads = s.tell, true
	switch {
	case part != nil:
		in.group, in.visit = logOf, func(m stored) { part.add(m.seq) }
	case isRecord(name):
		in.heads, in.visit = false, func(m stored) {
			if seg, ok := record.segment(m); ok {
				s.segment(seg)
			}
		}
	}
	err = in.readAll(ctx)
	var lost []string
	if err == nil {
		lost, err = in.damaged(ctx)
	}
	if part != nil {
		s.lost(lost)
	}
	f.read, f.err, f.damaged = in.read, err, append(lost, record.wrong...)
	return f
}

// maxNames is the largest number of damaged messages or calls that a check names.
const maxNames = 256

func (f finding) check() envelope.Check {
	name := "scrub: " + f.stream
	says := fmt.Sprintf("read: %d, damaged: %d", f.read, len(f.damaged))
	if len(f.damaged) > 0 {
		says += ": " + strings.Join(f.damaged[:min(len(f.damaged), maxNames)], ", ")
	}
	if len(f.damaged) > maxNames {
		says += " …"
	}
	switch {
	case f.err != nil:
		return envelope.Failed(name, says+"; "+f.err.Error(), f.fix)
	case len(f.damaged) > 0:
		return envelope.Failed(name, says, f.fix)
	}
	return envelope.Well(name, says)
}
