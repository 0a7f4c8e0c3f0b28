package demo

import (
	"context"
	"fmt"
	"time"

	"github.com/seed-018f16cc/toolbus/admin"
)

// Options configures the demo. All fields except Show are required.
type Options struct {
	Self    string   // path of the toolbus program; executors and the demo's own tool run it
	Environ []string // of the executors
	// Show is called with each event of the demo; it may be nil.
	Show Show
}

// Show displays a demo while it runs.
type Show interface {
	Status(text string) // what is happening now
	Line(Line)          // a line is complete
	Trail([]admin.AuditRecord)
}

// Line is the result of one scene: what happened to one or two calls, and whether that was expected.
type Line struct {
	Number   int           `json:"number"`
	Scene    string        `json:"scene"`
	After    time.Duration `json:"-"` // since the start of the demo
	AfterMS  int64         `json:"after_ms"`
	Outcome  string        `json:"outcome"`
	Happened string        `json:"happened"`
	MS       int64         `json:"ms"`
	OK       bool          `json:"ok"`
	Fault    string        `json:"fault,omitzero"` // why OK is false
	Notes    []string      `json:"notes,omitzero"`
}

// Report is the result of the demo.
type Report struct {
	OK    bool                `json:"ok"`
	MS    int64               `json:"ms"`
	Lines []Line              `json:"lines"`
	Trail []admin.AuditRecord `json:"audit"`
}

// sceneTime is the timeout of one scene. The longest scene needs a fraction of it.
const sceneTime = 30 * time.Second

// Run runs the demo. An error means that it could not be run. The results of the scenes are in the report.
func Run(ctx context.Context, o Options) (Report, error) {
	if o.Show == nil {
		o.Show = nobody{}
	}
	began := time.Now()
	o.Show.Status("starting a bus")
	s, err := open(ctx, o)
	if err != nil {
		return Report{}, err
	}
	defer s.close()
	r := Report{OK: true}
	for i, sc := range scenes() {
		o.Show.Status(sc.title)
		line := s.play(ctx, sc)
		line.Number, line.After = i+1, time.Since(began)
		line.AfterMS = line.After.Milliseconds()
		if ctx.Err() != nil {
			return r, context.Cause(ctx)
		}
		r.OK = r.OK && line.OK
		r.Lines = append(r.Lines, line)
		o.Show.Line(line)
	}
	if r.Trail, err = s.trail(ctx); err != nil {
		return r, err
	}
	o.Show.Trail(r.Trail)
	r.MS = time.Since(began).Milliseconds()
	return r, nil
}

// play runs one scene. If it fails, Fault of the line has the reason.
func (s *stage) play(ctx context.Context, sc scene) Line {
	ctx, cancel := context.WithTimeout(ctx, sceneTime)
	defer cancel()
	began := time.Now()
	told, err := sc.play(ctx, s)
	line := Line{
		Scene: sc.title, Outcome: told.outcome, Happened: told.happened, Notes: told.notes,
		MS: time.Since(began).Milliseconds(), OK: err == nil,
	}
	if err != nil {
		line.Fault = err.Error()
	}
	return line
}

// nobody is a Show that displays nothing.
type nobody struct{}

func (nobody) Status(string)             {}
func (nobody) Line(Line)                 {}
func (nobody) Trail([]admin.AuditRecord) {}

// should returns an error with the expectation unless ok is true.
func should(ok bool, format string, args ...any) error {
	if ok {
		return nil
	}
	return fmt.Errorf("should be: "+format, args...)
}
