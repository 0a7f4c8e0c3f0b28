package chaos

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"time"

	"github.com/seed-018f16cc/toolbus/internal/chaos/check"
	"github.com/seed-018f16cc/toolbus/internal/chaos/ledger"
)

// Options say what is done to whom.
type Options struct {
	Binary   string        // the toolbus program; required
	Seed     uint64        // of the plan
	Duration time.Duration // of the trouble; default one minute
	Rate     float64       // keys asked for a second, each several times; default 10
	Calls    int           // how many keys at the most; 0 is as many as fit
	Dir      string        // where it happens; default a folder of its own among temporary files
	Keep     bool          // keep that folder, with logs and the recorded history
	// SyncAlways makes the server sync before it acknowledges. Killing a server loses nothing
	// of what it acknowledged either way; only a power cut tells the difference.
	SyncAlways bool
	Partitions int              // of the call log; default 2 for odd seeds, else 1
	Calm       bool             // make no trouble: what fails then is broken without it
	Tell       func(string)     // is told what is done; may be nil
	Every      time.Duration    // how often Progress is told; default 5 s
	Progress   func(p Progress) // may be nil
}

// Progress is how far a run has come.
type Progress struct {
	Elapsed time.Duration
	Asks    int
	Faults  int
}

// Run makes one run and judges it. The error means that the run itself failed, and nothing is
// known; broken promises are in the report.
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

// drive makes the calls and the trouble, waits for calm, and judges.
func drive(ctx context.Context, o Options, c *cluster) (Report, error) {
	d, err := newDriver(c)
	if err != nil {
		return Report{}, err
	}
	calls, faults := planCalls(o.Seed, o.Duration, o.Rate, o.Calls), planFaults(o.Seed, o.Duration)
	d.begun = time.Now()
	h := &havoc{cluster: c, tell: o.Tell, begun: d.begun, counts: map[string]int{}, storms: map[string]int{}}
	d.pulse = &pulse{begun: d.begun}
	background, stop := context.WithCancel(ctx)
	beating := make(chan struct{})
	go func() { // waited for below
		defer close(beating)
		d.pulse.run(background)
	}()
	ended := make(chan struct{})
	go func() { // waited for below
		defer close(ended)
		if !o.Calm {
			h.run(ctx, faults)
		}
	}()
	reported := make(chan struct{})
	go func() { // waited for below
		defer close(reported)
		progress(background, o, d, h)
	}()
	kept := archive{}
	archived := make(chan struct{})
	go func() { // waited for below
		defer close(archived)
		kept.run(background, "nats://"+c.server)
	}()
	d.run(ctx, calls)
	<-ended
	o.Tell("the trouble is over; waiting for every call to end")
	c.set(nil)
	err = d.calm(ctx, calls)
	stop()
	<-reported
	<-beating
	<-archived
	err = errors.Join(ctx.Err(), err, d.close())
	if err != nil {
		return Report{}, err
	}
	return judge(ctx, o, c, d, h, kept)
}

func progress(ctx context.Context, o Options, d *driver, h *havoc) {
	tick := time.NewTicker(o.Every)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			o.Progress(Progress{Elapsed: time.Since(d.begun), Asks: d.journal.size(), Faults: h.total()})
		}
	}
}

// judge reads what is kept and holds it against what was seen.
func judge(ctx context.Context, o Options, c *cluster, d *driver, h *havoc, kept archive) (Report, error) {
	asks, err := d.seen()
	if err != nil {
		return Report{}, err
	}
	history := check.History{Asks: asks, Cancels: d.cancels}
	if err := gather(ctx, "nats://"+c.server, &history, kept); err != nil {
		return Report{}, err
	}
	if history.Effects, err = ledger.Read(c.ledger()); err != nil {
		return Report{}, err
	}
	violations := check.Check(history)
	for _, crash := range c.crashed() {
		violations = append(violations, check.Violation{Rule: "process", Says: crash})
	}
	if o.Keep {
		if err := save(filepath.Join(o.Dir, "history.json"), history); err != nil {
			return Report{}, err
		}
	}
	return newReport(o, c, h, history, violations), nil
}

// save keeps a history, to be judged again.
func save(path string, h check.History) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	return errors.Join(h.Save(f), f.Close())
}
