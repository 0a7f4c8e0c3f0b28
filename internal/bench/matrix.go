package bench

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"
)

// Row is one load of the matrix, with the results of every side.
type Row struct {
	Server     string   `json:"server"`
	Sync       syncMode `json:"sync"`
	Bytes      int      `json:"bytes"`
	Callers    int      `json:"callers"` // 0 in the open loop
	Rate       int      `json:"rate,omitzero"`
	Raw        *Stats   `json:"raw,omitzero"`
	Floor      *Stats   `json:"floor,omitzero"`
	Toolbus    *Stats   `json:"toolbus,omitzero"`
	Ratio      *Ratios  `json:"ratio,omitzero"`       // Toolbus / raw
	FloorRatio *Ratios  `json:"floor_ratio,omitzero"` // Toolbus / floor
	State      *State   `json:"state,omitzero"`       // size of the state in events
	Checks     []Check  `json:"checks,omitzero"`
}

// syncMode is [Interval] or [Always].
type syncMode string

// MarshalText implements encoding.TextMarshaler. Reports use the name of build f16d274, so that they can be compared.
func (s syncMode) MarshalText() ([]byte, error) {
	if s == Interval {
		s = formerInterval
	}
	return []byte(s), nil
}

// rows returns the rows to measure.
func (o Options) rows() []Row {
	if o.Quick {
		return []Row{
			{Server: Process, Sync: Interval, Bytes: 256, Callers: 1},
			{Server: Process, Sync: Interval, Bytes: 256, Callers: 16},
			{Server: Process, Sync: Interval, Bytes: 256, Callers: 128},
			{Server: Process, Sync: Interval, Bytes: 64 << 10, Callers: 16},
			{Server: Process, Sync: Interval, Bytes: 256, Rate: 200},
			{Server: Process, Sync: Always, Bytes: 256, Callers: 128},
		}
	}
	var rows []Row
	for _, sync := range choose(o.Sync, Interval, Always) {
		for _, mode := range choose(o.Mode, Embedded, Process) {
			for _, size := range o.Sizes {
				for _, n := range o.Callers {
					rows = append(rows, Row{Server: mode, Sync: syncMode(sync), Bytes: size, Callers: n})
				}
			}
			if o.Rate > 0 {
				rows = append(rows, Row{Server: mode, Sync: syncMode(sync), Bytes: o.Sizes[0], Rate: o.Rate})
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

// quickRound is the duration of a round in the quick matrix.
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

// measure fills in a row: a warm-up, then rounds of all sides, whose order is reversed each time, then the round trips.
func (o Options) measure(ctx context.Context, row *Row) (err error) {
	h, err := o.startHost(ctx, "matrix", row.Server, string(row.Sync))
	if err != nil {
		return err
	}
	defer h.close()
	sides, err := o.sides(ctx, h, row.Bytes)
	for _, s := range sides {
		if s != nil {
			defer func() { err = errors.Join(err, s.stop()) }()
		}
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
	for _, s := range sides {
		if err := s.count(ctx, h, ids); err != nil {
			return fmt.Errorf("%s: %w", s.name, err)
		}
	}
	row.summarise(sides)
	return nil
}

// warmUp is the longest warm-up of each side.
const warmUp = time.Second

// targets compares a row for which raw and Toolbus were measured with the promised ratios.
func (row *Row) targets() []Check {
	t, small, syncs := row.Ratio, row.Bytes <= 1024, row.Sync == Always
	least := func(of float64) Check { return atLeast("throughput", t.PerSecond, of) }
	switch {
	case row.Callers == 0 && !syncs:
		return []Check{atMost("open loop p95", t.P95, 1.3)}
	case row.Callers == 1 && small && !syncs:
		return []Check{atMost("median", t.P50, 1.5), atMost("p99", t.P99, 2)}
	case row.Callers <= 1:
		return nil
	case syncs && small && row.Callers >= 128:
		return []Check{least(1)}
	case syncs && small:
		return []Check{least(0.65)}
	case syncs:
		return nil
	case !small:
		return []Check{least(0.7)}
	case row.Server == Embedded:
		return []Check{least(0.45)}
	case row.Callers >= 128:
		return append(row.beyond(), least(0.5))
	}
	return append(row.beyond(), least(0.6))
}

// beyond returns the targets of a row that do not compare with raw.
func (row *Row) beyond() []Check {
	checks := []Check{atMost("allocations", row.Toolbus.Allocs, 200)}
	if row.FloorRatio != nil {
		checks = append(checks, atLeast("throughput of the floor", row.FloorRatio.PerSecond, 0.65))
	}
	return checks
}
