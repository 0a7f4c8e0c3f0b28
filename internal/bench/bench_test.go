package bench

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-json-experiment/json"
	"go.uber.org/goleak"

	"github.com/seed-018f16cc/toolbus/internal/app"
	"github.com/seed-018f16cc/toolbus/internal/timer/timertest"
	"github.com/seed-018f16cc/toolbus/internal/tool"
	"github.com/seed-018f16cc/toolbus/internal/tool/native"
	"github.com/seed-018f16cc/toolbus/internal/tool/process"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestCheck(t *testing.T) {
	t.Parallel()
	if err := (Options{}).Check(); err != nil {
		t.Error(err)
	}
	err := Options{Mode: "cloud", Sync: "never", Scenario: "x", Side: "y", Callers: []int{0}, Sizes: []int{1}}.Check()
	for _, flag := range []string{"--server-mode", "--sync", "--scenario", "--side", "--callers", "--size"} {
		if err == nil || !strings.Contains(err.Error(), flag) {
			t.Errorf("%v does not name %s", err, flag)
		}
	}
}

func TestInput(t *testing.T) {
	t.Parallel()
	for _, size := range []int{minSize, 256, maxSize} {
		if in := input(size); len(in) != size || !in.IsValid() {
			t.Errorf("input of %d bytes has %d", size, len(in))
		}
	}
}

func TestClosedLoop(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var calls atomic.Int64
		ids := &numbers{}
		l, err := closed(t.Context(), ids, 4, 50*time.Millisecond, func(context.Context, uint64) error {
			calls.Add(1)
			<-time.After(time.Millisecond)
			return nil
		})
		if err != nil || int64(len(l.latencies)) != calls.Load() || ids.n.Load() != uint64(calls.Load()) ||
			calls.Load() != 4*50 {
			t.Errorf("%d calls, %d latencies, %d numbers, %v", calls.Load(), len(l.latencies), ids.n.Load(), err)
		}
		if l.percentile(50) != 1 || l.percentile(100) != 1 {
			t.Errorf("p50 %f, max %f", l.percentile(50), l.percentile(100))
		}
		bad := errors.New("bad")
		if _, err := closed(t.Context(), ids, 4, time.Minute,
			func(context.Context, uint64) error { return bad }); !errors.Is(err, bad) {
			t.Errorf("%v, want the error of the call", err)
		}
	})
}

// In the open loop, a call starts when it is due, and its latency includes a delay of the start.
func TestOpenLoop(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l, err := open(t.Context(), &numbers{}, 200, 100*time.Millisecond, func(context.Context, uint64) error {
			<-time.After(60 * time.Millisecond)
			return nil
		})
		if err != nil || len(l.latencies) != 20 || l.percentile(1) != 60 || l.took != (95+60)*time.Millisecond {
			t.Errorf("%d calls in %s, the quickest in %f ms, %v", len(l.latencies), l.took, l.percentile(1), err)
		}
	})
}

func TestPercentiles(t *testing.T) {
	t.Parallel()
	l := load{took: 2 * time.Second}
	for n := range 100 {
		l.latencies = append(l.latencies, time.Duration(n+1)*time.Millisecond)
	}
	for p, want := range map[int]float64{1: 1, 50: 50, 99: 99, 100: 100} {
		if got := l.percentile(p); got != want {
			t.Errorf("p%d is %f, want %f", p, got, want)
		}
	}
	if l.perSecond() != 50 || (load{}).percentile(50) != 0 {
		t.Error("throughput or the empty load")
	}
	if median([]float64{3, 1, 2}) != 2 || median([]float64{4, 1, 2, 3}) != 2.5 {
		t.Error("median")
	}
}

