package bench

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-018f16cc/toolbus/bus"
	"github.com/seed-018f16cc/toolbus/internal/rawpipeline"
)

// Row is one line of the matrix: both sides under one load.
type Row struct {
	Server  string  `json:"server"`
	Sync    string  `json:"sync"`
	Bytes   int     `json:"bytes"`
	Callers int     `json:"callers"` // 0 in the open loop
	Rate    int     `json:"rate,omitzero"`
	Raw     *Stats  `json:"raw,omitzero"`
	Toolbus *Stats  `json:"toolbus,omitzero"`
	Ratio   *Ratios `json:"ratio,omitzero"` // Toolbus / raw
	Checks  []Check `json:"checks,omitzero"`
}

// Stats are medians over the rounds of one side. All but the latencies and the throughput are
// per call.
type Stats struct {
	Calls     int     `json:"calls"` // in all rounds
	PerSecond float64 `json:"per_second"`
	P50       float64 `json:"p50_ms"`
	P95       float64 `json:"p95_ms"`
	P99       float64 `json:"p99_ms"`
	CPU       float64 `json:"cpu_us"` // of everything: callers, both halves, server
	ServerCPU float64 `json:"server_cpu_us"`
	Allocs    float64 `json:"allocs"`
	AllocKB   float64 `json:"alloc_kb"`
	Writes    float64 `json:"durable_writes"`
	Messages  float64 `json:"messages"`
	WireKB    float64 `json:"wire_kb"` // sent and received by clients
	// RoundTrips a caller waits for, one after the other: the request itself and the write of
	// the result. The write of the request is on nobody's way: it is delivered while it is
	// acknowledged.
	RoundTrips int `json:"round_trips"`
}

// roundTrips is the same on both sides; a side-effectful Toolbus tool would need one more, for
// its claim.
const roundTrips = 2

// Ratios are medians of the ratios of neighbouring rounds.
type Ratios struct {
	PerSecond float64 `json:"per_second"`
	P50       float64 `json:"p50"`
	P95       float64 `json:"p95"`
	P99       float64 `json:"p99"`
	CPU       float64 `json:"cpu"`
}

// rows lists what is to be measured.
func (o Options) rows() []Row {
	if o.Quick {
		return []Row{
			{Server: Process, Sync: Default, Bytes: 256, Callers: 1},
			{Server: Process, Sync: Default, Bytes: 256, Callers: 16},
			{Server: Process, Sync: Default, Bytes: 256, Callers: 128},
			{Server: Process, Sync: Default, Bytes: 64 << 10, Callers: 16},
			{Server: Process, Sync: Default, Bytes: 256, Rate: 200},
			{Server: Process, Sync: Always, Bytes: 256, Callers: 128},
		}
	}
	var rows []Row
	for _, sync := range choose(o.Sync, Default, Always) {
		for _, mode := range choose(o.Mode, Embedded, Process) {
			for _, size := range o.Sizes {
				for _, n := range o.Callers {
					rows = append(rows, Row{Server: mode, Sync: sync, Bytes: size, Callers: n})
				}
			}
			if o.Rate > 0 {
				rows = append(rows, Row{Server: mode, Sync: sync, Bytes: o.Sizes[0], Rate: o.Rate})
			}
		}
	}
	return rows
}

func choose(v string, all ...string) []string {
	if v == Both {
		return all
	}
	return []string{v}
}

// The rounds of the quick matrix.
const quickRound = 900 * time.Millisecond

func matrix(ctx context.Context, o Options, r *Report) error {
	if o.Quick {
		o.Duration = quickRound
	}
	rows := o.rows()
	for i, row := range rows {
		if err := o.measure(ctx, &row); err != nil {
			return fmt.Errorf("%s: %w", row.name(), err)
		}
		o.say("%2d/%d %s", i+1, len(rows), row.String())
		r.Rows = append(r.Rows, row)
	}
	return nil
}

// side is one of the two that are compared.
type side struct {
	name   string
	call   caller
	settle func(context.Context) error
	meter  meter
	stop   func() error
	rounds []round
}

// round is what one round measured.
type round struct {
	load
	usage
}

// measure fills in a row: warm-up, then pairs of rounds, each side first in turn.
func (o Options) measure(ctx context.Context, row *Row) (err error) {
	h, err := o.startHost(ctx, "matrix", row.Server, row.Sync)
	if err != nil {
		return err
	}
	defer h.close()
	sides, err := o.sides(ctx, h, row.Bytes)
	for _, s := range sides {
		defer func() { err = errors.Join(err, s.stop()) }()
	}
	if err != nil {
		return err
	}
	ids := &numbers{}
	for i := range o.Rounds + 1 {
		for _, s := range sides {
			d := o.Duration
			if i == 0 {
				d = min(d, warmUp)
			}
			m, err := s.round(ctx, ids, *row, d)
			if err != nil {
				return fmt.Errorf("%s: %w", s.name, err)
			}
			if i > 0 {
				s.rounds = append(s.rounds, m)
			}
		}
		slices.Reverse(sides)
	}
	row.summarise(sides)
	return nil
}

// warmUp is how long each side runs before it is measured.
const warmUp = time.Second

// sides starts what is to be compared. What it returns must be stopped, whatever the error.
func (o Options) sides(ctx context.Context, h *host, size int) ([]*side, error) {
	var sides []*side
	if o.Side != ours {
		s, err := rawSide(ctx, h, o, size)
		if err != nil {
			return sides, err
		}
		sides = append(sides, s)
	}
	if o.Side != raw {
		s, err := toolbusSide(ctx, h, o, size)
		if err != nil {
			return sides, err
		}
		sides = append(sides, s)
	}
	return sides, nil
}

