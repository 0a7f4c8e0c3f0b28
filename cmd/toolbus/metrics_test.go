package main

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

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
	s, stop, said := startDevAt(t, t.TempDir(), t.TempDir(), "0", "--http-listen", at)
	s.must("call", "play", "--input", `{"say":"once"}`)
	s.do("call", "play", "--input", `{"say":1}`)
	_, body := fetched(t, "http://"+at+"/metrics")
	for _, want := range []string{
		`tool_invocation_count_total{action="play",status="success",tool="play",version="1.0.0"} 1`,
		`tool_invocation_duration_seconds_count{action="play",tool="play",version="1.0.0"} 1`,
		`toolbus_refusal_count_total{error_code="I-REQ-SCHEMA",stage="schema"} 1`,
		`toolbus_run_active{tool="play",version="1.0.0"} 0`,
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
	if conn, err := net.Dial("tcp", at); err == nil {
		_ = conn.Close()
		t.Error("it answers after its end")
	}
}