// A small comparison: both sides run, are measured, and are compared with their targets.
func TestMatrix(t *testing.T) {
	o := Options{
		Callers: []int{2}, Sizes: []int{256}, Duration: 500 * time.Millisecond, Rounds: 2, Rate: 100,
		Mode: Embedded, Sync: Interval, Dir: t.TempDir(), Slots: 16,
	}
	watch := timertest.StartStallMeter()
	defer watch.End()
	r, err := Run(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	most := 3.1 // two events, and a segment that many calls share; a single call has a segment of its own
	if watch.Late() > 200*time.Millisecond {
		most = 4.1 // on a slow machine a message is delivered twice, and the second run claims
	}
	if len(r.Rows) != 2 {
		t.Fatalf("%d rows, want one closed and one open", len(r.Rows))
	}
	for _, row := range r.Rows {
		for name, s := range map[string]*Stats{raw: row.Raw, theFloor: row.Floor, ours: row.Toolbus} {
			if s == nil || s.Calls < 4 || s.P50 <= 0 || s.P99 < s.P50 || s.CPU <= 0 || s.Allocs <= 0 || s.Messages < 10 ||
				s.WireKB <= 0 {
				t.Errorf("%s %s: %+v", row.name(), name, s)
			}
		}
		if row.Raw.Writes < 2.9 || row.Raw.Writes > 3.1 || row.Toolbus.Writes < 2 || row.Toolbus.Writes > most {
			t.Errorf("%s: %.2f and %.2f durable writes per call, want 3 and 2 to 3",
				row.name(), row.Raw.Writes, row.Toolbus.Writes)
		}
		checkCounts(t, row)
		if len(row.Checks) != 1 {
			t.Errorf("%s: checks %v", row.name(), row.Checks)
		}
	}
	var out bytes.Buffer
	if err := r.Write(&out); err != nil || !strings.Contains(out.String(), "embedded") {
		t.Errorf("%v: %s", err, &out)
	}
	if _, err := json.Marshal(r); err != nil {
		t.Error(err)
	}
}

// A deployment with tokens answers calls while more connections are open than one token may have.
func TestIdentity(t *testing.T) {
	o := Options{
		Callers: []int{2}, Sizes: []int{256}, Duration: 300 * time.Millisecond, Rounds: 1, Quick: true,
		Scenario: Identity, Mode: Embedded, Sync: Interval, Dir: t.TempDir(), Slots: 16,
	}
	r, err := Run(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	if len(r.Results) != 1 || len(r.Results[0].Checks) != 3 {
		t.Errorf("%+v, want one result with three checks", r.Results)
	}
}

func TestTargets(t *testing.T) {
	t.Parallel()
	row := func(server string, sync syncMode, bytes, callers int) *Row {
		return &Row{Server: server, Sync: sync, Bytes: bytes, Callers: callers,
			Ratio: &Ratios{PerSecond: 0.55, P50: 1.4, P95: 1.2, P99: 3}, FloorRatio: &Ratios{PerSecond: 0.7},
			Toolbus: &Stats{Allocs: 250}}
	}
	for _, c := range []struct {
		row    *Row
		checks int
		missed int
	}{
		{row(Process, Interval, 256, 1), 2, 1}, {row(Process, Interval, 256, 16), 3, 2},
		{row(Process, Interval, 256, 128), 3, 1}, {row(Embedded, Interval, 256, 16), 1, 0},
		{row(Process, Interval, 64<<10, 1), 0, 0}, {row(Process, Interval, 64<<10, 16), 1, 1},
		{row(Process, Always, 256, 16), 1, 1}, {row(Process, Always, 256, 128), 1, 1},
		{row(Process, Always, 64<<10, 16), 0, 0}, {row(Process, Interval, 256, 0), 1, 0},
	} {
		checks := c.row.targets()
		if len(checks) != c.checks || missed(checks) != c.missed {
			t.Errorf("%s: %v", c.row.name(), checks)
		}
		if report := (&Report{Rows: []Row{{Checks: checks}},
			Results: []Result{{Checks: checks}}}); report.Missed() != 2*c.missed {
			t.Errorf("%d missed, want %d", report.Missed(), 2*c.missed)
		}
	}
}

func TestWriteTools(t *testing.T) {
	t.Parallel()
	for _, transport := range []string{native.Transport, process.Transport} {
		dir := t.TempDir()
		if err := writeTools(dir, 3, transport); err != nil {
			t.Fatal(err)
		}
		r, err := tool.Load(dir, app.Transports()...)
		if err != nil || r.Len() != 3 {
			t.Errorf("%s: %v", transport, err)
		}
	}
}
