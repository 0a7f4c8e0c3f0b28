package demo

import (
	"context"
	"fmt"
	"time"

	"github.com/seed-018f16cc/toolbus/admin"
)

// Options say where the demo finds what it needs. All are required but Show.
type Options struct {
	Self    string   // the toolbus program: the executors and the demo's own tool are it
	Tools   string   // the folder of the shipped tools
	Environ []string // of the executors
	// Show is told of everything as it happens; it may be nil.
	Show Show
}

// Show follows a demo as it goes.
type Show interface {
	Status(text string) // what is going on now
	Line(Line)          // a line is finished
	Trail([]admin.AuditRecord)
}

// Line is one scene of the demo: what happened to one or two calls, and whether it should have.
type Line struct {
	Number   int           `json:"number"`
	Scene    string        `json:"scene"`
	After    time.Duration `json:"-"` // since the demo began
	AfterMS  int64         `json:"after_ms"`
	Outcome  string        `json:"outcome"`
	Happened string        `json:"happened"`
	MS       int64         `json:"ms"`
	OK       bool          `json:"ok"`
	Fault    string        `json:"fault,omitzero"` // why it is not
	Notes    []string      `json:"notes,omitzero"`
}

// Report is the whole demo.
type Report struct {
	OK    bool                `json:"ok"`
	MS    int64               `json:"ms"`
	Lines []Line              `json:"lines"`
	Trail []admin.AuditRecord `json:"audit"`
}

// sceneTime bounds one scene; the longest needs a fraction of it.
const sceneTime = 30 * time.Second

// Run plays the demo. The error says that it could not be played; how it went is in the report.
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

// play plays one scene; a scene that goes wrong says so in its line.
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

// nobody watches.
type nobody struct{}

func (nobody) Status(string)             {}
func (nobody) Line(Line)                 {}
func (nobody) Trail([]admin.AuditRecord) {}

// should returns an error with what should have been, unless ok.
func should(ok bool, format string, args ...any) error {
	if ok {
		return nil
	}
	return fmt.Errorf("should be: "+format, args...)
}