func rawSide(ctx context.Context, h *host, o Options, size int) (*side, error) {
	p, err := rawpipeline.Start(ctx, rawpipeline.Options{
		Dial:    func(name string) (*nats.Conn, error) { return bus.Dial(h.url, name, h.connect...) },
		Workers: o.Slots, Tool: func(in []byte) []byte { return in },
	})
	if err != nil {
		return nil, err
	}
	js, err := jetstream.New(p.Conns()[0])
	if err != nil {
		p.Close()
		return nil, err
	}
	in := input(size)
	return &side{
		name: raw, settle: p.Settle, stop: func() error { p.Close(); return nil },
		call: func(ctx context.Context, n uint64) error {
			out, err := p.Call(ctx, key(n), in)
			if err == nil && len(out) != len(in) {
				err = fmt.Errorf("the output has %d bytes, the input %d", len(out), len(in))
			}
			return err
		},
		meter: meter{server: h.pid, conns: p.Conns(), js: js, streams: rawpipeline.Streams[:]},
	}, nil
}

func toolbusSide(ctx context.Context, h *host, o Options, size int) (*side, error) {
	r, err := o.registry(1)
	if err != nil {
		return nil, err
	}
	p, err := startProduct(ctx, h, o, r)
	if err != nil {
		return nil, err
	}
	in := input(size)
	return &side{
		name: ours, settle: p.settle, stop: p.stop,
		call:  func(ctx context.Context, n uint64) error { return p.call(ctx, key(n), toolID(0), in) },
		meter: meter{server: h.pid, conns: p.conns, js: p.js, streams: streams(o.Partitions)},
	}, nil
}

// key is the idempotency key of a call.
func key(n uint64) string { return fmt.Sprintf("bench-%016d", n) }

// settleTimeout bounds what is still on its way after a round.
const settleTimeout = 60 * time.Second

// round makes calls for d and counts what they used.
func (s *side) round(ctx context.Context, ids *numbers, row Row, d time.Duration) (round, error) {
	runtime.GC() // the garbage of the other side is not this side's
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
	wait, cancel := context.WithTimeout(ctx, settleTimeout)
	defer cancel()
	if err := s.settle(wait); err != nil {
		return round{}, fmt.Errorf("after the round: %w", err)
	}
	after, err := s.meter.read(ctx)
	return round{l, after.since(before)}, err
}

// summarise turns rounds into a row.
func (row *Row) summarise(sides []*side) {
	by := map[string][]round{}
	for _, s := range sides {
		by[s.name] = s.rounds
	}
	row.Raw, row.Toolbus = stats(by[raw]), stats(by[ours])
	if row.Raw == nil || row.Toolbus == nil {
		return
	}
	ratio := func(of func(round) float64) float64 {
		var all []float64
		for i, r := range by[raw] {
			all = append(all, of(by[ours][i])/of(r))
		}
		return median(all)
	}
	row.Ratio = &Ratios{
		PerSecond: ratio(round.perSecond), P50: ratio(atPercentile(50)), P95: ratio(atPercentile(95)),
		P99: ratio(atPercentile(99)),
		CPU: ratio(round.cpu),
	}
	row.Checks = row.targets()
}

func atPercentile(p int) func(round) float64 { return func(r round) float64 { return r.percentile(p) } }

// cpu is all CPU time per call, in microseconds.
func (r round) cpu() float64 { return r.per(r.self + r.server) }

func (r round) per(d time.Duration) float64 {
	return float64(d) / float64(time.Microsecond) / float64(len(r.latencies))
}

func stats(rounds []round) *Stats {
	if len(rounds) == 0 {
		return nil
	}
	s := &Stats{RoundTrips: roundTrips}
	of := func(f func(round) float64) float64 {
		var all []float64
		for _, r := range rounds {
			all = append(all, f(r))
		}
		return median(all)
	}
	each := func(n func(round) uint64) float64 {
		return of(func(r round) float64 { return float64(n(r)) / float64(len(r.latencies)) })
	}
	for _, r := range rounds {
		s.Calls += len(r.latencies)
	}
	s.PerSecond, s.P50, s.P95, s.P99 = of(round.perSecond), of(atPercentile(50)), of(atPercentile(95)),
		of(atPercentile(99))
	s.CPU, s.ServerCPU = of(round.cpu), of(func(r round) float64 { return r.per(r.server) })
	s.Allocs, s.AllocKB = each(func(r round) uint64 { return r.mallocs }),
		each(func(r round) uint64 { return r.bytes })/1024
	s.Writes, s.Messages = each(func(r round) uint64 { return r.writes }), each(func(r round) uint64 { return r.messages })
	s.WireKB = each(func(r round) uint64 { return r.wire }) / 1024
	return s
}

func median(v []float64) float64 {
	v = slices.Sorted(slices.Values(v))
	n := len(v)
	if n%2 == 1 {
		return v[n/2]
	}
	return (v[n/2-1] + v[n/2]) / 2
}

// targets holds a row against the promises about speed.
func (row *Row) targets() []Check {
	t, small := row.Ratio, row.Bytes <= 1024
	switch {
	case row.Callers == 0 && row.Sync == Default:
		return []Check{atMost("open loop p95, ms", row.Toolbus.P95, 2)}
	case row.Callers == 1 && small && row.Sync == Default:
		return []Check{atMost("median", t.P50, 1.4), atMost("p99", t.P99, 2)}
	case row.Sync == Always && row.Callers == 128 && small:
		return []Check{atLeast("throughput", t.PerSecond, 0.85)}
	case row.Sync == Default && row.Callers > 1 && small:
		return []Check{atLeast("throughput", t.PerSecond, 0.7)}
	case row.Sync == Default && row.Callers > 1:
		return []Check{atLeast("throughput", t.PerSecond, 0.8)}
	}
	return nil
}
