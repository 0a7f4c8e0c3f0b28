package chaos

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/seed-018f16cc/toolbus/internal/chaos/checker"
	"github.com/seed-018f16cc/toolbus/internal/chaos/effects"
	"github.com/seed-018f16cc/toolbus/internal/chaos/evidence"
	"github.com/seed-018f16cc/toolbus/internal/chaos/proxy"
	"github.com/seed-018f16cc/toolbus/internal/chaos/stall"
)

// Options configures a run.
type Options struct {
	Binary   string        // path of the toolbus program; required
	Self     string        // path of the program that runs [Tool]; required
	Seed     uint64        // seed of the plan
	Duration time.Duration // of the faults; default one minute
	Rate     float64       // keys per second, each requested several times; default 10
	Steady   float64       // further calls per second, of a tool that runs in its executor; default 0
	Calls    int           // largest number of keys; 0 is no limit
	// OldBinary is the path of another build of the program. Dispatchers and executors start as OldBinary, and are
	// replaced by Binary and back, one by one; one dispatcher is always of Binary. Binary must be the newer build: it
	// checks what both builds have written, and all processes end as Binary.
	OldBinary string
	Dir       string // folder of the run; default a new temporary folder
	Keep      bool   // keep the folder, with logs and the recorded history
	// SyncAlways makes the servers sync before the ack. Killing a server loses no acknowledged write in either case; only
	// a power cut would.
	SyncAlways bool
	Strict     bool             // calls start only after their requests are in the audit record
	Partitions int              // of the call log; default 2 for odd seeds, else 1
	Servers    int              // 1, or 3 with replicated streams; default 1
	Fault      string           // name from [Pieces]: inject only this fault; needs several servers
	NoFaults   bool             // inject no faults, to find violations that do not need any
	Identity   bool             // all processes have short-lived tokens, and credentials are changed too
	Tell       func(string)     // gets a line for each fault; may be nil
	Every      time.Duration    // interval of Progress; default 5 s
	Progress   func(p Progress) // may be nil
}

// Progress is the state of a run.
type Progress struct {
	Elapsed time.Duration
	Asks    int
	Faults  int
}

// Run makes one run and checks it. An error means that the run itself failed and showed nothing. The report contains
// the violations.
func Run(ctx context.Context, o Options) (Report, error) {
	o, err := o.withDefaults()
	if err != nil {
		return Report{}, err
	}
	if !o.Keep {
		defer func() { _ = os.RemoveAll(o.Dir) }() // temporary files
	}
	c, err := newCluster(o, o.Dir)
	if err != nil {
		return Report{}, err
	}
	if err := c.start(ctx); err != nil {
		return Report{}, errors.Join(err, c.close())
	}
	report, err := drive(ctx, o, c)
	return report, errors.Join(err, c.close())
}

// Check returns an error, in terms of the command's flags, if o is not valid.
func (o Options) Check() error {
	switch {
	case o.Duration <= 0 || o.Rate <= 0 || o.Calls < 0 || o.Steady < 0:
		return errors.New("use more than 0 for --duration and --rate, and 0 or more for --calls and --steady")
	case o.Steady > 0 && o.OldBinary != "":
		return errors.New("leave --steady out with --old-binary: an older build has no such executor")
	case o.Partitions < 0 || o.Partitions > 2:
		return errors.New("--partitions: use 1 or 2")
	case o.Servers != 1 && o.Servers != 3:
		return errors.New("--servers: use 1 or 3")
	case o.Strict && o.OldBinary != "":
		return errors.New("leave --strict out with --old-binary: executors of an older build may not wait for the record")
	case o.Fault != "" && o.Servers == 1:
		return errors.New("--fault needs --servers 3")
	case o.Fault != "" && !slices.Contains(Pieces(), o.Fault):
		return fmt.Errorf("--fault: use one of %s", strings.Join(Pieces(), ", "))
	}
	return nil
}

func (o Options) withDefaults() (Options, error) {
	if o.Duration <= 0 {
		o.Duration = time.Minute
	}
	if o.Rate <= 0 {
		o.Rate = 10
	}
	if o.Partitions <= 0 {
		o.Partitions = 1 + int(o.Seed%2)
	}
	if o.Servers <= 0 {
		o.Servers = 1
	}
	if o.Every <= 0 {
		o.Every = 5 * time.Second
	}
	if o.Tell == nil {
		o.Tell = func(string) {}
	}
	if o.Progress == nil {
		o.Progress = func(Progress) {}
	}
	var err error
	if o.Dir == "" {
		o.Dir, err = os.MkdirTemp("", "toolbus-chaos-")
	} else {
		err = os.MkdirAll(o.Dir, 0o700)
	}
	if err == nil {
		o.Dir, err = filepath.Abs(o.Dir)
	}
	return o, err
}

