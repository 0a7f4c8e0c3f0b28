package bench

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-018f16cc/toolbus/bus"
	"github.com/seed-018f16cc/toolbus/internal/bench/baseline"
	"github.com/seed-018f16cc/toolbus/subjects"
)

// side is one of the systems that are compared.
type side struct {
	name   string
	asks   string // prefix of the subject of its requests
	call   caller
	settle func(context.Context) error
	meter  meter
	stop   func() error
	rounds []round
	trips  trips
	state  *State // size of the state in an event; nil if events have none
}

// sides starts the sides to compare. The caller must stop all returned sides that are not nil, also after an error.
// Toolbus is in the middle, so that its rounds are next to those of both others.
func (o Options) sides(ctx context.Context, h *host, size int) (sides []*side, err error) {
	if o.measures(raw) {
		s, err := rawSide(ctx, h, o, size)
		if err != nil || o.Side == raw {
			return []*side{s}, err
		}
		sides = append(sides, s)
	}
	s, state, err := toolbusSide(ctx, h, o, size)
	if err != nil || o.Side == ours {
		return append(sides, s), err
	}
	least, err := floorSide(ctx, h, o, size, state)
	if o.Side == theFloor { // the floor needs the size of the state that Toolbus writes
		return []*side{least}, errors.Join(err, s.stop())
	}
	return append(sides, s, least), err
}

// measures reports whether a side is measured.
func (o Options) measures(side string) bool { return o.Side == All || o.Side == side }

func rawSide(ctx context.Context, h *host, o Options, size int) (*side, error) {
	p, err := baseline.StartRaw(ctx, baselineOptions(h, o))
	if err != nil {
		return nil, err
	}
	return pipelineSide(p, raw, "raw.call", h, baseline.RawStreams[:], size)
}

func floorSide(ctx context.Context, h *host, o Options, size int, state State) (*side, error) {
	p, err := baseline.StartFloor(ctx, baseline.FloorOptions{
		Options: baselineOptions(h, o), Bytes: callsBytes, RequestState: state.Request, OutcomeState: state.Outcome,
	})
	if err != nil {
		return nil, err
	}
	s, err := pipelineSide(p, theFloor, "floor.call", h, baseline.FloorStreams[:], size)
	if err == nil {
		s.state = &state
	}
	return s, err
}

// baselineOptions returns the options of both baseline pipelines.
func baselineOptions(h *host, o Options) baseline.Options {
	return baseline.Options{
		Dial:    func(name string) (*nats.Conn, error) { return bus.Dial(h.url, name, h.connect...) },
		Workers: o.Slots, Tool: func(in []byte) []byte { return in },
	}
}

// pipeline is a pipeline of package baseline.
type pipeline interface {
	Call(ctx context.Context, id string, input []byte) ([]byte, error)
	Settle(context.Context) error
	Conns() []*nats.Conn
	Close()
}

func pipelineSide(p pipeline, name, asks string, h *host, streams []string, size int) (*side, error) {
	js, err := jetstream.New(p.Conns()[0])
	if err != nil {
		p.Close()
		return nil, err
	}
	in := input(size)
	var conns []counted
	for _, nc := range p.Conns() {
		conns = append(conns, nc)
	}
	return &side{
		name: name, asks: asks, settle: p.Settle, stop: func() error { p.Close(); return nil },
		call: func(ctx context.Context, n uint64) error {
			out, err := p.Call(ctx, id(n), in)
			if err == nil && len(out) != len(in) {
				err = fmt.Errorf("the output has %d bytes, the input %d", len(out), len(in))
			}
			return err
		},
		meter: meter{server: h.pid, conns: conns, js: js, streams: streams},
	}, nil
}

// toolbusSide returns the side of Toolbus, and the size of the state that it writes.
func toolbusSide(ctx context.Context, h *host, o Options, size int) (s *side, state State, err error) {
	r, err := o.registry(1)
	if err != nil {
		return nil, state, err
	}
	p, err := startProduct(ctx, h, o, r)
	if err != nil {
		return nil, state, err
	}
	if state, err = p.state(ctx); err != nil {
		return nil, state, errors.Join(err, p.stop())
	}
	in := input(size)
	return &side{
		name: ours, state: &state, asks: strings.TrimSuffix(subjects.CallWildcard, "*.*.*"), settle: p.settle, stop: p.stop,
		call:  func(ctx context.Context, n uint64) error { return p.call(ctx, key(n), toolID(0), in) },
		meter: meter{server: h.pid, conns: p.conns, js: p.js, streams: streams(o.Partitions)},
	}, state, nil
}

// key returns the idempotency key of a call.
func key(n uint64) string { return fmt.Sprintf("bench-%016d", n) }

// id returns the id of a call of a baseline. It is as long as an id of Toolbus.
func id(n uint64) string { return fmt.Sprintf("bench-%026d", n) }

// round makes calls for d and measures what they use.
func (s *side) round(ctx context.Context, ids *numbers, row Row, d time.Duration) (round, error) {
	runtime.GC() // collect the garbage of the other sides first
	before, err := s.meter.read(ctx)
	if err != nil {
		return round{}, err
	}
	var l load
	if row.Callers > 0 {
		l, err = closed(ctx, ids, row.Callers, d, s.call)
	} else {
		l, err = open(ctx, ids, row.Rate, d, s.call)
	}
	if err != nil {
		return round{}, err
	}
	if err := s.settled(ctx); err != nil {
		return round{}, err
	}
	after, err := s.meter.read(ctx)
	return round{l, after.since(before)}, err
}

// settleTimeout limits the wait for work that remains after a round.
const settleTimeout = 60 * time.Second

// settled waits until all work of the calls is done.
func (s *side) settled(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, settleTimeout)
	defer cancel()
	if err := s.settle(ctx); err != nil {
		return fmt.Errorf("after the round: %w", err)
	}
	return nil
}
