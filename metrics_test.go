package toolbus_test

import (
	"cmp"
	"context"
	"math"
	"strings"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	"go.opentelemetry.io/otel/attribute"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	"github.com/seed-018f16cc/toolbus"
	"github.com/seed-018f16cc/toolbus/admin"
	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/natsserver/natstest"
	"github.com/seed-018f16cc/toolbus/toolbustest"
)

// meter is the reader of the metrics of one process.
type meter struct {
	*sdkmetric.ManualReader
	provider *sdkmetric.MeterProvider
}

func newMeter() meter {
	reader := sdkmetric.NewManualReader()
	return meter{reader, sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader))}
}

// add adds the sums and the number of values of the histograms to all, by name and attributes.
func (m meter) add(t *testing.T, all map[string]int64) {
	t.Helper()
	var found metricdata.ResourceMetrics
	if err := m.Collect(context.WithoutCancel(t.Context()), &found); err != nil {
		t.Fatal(err)
	}
	for _, scope := range found.ScopeMetrics {
		for _, one := range scope.Metrics {
			switch data := one.Data.(type) {
			case metricdata.Sum[int64]:
				for _, p := range data.DataPoints {
					all[seriesName(one.Name, p.Attributes)] += p.Value
				}
			case metricdata.Gauge[float64], metricdata.Sum[float64]: // see TestDeploymentMetrics
			case metricdata.Histogram[float64]:
				for _, p := range data.DataPoints {
					all[seriesName(one.Name, p.Attributes)] += int64(p.Count)
				}
			default:
				t.Errorf("%s is a %T", one.Name, data)
			}
		}
	}
}

// seriesName names a series. At a deadline the executor and a dispatcher may both decide, and either may win.
func seriesName(name string, of attribute.Set) string {
	return name + " " + strings.ReplaceAll(of.Encoded(attribute.DefaultEncoder()), "by=deadline", "by=executor")
}

// metered runs a bus whose dispatcher and executor are separate processes to their meters. counts stops it and returns
// the sums over both.
func metered(t *testing.T, tools *toolbus.Toolset) (b *toolbustest.Bus, counts func() map[string]int64) {
	t.Helper()
	meters := []meter{newMeter(), newMeter()}
	b, stop := apart(t, tools, toolbus.Options{MeterProvider: meters[0].provider},
		toolbus.Options{MeterProvider: meters[1].provider})
	return b, func() map[string]int64 {
		stop()
		all := map[string]int64{}
		for _, m := range meters {
			m.add(t, all)
		}
		return all
	}
}

// apart runs a bus whose dispatcher and executor have connections of their own, until stop is called.
func apart(
	t *testing.T, tools *toolbus.Toolset, dispatcher, executor toolbus.Options,
) (b *toolbustest.Bus, stop func()) {
	t.Helper()
	url := natstest.Start(t).URL
	var conns []*toolbus.Conn
	for _, o := range []toolbus.Options{dispatcher, executor} {
		conn, err := toolbus.Connect(t.Context(), url, o)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(conn.Close)
		conns = append(conns, conn)
	}
	d, err := conns[0].Dispatcher(tools, toolbus.DispatcherOptions{InsecureNoAuth: true, AllowAll: true})
	if err != nil {
		t.Fatal(err)
	}
	e, err := conns[1].Executor(tools, toolbus.ExecutorOptions{})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ready, ended := make(chan struct{}), make(chan error, 1)
	go func() { ended <- toolbus.Serve(ctx, d, e, func() { close(ready) }) }()
	select {
	case <-ready:
	case err := <-ended:
		t.Fatal(err)
	}
	return &toolbustest.Bus{Conn: conns[0], URL: url}, func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
}