// some is the number of calls per second at which the background loss has its full rate. With more calls the rate
// falls, so that the number of lost messages stays the same.
const some = 30

// drive makes the calls and the faults, waits until every call has ended, and checks the history.
func drive(ctx context.Context, o Options, c *cluster) (Report, error) {
	d, err := newDriver(ctx, c, callers+2*o.condemned())
	if err != nil {
		return Report{}, err
	}
	w, err := newWatch(c, o.Partitions)
	if err != nil {
		return Report{}, errors.Join(err, d.close())
	}
	d.begun = time.Now()
	d.pulse = stall.New()
	r := &run{
		Options: o, cluster: c, driver: d, watch: w, kept: evidence.Keepsake{},
		havoc: &havoc{
			cluster: c, tell: o.Tell, begun: d.begun, watch: w, counts: map[string]int{}, storms: map[string]int{},
			operator: d.operator, weather: proxy.Weather(some / (some + o.Steady)),
		},
	}
	err = errors.Join(r.play(ctx), ctx.Err(), d.close(), w.close())
	if err != nil {
		return Report{}, err
	}
	return r.judge(ctx)
}

// run is a run in progress.
type run struct {
	Options
	cluster *cluster
	driver  *driver
	havoc   *havoc
	watch   *watch
	kept    evidence.Keepsake

	governed checker.Governed

	mu      sync.Mutex
	revoked []checker.Revocation
}

// play makes the calls and the faults, and returns when every call has ended.
func (r *run) play(ctx context.Context) error {
	var background sync.WaitGroup
	defer background.Wait()
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	background.Go(func() { r.driver.pulse.Run(ctx) })
	background.Go(func() { r.watch.run(ctx) })
	background.Go(func() { progress(ctx, r.Options, r.driver, r.havoc) })
	background.Go(func() { r.kept.Run(ctx, r.cluster.direct()) })
	var trouble sync.WaitGroup
	if !r.NoFaults {
		trouble.Go(func() { r.havoc.run(ctx, r.Options) })
		trouble.Go(func() { r.revocations(ctx) })
		if r.OldBinary == "" {
			trouble.Go(func() { r.govern(ctx) })
		}
	}
	calls := planCalls(r.Options)
	r.driver.run(ctx, calls, r.Steady, r.Duration)
	trouble.Wait()
	r.Tell("the trouble is over; waiting for every call to end")
	r.cluster.setAll(nil)
	return r.driver.calm(ctx, calls)
}

func progress(ctx context.Context, o Options, d *driver, h *havoc) {
	tick := time.NewTicker(o.Every)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			o.Progress(Progress{Elapsed: time.Since(d.begun), Asks: d.journal.Size(), Faults: h.total()})
		}
	}
}

// judge reads what the bus has stored, and checks it against what callers and tools have recorded.
func (r *run) judge(ctx context.Context) (Report, error) {
	asks, err := r.driver.seen()
	if err != nil {
		return Report{}, err
	}
	history := checker.History{Asks: asks, Cancels: r.driver.cancels, Led: r.watch.spans(),
		Revoked: r.revoked, Governed: r.governed, Held: r.havoc.held, SlackMS: r.watch.apart().Milliseconds()}
	if err := evidence.Gather(ctx, r.cluster.direct(), &history, r.kept); err != nil {
		return Report{}, err
	}
	if history.Effects, err = effects.Read(r.cluster.ledger()); err != nil {
		return Report{}, err
	}
	violations := checker.Check(history)
	for _, crash := range r.cluster.crashed() {
		violations = append(violations, checker.Violation{Rule: "process", Says: crash})
	}
	if r.Keep {
		if err := save(filepath.Join(r.Dir, "history.json"), history); err != nil {
			return Report{}, err
		}
	}
	return newReport(r, history, violations), nil
}

// save writes a history, so that it can be checked again.
func save(path string, h checker.History) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	return errors.Join(h.Save(f), f.Close())
}
