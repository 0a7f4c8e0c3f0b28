package main

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	"github.com/nats-io/nats.go"
	collectorpb "go.opentelemetry.io/proto/otlp/collector/metrics/v1"
	"google.golang.org/protobuf/proto"

	"github.com/seed-018f16cc/toolbus/internal/deployment/processtest"
)

// fetched returns the status and the body at an address.
func fetched(t *testing.T, url string) (status int, body string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	r, err := new(http.Transport{DisableKeepAlives: true}).RoundTrip(req)
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

// `toolbus dev` prints the address of its metrics, counts calls there, and is ready as long as it serves.
func TestServesMetrics(t *testing.T) {
	at := fmt.Sprint("127.0.0.1:", processtest.FreePort(t))
	state := t.TempDir()
	s, stop, said := startDevAt(t, t.TempDir(), state, "0", "--http-listen", at)
	s.must("call", "play", "--input", `{"say":"once"}`)
	s.do("call", "play", "--input", `{"say":1}`)
	s.must("credentials", "renew", filepath.Join(state, "credentials/agent"))
	if nc, err := nats.Connect(s.url, nats.Token("nonsense")); err == nil {
		nc.Close()
		t.Error("a token of nonsense opens a connection")
	}
	_, body := fetched(t, "http://"+at+"/metrics")
	for _, want := range []string{
		`tool_invocation_count_total{action="play",status="success",tool="play",version="1.0.0"} 1`,
		`tool_invocation_duration_seconds_count{action="play",tool="play",version="1.0.0"} 1`,
		`tool_invocation_duration_exp_seconds_count{action="play",tool="play",version="1.0.0"} 1`,
		`toolbus_refusal_count_total{error_code="I-REQ-SCHEMA",stage="schema",tenant="default"} 1`,
		`toolbus_outcome_count_total{by="executor",status="success",tenant="default"} 1`,
		`toolbus_run_active{tool="play",version="1.0.0"} 0`,
		`toolbus_token_renewal_count_total 1`, `toolbus_token_refusal_count_total 0`,
		`toolbus_queue_depth{pool="default"} 0`, `toolbus_stream_limit_bytes{stream="DEAD"} 1.073741824e+09`,
		`toolbus_connection_refusal_count_total 1`,
		`target_info{service_name="toolbus-dev"} 1`,
	} {
		if !strings.Contains(body, want+"\n") {
			t.Errorf("%s is not in %s", want, body)
		}
	}
	for path, want := range map[string]string{"/healthz": "ok\n", "/readyz": `{"ready":true,"missing":[]}`} {
		if status, body := fetched(t, "http://"+at+path); status != http.StatusOK || body != want {
			t.Errorf("%s: %d %s", path, status, body)
		}
	}
	stop()
	if !strings.Contains(said.String(), "metrics: http://"+at+"/metrics\n") {
		t.Error(said)
	}
	if log := said.String(); !strings.Contains(log, "a connection was refused") || strings.Contains(log, "callout") {
		t.Errorf("of the refused connection the log says:\n%s", log)
	}
	if conn, err := net.Dial("tcp", at); err == nil {
		_ = conn.Close()
		t.Error("it answers after its end")
	}
}

// A collector gets the metrics, too, under literal names, at the end at the latest. A duration names the trace of a
// call.
func TestSendsMetrics(t *testing.T) {
	sent := make(chan []byte, 100)
	collector := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		if body, err := io.ReadAll(r.Body); err == nil && r.URL.Path == "/v1/metrics" {
			sent <- body
		}
	}))
	defer collector.Close()
	s, stop, _ := startDevAt(t, t.TempDir(), t.TempDir(), "0", "--otlp-endpoint", collector.URL+"/v1/traces")
	s.must("call", "play", "--input", `{"say":"once"}`)
	stop()
	var last []byte
	for len(sent) > 0 {
		last = <-sent
	}
	got := received(t, last)
	want := map[string]string{
		"tool.invocation.count":    `[action=play status=success tool=play version=1.0.0] 1`,
		"tool.invocation.duration": `s [trace of 16 bytes action=play tool=play version=1.0.0] 1`,
		"service.name":             "toolbus-dev",
	}
	for name := range got {
		if want[name] == "" {
			delete(got, name)
		}
	}
	if diff := gocmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// received returns the first value of each metric in a request, with its unit and attributes, and the service.
func received(t *testing.T, body []byte) map[string]string {
	t.Helper()
	var q collectorpb.ExportMetricsServiceRequest
	if err := proto.Unmarshal(body, &q); err != nil || len(q.GetResourceMetrics()) != 1 {
		t.Fatalf("%v in %q", err, body)
	}
	got := map[string]string{}
	for _, a := range q.GetResourceMetrics()[0].GetResource().GetAttributes() {
		got[a.GetKey()] = a.GetValue().GetStringValue()
	}
	for _, m := range q.GetResourceMetrics()[0].GetScopeMetrics()[0].GetMetrics() {
		var of []string
		var n uint64
		for _, p := range m.GetSum().GetDataPoints() {
			n = uint64(p.GetAsInt())
			for _, a := range p.GetAttributes() {
				of = append(of, a.GetKey()+"="+a.GetValue().GetStringValue())
			}
		}
		for _, p := range m.GetHistogram().GetDataPoints() {
			n = p.GetCount()
			for _, e := range p.GetExemplars() {
				of = append(of, fmt.Sprintf("trace of %d bytes", len(e.GetTraceId())))
			}
			for _, a := range p.GetAttributes() {
				of = append(of, a.GetKey()+"="+a.GetValue().GetStringValue())
			}
		}
		got[m.GetName()] = strings.TrimSpace(fmt.Sprint(m.GetUnit(), " ", of, " ", n))
	}
	return got
}

// Calls go on with a collector that refuses connections, or never answers, and the process still ends in time.
func TestCollectorIsAway(t *testing.T) {
	deaf, err := net.Listen("tcp", "127.0.0.1:0") // the system accepts connections for it
	if err != nil {
		t.Fatal(err)
	}
	defer deaf.Close()
	t.Setenv("OTEL_METRIC_EXPORT_INTERVAL", "20") // in milliseconds
	t.Setenv("OTEL_BSP_SCHEDULE_DELAY", "20")
	for _, at := range []string{deaf.Addr().String(), fmt.Sprint("127.0.0.1:", processtest.FreePort(t))} {
		s, stop, _ := startDevAt(t, t.TempDir(), t.TempDir(), "0", "--otlp-endpoint", "http://"+at+"/v1/traces")
		for range 10 {
			s.must("call", "play", "--input", `{"say":"once"}`)
		}
		began := time.Now()
		stop()
		if took := time.Since(began); took > 5*time.Second {
			t.Errorf("with the collector at %s the process ends after %s", at, took)
		}
	}
}
