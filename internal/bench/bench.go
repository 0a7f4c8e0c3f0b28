package bench

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"slices"
	"time"
)

// Options configures a run. Check lists the valid values of Scenario, Mode, Sync and Side.
type Options struct {
	Callers    []int         // default 1, 16, 128
	Sizes      []int         // sizes of the input in bytes; default 256 and 64 KiB
	Duration   time.Duration // of one round; default 5 s
	Rounds     int           // rounds of each side per row; default 3
	Rate       int           // calls per second in the open loop; 0 or less leaves it out
	Mode       string        // where the server runs: embedded, process or both (default)
	Sync       string        // always, interval or both (default)
	Scenario   string        // matrix (default), drain, tools, idle, stream, flood, large, identity, mcp or all
	Quick      bool          // measure a small matrix in less than a minute
	Drain      int           // number of calls in the large drain; default a million
	Side       string        // measure only raw, floor or toolbus, for profiling; default all
	Slots      int           // of the executor, and workers of the baselines; default 256
	Partitions int           // of the call log; 0 is the default of package bus
	Identity   bool          // run floods against a deployment with accounts and tokens
	Dir        string        // folder for server files; default the system's temporary folder
	Product    string        // path of the toolbus program, for servers and processes of a deployment
	Self       string        // path of the program that runs [Node]
	Progress   io.Writer     // gets progress messages; may be nil
}

// formerInterval is the name of [Interval] in build f16d274.
const formerInterval = "default"

// Values of the fields of [Options].
const (
	Embedded = "embedded"
	Process  = "process"
	Interval = "interval"
	Always   = "always"
	Both     = "both"

	Matrix   = "matrix"
	Drain    = "drain"
	Tools    = "tools"
	Idle     = "idle"
	Stream   = "stream"
	Flood    = "flood"
	Identity = "identity"
	Large    = "large"
	MCP      = "mcp"
	All      = "all"

	raw      = "raw"
	theFloor = "floor"
	ours     = "toolbus"
)

// Report is the result of a run.
type Report struct {
	Machine Machine  `json:"machine"`
	Rows    []Row    `json:"rows,omitzero"`
	Results []Result `json:"results,omitzero"`
}

// Machine describes the machine of a run.
type Machine struct {
	Go      string `json:"go"`
	OS      string `json:"os"`
	CPUs    int    `json:"cpus"`
	Started string `json:"started"`
}

// Result is the result of a scenario other than the matrix.
type Result struct {
	Scenario string  `json:"scenario"`
	Facts    []Fact  `json:"facts"`
	Checks   []Check `json:"checks"`
}

// Fact is a measured value.
type Fact struct {
	Name  string  `json:"name"`
	Value float64 `json:"value"`
	Unit  string  `json:"unit"`
}

// Check compares a measured value with a target. Want is a minimum if AtLeast is true, otherwise a maximum.
type Check struct {
	Name    string  `json:"name"`
	Value   float64 `json:"value"`
	Want    float64 `json:"want"`
	AtLeast bool    `json:"at_least"`
	Met     bool    `json:"met"`
}

func atLeast(name string, value, want float64) Check {
	return Check{Name: name, Value: value, Want: want, AtLeast: true, Met: value >= want}
}

func atMost(name string, value, want float64) Check {
	return Check{Name: name, Value: value, Want: want, Met: value <= want}
}

func (o Options) withDefaults() Options {
	if len(o.Callers) == 0 {
		o.Callers = []int{1, 16, 128}
	}
	if len(o.Sizes) == 0 {
		o.Sizes = []int{256, 64 << 10}
	}
	o.Duration, o.Rounds = positive(o.Duration, 5*time.Second), positive(o.Rounds, 3)
	o.Slots, o.Drain = positive(o.Slots, 256), positive(o.Drain, 1_000_000)
	o.Mode, o.Sync, o.Side = word(o.Mode, Both), word(o.Sync, Both), word(o.Side, All)
	if o.Sync == formerInterval {
		o.Sync = Interval
	}
	o.Scenario, o.Dir = word(o.Scenario, Matrix), word(o.Dir, os.TempDir())
	if o.Progress == nil {
		o.Progress = io.Discard
	}
	return o
}

func positive[T int | time.Duration](v, otherwise T) T {
	if v <= 0 {
		return otherwise
	}
	return v
}

func word(v, otherwise string) string {
	if v == "" {
		return otherwise
	}
	return v
}

// Check returns an error that lists all invalid values of o.
func (o Options) Check() error {
	o = o.withDefaults()
	var bad []error
	for _, w := range []struct {
		flag, value string
		known       []string
	}{
		{"server-mode", o.Mode, []string{Embedded, Process, Both}},
		{"sync", o.Sync, []string{Always, Interval, Both}},
		{"scenario", o.Scenario, []string{Matrix, Drain, Tools, Idle, Stream, Flood, Large, Identity, MCP, All}},
		{"side", o.Side, []string{raw, theFloor, ours, All}},
	} {
		if !slices.Contains(w.known, w.value) {
			bad = append(bad, fmt.Errorf("--%s is %q, must be one of %v", w.flag, w.value, w.known))
		}
	}
	for _, n := range o.Callers {
		if n < 1 || n > 10_000 {
			bad = append(bad, fmt.Errorf("--callers: %d is not between 1 and 10000", n))
		}
	}
	for _, n := range o.Sizes {
		if n < minSize || n > maxSize {
			bad = append(bad, fmt.Errorf("--size: %d is not between %d and %d bytes", n, minSize, maxSize))
		}
	}
	return errors.Join(bad...)
}

// Run runs the scenarios that o selects.
func Run(ctx context.Context, o Options) (*Report, error) {
	if err := o.Check(); err != nil {
		return nil, err
	}
	o = o.withDefaults()
	dir, err := os.MkdirTemp(o.Dir, "toolbus-bench-")
	if err != nil {
		return nil, fmt.Errorf("bench: %w", err)
	}
	defer func() { _ = os.RemoveAll(dir) }() // best effort: dir is a temporary folder
	o.Dir = dir
	r := &Report{Machine: Machine{
		Go: runtime.Version(), OS: runtime.GOOS + "/" + runtime.GOARCH, CPUs: runtime.NumCPU(),
		Started: time.Now().UTC().Format(time.RFC3339),
	}}
	for _, s := range []struct {
		name string
		run  func(context.Context, Options, *Report) error
	}{
		{Matrix, matrix}, {Stream, stream}, {Tools, many}, {Idle, idle}, {Flood, flooded}, {Large, large},
		{Identity, guarded},
		{MCP, bridged},
		{Drain, drain},
	} {
		if o.Scenario != s.name && o.Scenario != All {
			continue
		}
		if err := cmp.Or(s.run(ctx, o, r), ctx.Err()); err != nil { // a measurement that was interrupted is not valid
			return nil, fmt.Errorf("bench %s: %w", s.name, err)
		}
	}
	return r, nil
}

func (o Options) say(format string, args ...any) {
	fmt.Fprintf(o.Progress, format+"\n", args...)
}
