package observability

import (
	"flag"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/seed-018f16cc/toolbus/internal/deployment/processtest"
	"github.com/seed-018f16cc/toolbus/internal/natsserver/natstest"
)

var collected = flag.Bool("collector", false, "send signals to an OpenTelemetry Collector, which is built for it")

// A Collector takes all that a dispatcher and an executor send: the metrics that the universal tool envelope (004)
// names, under these names and with the attributes of docs/metrics.md, durations also as exponential histograms, and
// the spans of a call as one trace.
func TestCollector(t *testing.T) {
	if !*collected {
		t.Skip("builds a Collector: go test ./test/observability -args -collector")
	}
	sink := &sink{metrics: map[string][]shape{}}
	through := throughCollector(t, sink)
	of := processtest.Build(t, "../..")
	flaky(t, of.Tools)
	server, set := []string{"--server", natstest.Start(t).URL}, filepath.Join(t.TempDir(), "policy")
	on := func(args ...string) []string { return slices.Concat(args, server) }
	flags := on("--tools", of.Tools, "--otlp-endpoint", "http://"+through.at+"/v1/traces")
	dispatcher := processtest.Start(t, "is serving", of.Toolbus(),
		append([]string{"dispatcher", "--insecure-no-auth"}, flags...)...)
	executor := processtest.Start(t, "works for pool", of.Toolbus(), append([]string{"executor"}, flags...)...)
	processtest.Output(t, of.Toolbus(), "policy", "init", set, "--tools", of.Tools)
	processtest.Output(t, of.Toolbus(), on("policy", "push", set)...)
	processtest.Output(t, of.Toolbus(), on("call", "flaky", "--input", "{}")...)
	for _, p := range []*processtest.Process{executor, dispatcher, through.Process} {
		p.Terminate(t, 20*time.Second) // they send what is left
	}
	sink.checkMetrics(t)
	sink.checkSpans(t)
}

// collector is a Collector that takes signals at an address.
type collector struct {
	*processtest.Process
	at string
}

// throughCollector builds a Collector, and runs it. It sends all that it takes to the sink, as JSON.
func throughCollector(t *testing.T, to http.Handler) collector {
	t.Helper()
	server := httptest.NewServer(to)
	t.Cleanup(server.Close)
	at, dir := fmt.Sprint("127.0.0.1:", processtest.FreePort(t)), t.TempDir()
	processtest.Output(t, "go", "-C", "collector", "build", "-o", dir, ".")
	config := filepath.Join(dir, "config.yaml")
	write(t, config, fmt.Sprintf(`
receivers: {otlp: {protocols: {http: {endpoint: %q}}}}
exporters: {otlp_http: {endpoint: %q, encoding: json, compression: none}}
service:
  telemetry: {metrics: {level: none}}
  pipelines:
    metrics: {receivers: [otlp], exporters: [otlp_http]}
    traces: {receivers: [otlp], exporters: [otlp_http]}
`, at, server.URL))
	p := processtest.Start(t, "Everything is ready", filepath.Join(dir, "collector"), "--config", config)
	return collector{p, at}
}

// flaky writes a tool whose first attempt fails, and whose second succeeds.
func flaky(t *testing.T, tools string) {
	t.Helper()
	dir := filepath.Join(tools, "flaky")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{
		"request.json": `{"type":"object"}`, "response.json": `{"type":"object"}`,
		"tool.yaml": `
tool_id: flaky
semver: 1.0.0
owner: "@test"
title: Flaky
description: fails once
status: active
determinism: pure
transport: process
endpoint: {command: [sh, ./main.sh]}
functions: {run: {description: d, request: request.json, response: response.json}}
errors: [{code: busy, class: R-UPSTREAM, http_status: 502, message: m, fix: f}]
`,
		"main.sh": `
if grep -q '"attempt": *1,'; then
	echo '{"type":"error","error":{"code":"busy","message":"as asked","effect":"none"}}'
else
	echo '{"type":"output","output":{}}'
fi
`,
	} {
		write(t, filepath.Join(dir, name), text)
	}
}
