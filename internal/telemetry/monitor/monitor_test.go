package monitor

import (
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/resource"
	"go.opentelemetry.io/otel/trace"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func open(t *testing.T, o Options) *Server {
	t.Helper()
	o.Listen = "127.0.0.1:0"
	s, err := Open(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		http.DefaultClient.CloseIdleConnections()
		s.Close(t.Context())
	})
	return s
}

func get(t *testing.T, url string) (status int, body string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	r, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	text, err := io.ReadAll(r.Body)
	if err != nil {
		t.Fatal(err)
	}
	return r.StatusCode, string(text)
}

// A process is healthy as soon as it runs, and ready once it waits for nothing.
func TestHealth(t *testing.T) {
	s, missing := open(t, Options{}), "the connection to the bus"
	s.Await("bus", func() string { return missing })
	s.Await("start", func() string { return "a start" })
	if status, body := get(t, s.URL()+PathHealth); status != http.StatusOK || body != "ok\n" {
		t.Errorf("%d %s", status, body)
	}
	status, body := get(t, s.URL()+PathReady)
	want := `{"ready":false,"missing":["a start","the connection to the bus"]}`
	if status != http.StatusServiceUnavailable || body != want {
		t.Errorf("%d %s", status, body)
	}
	s.Await("start", func() string { return "" })
	missing = ""
	if status, body := get(t, s.URL()+PathReady); status != http.StatusOK || body != `{"ready":true,"missing":[]}` {
		t.Errorf("%d %s", status, body)
	}
	if status, _ := get(t, s.URL()+PathProfiles); status != http.StatusNotFound {
		t.Errorf("there are profiles: %d", status)
	}
}

// The parser of Prometheus reads what /metrics shows, under the names that its exporter makes.
func TestMetrics(t *testing.T) {
	s := open(t, Options{})
	meter := sdkmetric.NewMeterProvider(sdkmetric.WithReader(s.Reader()), sdkmetric.WithResource(
		resource.NewSchemaless(attribute.String("service.name", "test")))).Meter("test")
	count, err := meter.Int64Counter("tool.invocation.count", metric.WithDescription("Outcomes"))
	if err != nil {
		t.Fatal(err)
	}
	took, err := meter.Float64Histogram("tool.invocation.duration", metric.WithDescription("Time"), metric.WithUnit("s"),
		metric.WithExplicitBucketBoundaries(0.5))
	if err != nil {
		t.Fatal(err)
	}
	count.Add(t.Context(), 3)
	took.Record(t.Context(), 0.25)
	want := `# HELP tool_invocation_count_total Outcomes
# TYPE tool_invocation_count_total counter
tool_invocation_count_total 3
# HELP tool_invocation_duration_seconds Time
# TYPE tool_invocation_duration_seconds histogram
tool_invocation_duration_seconds_bucket{le="0.5"} 1
tool_invocation_duration_seconds_bucket{le="+Inf"} 1
tool_invocation_duration_seconds_sum 0.25
tool_invocation_duration_seconds_count 1
`
	if err := testutil.ScrapeAndCompare(s.URL()+PathMetrics, strings.NewReader(want), "tool_invocation_count_total",
		"tool_invocation_duration_seconds"); err != nil {
		t.Error(err)
	}
	if _, body := get(t, s.URL()+PathMetrics); !strings.Contains(body, "go_goroutines ") ||
		!strings.Contains(body, `service_name="test"`) {
		t.Error(body)
	}
}

// Profiles are served if they are asked for, and last as long as the reader says.
func TestProfiles(t *testing.T) {
	s := open(t, Options{Profiles: true})
	for path, want := range map[string]string{
		"": "goroutine", "cmdline": os.Args[0], "goroutine?debug=2": "TestProfiles", "profile?seconds=1": "\x1f\x8b",
	} {
		if status, body := get(t, s.URL()+PathProfiles+path); status != http.StatusOK || !strings.Contains(body, want) {
			t.Errorf("%s: %d %s", path, status, body)
		}
	}
}

// A reader that asks for the format OpenMetrics gets the trace of a value.
func TestExemplars(t *testing.T) {
	s := open(t, Options{})
	meter := sdkmetric.NewMeterProvider(sdkmetric.WithReader(s.Reader())).Meter("test")
	took, err := meter.Float64Histogram("took", metric.WithUnit("s"))
	if err != nil {
		t.Fatal(err)
	}
	span := trace.NewSpanContext(trace.SpanContextConfig{
		TraceID: trace.TraceID{1}, SpanID: trace.SpanID{2}, TraceFlags: trace.FlagsSampled,
	})
	took.Record(trace.ContextWithSpanContext(t.Context(), span), 0.25)
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.URL()+PathMetrics, nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Accept", "application/openmetrics-text; version=1.0.0")
	r, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	body, err := io.ReadAll(r.Body)
	if want := `trace_id="` + span.TraceID().String() + `"`; err != nil || !strings.Contains(string(body), want) {
		t.Errorf("%v, no %s in %s", err, want, body)
	}
}

// away is a listener at an address that other hosts reach.
type away struct{ net.Listener }

func (away) Addr() net.Addr { return &net.TCPAddr{IP: net.IPv4zero, Port: 80} }

// Away from loopback, and wherever a token file is named, /metrics asks for the token, which may change.
func TestToken(t *testing.T) {
	s := open(t, Options{})
	far := &Server{options: s.options, listener: away{}, waiting: s.waiting}
	far.options.Profiles = true
	h := far.handler(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})) // 200
	file := filepath.Join(t.TempDir(), "token")
	ask := func(path, token string) int {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, nil)
		r.Header.Set("Authorization", token)
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		return w.Code
	}
	holds := func(text string) {
		t.Helper()
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if ask(PathMetrics, "") != http.StatusUnauthorized || ask(PathProfiles+"cmdline", "") != http.StatusUnauthorized ||
		ask(PathReady, "") != http.StatusOK ||
		ask(PathHealth, "") != http.StatusOK {
		t.Error("without a token file, only health and readiness may be read from other hosts")
	}
	far.options.TokenFile = file
	const first, second = "0123456789abcdef", "fedcba9876543210"
	if ask(PathMetrics, "Bearer ") != http.StatusUnauthorized {
		t.Error("a file that is missing lets everybody read")
	}
	holds("short")
	if ask(PathMetrics, "Bearer short") != http.StatusUnauthorized {
		t.Error("a token that can be guessed is good")
	}
	holds(first + "\n")
	for token, want := range map[string]int{
		"Bearer " + first: http.StatusOK, "Bearer " + second: http.StatusUnauthorized, "": http.StatusUnauthorized,
		first[:15]: http.StatusUnauthorized,
	} {
		for _, path := range []string{PathMetrics, PathProfiles, PathProfiles + "heap"} {
			if got := ask(path, token); got != want {
				t.Errorf("%s with %q: %d", path, token, got)
			}
		}
	}
	holds(second)
	if ask(PathMetrics, "Bearer "+first) != http.StatusUnauthorized ||
		ask(PathMetrics, "Bearer "+second) != http.StatusOK {
		t.Error("a new token takes no effect")
	}
}
