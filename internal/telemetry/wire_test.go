package telemetry_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/call"
	"github.com/seed-018f16cc/toolbus/internal/telemetry"
	"github.com/seed-018f16cc/toolbus/internal/telemetry/otlp"
)

// The prefix of a key in a span is valid UTF-8 wherever it is cut, because a batch with an invalid string is not sent
// at all.
func TestKeyOfManyBytes(t *testing.T) {
	var paths []string
	collector := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		paths = append(paths, r.URL.Path)
	}))
	defer collector.Close()
	tr, err := otlp.Traces(t.Context(), "executor", collector.URL+"/v1/traces")
	if err != nil {
		t.Fatal(err)
	}
	req := &envelope.Request{ToolID: "echo"}
	req.Constraints.IdempotencyKey = "k" + strings.Repeat("é", 8)
	run(t, telemetry.Of(tr), call.State{Attempts: []call.Attempt{{N: 1}}}, req, nil)
	if err := tr.Shutdown(t.Context()); err != nil {
		t.Error(err)
	}
	if len(paths) != 1 || paths[0] != "/v1/traces" {
		t.Errorf("the collector was sent %q", paths)
	}
}

// A collector whose endpoint for traces has another path than that of the specification is sent no metrics.
func TestMetricsWithoutEndpoint(t *testing.T) {
	for endpoint, sends := range map[string]bool{
		"http://127.0.0.1:4318/v1/traces": true, "http://127.0.0.1:4318/ingest": false,
	} {
		r, err := otlp.Metrics(t.Context(), endpoint)
		if err != nil || (r != nil) != sends {
			t.Errorf("%s: %v, %v", endpoint, r, err)
		}
	}
}
