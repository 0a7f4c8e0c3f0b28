// Package clock tests what happens when somebody sets the clock of a server or of the other processes, and calls over
// a network whose delay changes.
package clock

import (
	"context"
	"flag"
	"fmt"
	"maps"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/deployment/processtest"
	"github.com/seed-018f16cc/toolbus/internal/timer/timertest"
)

var all = flag.Bool("all", false, "set clocks by every step, and run ten minutes with jitter")

// stepped is one step of clocks.
type stepped struct {
	server  bool // otherwise of the processes
	by      time.Duration
	restart bool // of the server
}

func (s stepped) String() string {
	whose, how := "processes", "running"
	if s.server {
		whose = "server"
	}
	if s.restart {
		how = "restarted"
	}
	return fmt.Sprintf("%s %s %s", whose, s.by, how)
}

// steps returns one step each way, or all.
func steps() (list []stepped) {
	if !*all {
		return []stepped{{true, 15 * time.Minute, true}, {false, -15 * time.Second, false}}
	}
	for _, by := range []time.Duration{15 * time.Second, 15 * time.Minute, time.Hour} {
		for _, server := range []bool{true, false} {
			for _, restart := range []bool{false, true} {
				list = append(list, stepped{server, by, restart}, stepped{server, -by, restart})
			}
		}
	}
	return list
}

// back returns how long calls may be refused after a clock was set and dispatchers answer again: 2 s, and as much again
// for steps that run at the same time.
func back() time.Duration {
	if *all {
		return 2 * time.Second
	}
	return 4 * time.Second
}

func TestClocks(t *testing.T) {
	role := processtest.BuildWithWall(t, ".", "./role")
	for _, step := range steps() {
		t.Run(step.String(), func(t *testing.T) {
			if !*all { // of many at a time, none would be served within its bounds
				t.Parallel()
			}
			testStep(t, role, step)
		})
	}
	t.Run("expired", func(t *testing.T) {
		if !*all {
			t.Parallel()
		}
		testExpired(t, role)
	})
	t.Run("jitter", func(t *testing.T) {
		if !*all {
			t.Parallel()
		}
		testJitter(t, role)
	})
}

func testStep(t *testing.T, role string, step stepped) {
	s := newSystem(t, role)
	s.startAll()
	l := &load{t: t, client: s.client(), began: time.Now()}
	ctx, stop := context.WithCancel(t.Context())
	var loads sync.WaitGroup
	loads.Go(func() { l.run(ctx, 6, 200*time.Millisecond, 10*time.Second) })
	loads.Go(func() { l.run(ctx, 6, 3*time.Second, 10*time.Second) })
	watch := timertest.StartStallMeter()
	defer watch.End()
	rest(time.Second)
	if step.restart {
		s.server.Kill()
	}
	if step.server {
		s.ofServer.Set(step.by)
	} else {
		s.ofOther.Set(step.by)
	}
	if step.restart {
		s.serve()
	}
	set := time.Since(l.began)
	rest(back() + 3*time.Second)
	stop()
	loads.Wait()
	answered := l.answered(set)
	for _, m := range l.refused(answered + back() + watch.Late()) {
		t.Errorf("%s: refused %s after the first answer since the step", m, m.began-answered)
	}
	l.check(s.ledger)
}

func rest(d time.Duration) { <-time.After(d) }

// testExpired sets the clock of the server so far that it drops the log of a call a day early. The call does not run
// again with its key, also by a dispatcher that starts later.
func testExpired(t *testing.T, role string) {
	s := newSystem(t, role)
	s.startAll()
	l := &load{t: t, client: s.client(), began: time.Now()}
	for range classes {
		l.call(0, 10*time.Second)
	}
	first := l.calls
	rest(2 * time.Second) // until all dispatchers have read the events
	s.server.Kill()
	s.ofServer.Set(25 * time.Hour) // the tools retain outcomes for a day
	s.serve()
	for called := false; !called; { // until dispatchers have noticed
		l.calls = nil
		l.call(0, time.Second)
		called = l.calls[0].told.Error == nil
	}
	commits := effectsOf(t, s.ledger)
	l.wantRefused(first)
	rest(2 * time.Second) // the list of kept calls is written every second
	s.dispatchers[0].Kill()
	s.start(s.ofOther, "dispatcher", s.via, s.tools)
	s.dispatchers[1].Kill()
	l.wantRefused(first)
	if after := effectsOf(t, s.ledger); !maps.Equal(commits, after) {
		t.Errorf("effects %v, and before %v", after, commits)
	}
}

// wantRefused makes calls again whose logs have expired early.
func (l *load) wantRefused(calls []made) {
	l.t.Helper()
	for _, m := range calls {
		m.CallID, m.Timeout = uuid.NewString(), time.Minute // copies that a killed dispatcher got are lost
		r, err := l.client.Call(l.t.Context(), m.Call)
		for err == nil && r.Provenance.Replayed { // the server drops what has expired soon after its start
			r, err = l.client.Call(l.t.Context(), m.Call)
		}
		switch {
		case err != nil:
			l.t.Fatal(err)
		case r.Error == nil || r.Error.Code != envelope.CodeLogDamaged || r.Error.Details.Effect != envelope.EffectUnknown:
			l.t.Errorf("%s: called again: %s", m, said(r))
		}
	}
}
