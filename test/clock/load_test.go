package clock

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/chaos/effects"
	clientlib "github.com/seed-018f16cc/toolbus/internal/client"
)

// made is a call with the outcome that its caller was told.
type made struct {
	clientlib.Call
	n           int
	began, took time.Duration // since the begin of the load
	told        *envelope.Response
}

func (m made) String() string {
	return fmt.Sprintf("call %d of %s, begun at %s, took %s: %s", m.n, m.Tool, m.began.Round(time.Millisecond),
		m.took.Round(time.Millisecond), said(m.told))
}

func said(r *envelope.Response) string {
	if r.Error == nil {
		return string(r.Status)
	}
	return fmt.Sprintf("%s %s effect %q final %t: %s (%s)", r.Status, r.Error.Code, r.Error.Details.Effect,
		r.Provenance.Final, r.Error.Message, r.Error.Cause)
}

// load makes calls until it is told to stop.
type load struct {
	t      *testing.T
	client *clientlib.Client
	began  time.Time

	mu    sync.Mutex
	n     int
	calls []made
}

// run makes calls from a number of callers until ctx ends. Each call takes up to most, and has that timeout.
func (l *load) run(ctx context.Context, callers int, most, timeout time.Duration) {
	var all sync.WaitGroup
	for range callers {
		all.Go(func() {
			for ctx.Err() == nil {
				l.call(time.Duration(rand.Int64N(int64(most))), timeout)
			}
		})
	}
	all.Wait()
}

func (l *load) call(takes, timeout time.Duration) {
	l.mu.Lock()
	l.n++
	m := made{n: l.n, began: time.Since(l.began)}
	l.mu.Unlock()
	m.Call = clientlib.Call{
		Tool: classes[m.n%len(classes)], Key: uuid.NewString(), CallID: uuid.NewString(), Timeout: timeout,
		Retry: &envelope.RetryPolicy{MaxAttempts: 1}, Input: fmt.Appendf(nil, `{"n":%d,"work_ms":%d}`, m.n,
			takes.Milliseconds()),
	}
	var err error
	if m.told, err = l.client.Call(context.WithoutCancel(l.t.Context()), m.Call); err != nil {
		l.t.Errorf("call %d: %v", m.n, err)
		return
	}
	m.took = time.Since(l.began) - m.began
	l.mu.Lock()
	defer l.mu.Unlock()
	l.calls = append(l.calls, m)
}

// check compares what callers were told with what tools did, and with what is stored.
func (l *load) check(ledger string) {
	l.t.Helper()
	commits := effectsOf(l.t, ledger)
	told := map[string]int{}
	for _, m := range l.calls {
		n := commits[strconv.Itoa(m.n)]
		told[m.Tool+" "+said(m.told)]++
		switch {
		case m.Tool == "side_effectful" && n > 1:
			l.t.Errorf("%s: %d effects", m, n)
		case m.told.Error == nil && n == 0:
			l.t.Errorf("%s: without an effect", m)
		case n > 0 && m.Tool != "pure" && m.told.Error != nil && m.told.Error.Details.Effect == envelope.EffectNone:
			l.t.Errorf("%s: but it was committed", m)
		case m.told.Metrics.DurationMS < 0 || m.told.Metrics.QueueMS < 0:
			l.t.Errorf("%s: metrics %+v", m, m.told.Metrics)
		}
	}
	l.t.Logf("%d calls, %d of them with effects: %v", len(l.calls), len(commits), told)
	l.again(commits)
}

// effectsOf returns the number of effects of each call.
func effectsOf(t *testing.T, ledger string) map[string]int {
	t.Helper()
	lines, err := effects.Read(ledger)
	if err != nil {
		t.Fatal(err)
	}
	commits := map[string]int{}
	for _, line := range lines {
		commits[line.Key]++
	}
	return commits
}

// again asks for the outcomes a second time.
func (l *load) again(commits map[string]int) {
	l.t.Helper()
	var all sync.WaitGroup
	places := make(chan bool, 16)
	for _, m := range l.calls {
		if !m.told.Provenance.Final {
			continue
		}
		places <- true
		all.Go(func() {
			defer func() { <-places }()
			r, err := l.client.Call(l.t.Context(), m.Call)
			switch {
			case err != nil:
				l.t.Errorf("%s: asked again: %v", m, err)
			case said(r) != said(m.told):
				l.t.Errorf("%s: asked again: %s", m, said(r))
			case m.told.Error != nil && m.told.Error.Details.Effect == envelope.EffectNone && m.Tool != "pure" &&
				commits[strconv.Itoa(m.n)] > 0:
				l.t.Errorf("%s: asked again, but it was committed", m)
			}
		})
	}
	all.Wait()
}

// answered returns when a call that began after a time was the first of these to be answered by a dispatcher or an
// executor.
func (l *load) answered(after time.Duration) time.Duration {
	first := time.Since(l.began)
	for _, m := range l.calls {
		if m.began > after && m.told.Provenance.AuditEventID != "" {
			first = min(first, m.began+m.took)
		}
	}
	return first
}

// refused returns the calls that began after a time and ended with an error.
func (l *load) refused(after time.Duration) (all []made) {
	for _, m := range l.calls {
		if m.began > after && m.told.Error != nil {
			all = append(all, m)
		}
	}
	return all
}