// Each outcome is counted once, by the process that decided it, under the names of 004 §4.3. No attribute has a text
// that a sender makes up.
func TestMetrics(t *testing.T) {
	tools := toolbus.NewToolset()
	type order struct {
		Do string `json:"do"`
	}
	about := toolbus.Tool{ID: "work", Version: "2.0.0", Class: toolbus.Pure, Errors: []*toolbus.ToolError{errBusy}}
	must(t, tools, about, func(ctx context.Context, _ *toolbus.Run, in order) (string, error) {
		switch in.Do {
		case "busy":
			return "", errBusy.Because("full")
		case "wait":
			<-ctx.Done()
			return "", ctx.Err()
		}
		return "done", nil
	})
	b, counts := metered(t, tools)
	c := client(t, b.URL, toolbus.ClientOptions{})
	call := func(o toolbus.Call) {
		t.Helper()
		o.Tool = cmp.Or(o.Tool, "work")
		if _, err := toolbus.Outcome(c.Call(t.Context(), o)); err != nil {
			t.Fatal(err)
		}
	}
	input := func(do string) []byte { return []byte(`{"do":"` + do + `"}`) }
	call(toolbus.Call{Input: input("ok"), Key: "the-same-key-twice"})
	call(toolbus.Call{Input: input("ok"), Key: "the-same-key-twice"})
	call(toolbus.Call{Input: input("busy"), Retry: &toolbus.RetryPolicy{MaxAttempts: 2}})
	call(toolbus.Call{Input: input("wait"), Timeout: 200 * time.Millisecond, Retry: once})
	call(toolbus.Call{Input: []byte(`{"do":5}`)})
	call(toolbus.Call{Input: input("ok"), Tool: "made.up"})
	call(toolbus.Call{Input: input("ok"), Function: "made_up"})

	got := counts()
	if name := "toolbus.replay.count tool=work,version=2.0.0"; got[name] > 1 {
		got[name] = 1 // a client that hears nothing for a while asks again
	}
	for name := range got {
		if strings.Contains(strings.ReplaceAll(name, "invocation", ""), "made") {
			t.Errorf("%s names what a sender made up", name)
		}
	}
	const of = ",tool=work,version=2.0.0"
	want := map[string]int64{
		"tool.invocation.count action=run,status=success" + of:                                1,
		"tool.invocation.count action=run,status=retryable_error" + of:                        3,
		"tool.invocation.count status=invalid_request" + of:                                   2,
		"tool.invocation.count status=invalid_request,tool=other,version=other":               1,
		"tool.invocation.duration action=run" + of:                                            4,
		"tool.retry.count error_code=R-UPSTREAM-BUSY" + of:                                    1,
		"tool.error.count error_code=R-UPSTREAM-BUSY" + of:                                    2,
		"tool.error.count error_code=R-TIMEOUT-001" + of:                                      1,
		"tool.error.count error_code=I-REQ-FN_UNKNOWN" + of:                                   1,
		"tool.error.count error_code=I-REQ-SCHEMA" + of:                                       1,
		"tool.error.count error_code=I-REQ-TOOL_UNKNOWN,tool=other,version=other":             1,
		"toolbus.outcome.count by=executor,status=success,tenant=default":                     1,
		"toolbus.outcome.count by=executor,status=retryable_error,tenant=default":             3,
		"toolbus.queue.duration pool=default":                                                 4,
		"toolbus.replay.count tool=work,version=2.0.0":                                        1,
		"toolbus.run.active tool=work,version=2.0.0":                                          0,
		"toolbus.refusal.count error_code=I-REQ-FN_UNKNOWN,stage=function,tenant=default":     1,
		"toolbus.refusal.count error_code=I-REQ-SCHEMA,stage=schema,tenant=default":           1,
		"toolbus.refusal.count error_code=I-REQ-TOOL_UNKNOWN,stage=registered,tenant=default": 1,
	}
	if diff := gocmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// numbers returns what a dispatcher says of its deployment, by name and attributes.
func (m meter) numbers(t *testing.T) map[string]float64 {
	t.Helper()
	var found metricdata.ResourceMetrics
	if err := m.Collect(t.Context(), &found); err != nil {
		t.Fatal(err)
	}
	all := map[string]float64{}
	for _, scope := range found.ScopeMetrics {
		for _, one := range scope.Metrics {
			if data, ok := one.Data.(metricdata.Gauge[float64]); ok {
				for _, p := range data.DataPoints {
					all[seriesName(one.Name, p.Attributes)] = p.Value
				}
			}
		}
	}
	return all
}

// A dispatcher shows what waits, the streams, the policy and the locks. It shows nothing once it has ended.
func TestDeploymentMetrics(t *testing.T) {
	m, url := newMeter(), natstest.Start(t).URL
	conn, err := toolbus.Connect(t.Context(), url, toolbus.Options{MeterProvider: m.provider})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(conn.Close)
	tools := toolbus.NewToolset()
	must(t, tools, toolbus.Tool{ID: "work", Version: "1.0.0", Class: toolbus.Pure},
		func(context.Context, *toolbus.Run, string) (string, error) { return "", nil })
	d, err := conn.Dispatcher(tools, toolbus.DispatcherOptions{
		InsecureNoAuth: true, AllowAll: true, PoolAbsence: time.Hour,
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	ended, waits := make(chan error, 1), make(chan error, 1)
	go func() { ended <- d.Run(ctx) }()
	c := client(t, url, toolbus.ClientOptions{})
	go func() {
		_, err := c.Call(ctx, toolbus.Call{Tool: "work", Input: []byte(`"x"`)})
		waits <- err
	}()
	got, late := map[string]float64{}, time.After(30*time.Second)
	for got["toolbus.queue.age pool=default"] == 0 || got["toolbus.stream.size stream=KV_policy"] == 0 {
		select {
		case <-late:
			t.Fatal(got)
		case <-time.After(20 * time.Millisecond):
			got = m.numbers(t)
		}
	}
	for name, want := range map[string]float64{
		"toolbus.queue.depth pool=default": 1, "toolbus.lock.active ": 0, "toolbus.stream.messages stream=DEAD": 0,
		"toolbus.stream.limit stream=KV_calls": 4 << 30, "toolbus.follower.lag ": 0, "toolbus.call.open tenant=default": 1,
		"toolbus.replica.away stream=KV_calls": 0,
	} {
		if have, ok := got[name]; !ok || have != want {
			t.Errorf("%s is %v, want %v", name, have, want)
		}
	}
	if off, ok := got["toolbus.clock.offset "]; !ok || math.Abs(off) > 1 {
		t.Errorf("the clock is %v s from itself", off)
	}
	if _, ok := got["toolbus.record.lag "]; !ok || got["toolbus.stream.size stream=KV_policy"] == 0 ||
		got["toolbus.policy.revision "] == 0 {
		t.Error(got)
	}
	lockAll(t, url)
	if got := m.numbers(t); got["toolbus.lock.active "] != 1 {
		t.Errorf("%v locks", got["toolbus.lock.active "])
	}
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	<-waits
	if got := m.numbers(t); len(got) > 0 {
		t.Errorf("at its end: %v", got)
	}
}

// lockAll stops all tools of a bus.
func lockAll(t *testing.T, url string) {
	t.Helper()
	operator, err := admin.Connect(t.Context(), url, admin.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer operator.Close()
	if _, err := operator.Lock(t.Context(), envelope.LockRequest{
		LockTarget: envelope.LockTarget{All: true}, Reason: "test",
	}); err != nil {
		t.Fatal(err)
	}
}
