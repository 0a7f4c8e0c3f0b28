package toolbus_test

import (
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/seed-018f16cc/toolbus"
	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/natsserver/natstest"
	"github.com/seed-018f16cc/toolbus/toolbustest"
)

// traced runs a bus that exports its spans, and returns a function that stops it.
func traced(t *testing.T, tools *toolbus.Toolset, spans sdktrace.SpanExporter) (b *toolbustest.Bus, stop func()) {
	t.Helper()
	url := natstest.Start(t).URL
	conn, err := toolbus.Connect(t.Context(), url, toolbus.Options{
		Topology: toolbus.Topology{SyncAlways: true}, TracerProvider: sdktrace.NewTracerProvider(sdktrace.WithSyncer(spans)),
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(conn.Close)
	dispatcher, err := conn.Dispatcher(tools, toolbus.DispatcherOptions{InsecureNoAuth: true, AllowAll: true})
	if err != nil {
		t.Fatal(err)
	}
	executor, err := conn.Executor(tools, toolbus.ExecutorOptions{})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ready, ended := make(chan struct{}), make(chan error, 1)
	go func() { ended <- toolbus.Serve(ctx, dispatcher, executor, func() { close(ready) }) }()
	select {
	case <-ready:
	case err := <-ended:
		t.Fatal(err)
	}
	return &toolbustest.Bus{Conn: conn, URL: url}, func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
}

// Spans have the canonical name of the tool's effect and the origin of the tool. A tool gets the traceparent of its
// run's span.
func TestSpansOfEachAdapter(t *testing.T) {
	dir, seen, spans := t.TempDir(), make(chan []byte, 10), tracetest.NewInMemoryExporter()
	tools := toolbus.NewToolset()
	recorder(t, tools, "none", "", seen)
	programFolder(t, dir, "external", "", "ExternalSideEffects")
	programFolder(t, dir, "once", "", "side_effectful")
	serverFolder(t, dir, "again", "", "idempotent")
	serverFolder(t, dir, "named", "", "IdempotentWrite")
	write(t, filepath.Join(dir, "servers.json"), fmt.Sprintf(`{"servers":{"seen":{"url":%q}}}`, listening(t, seen)))
	if err := tools.AddFolder(dir); err != nil {
		t.Fatal(err)
	}
	b, stop := traced(t, tools, spans)
	allowAs(t, b, "secret-role", "secret-lane")
	begin(t, b, "secret-run")
	ids := []string{"native.none", "process.external", "process.once", "mcp.again", "mcp.named"}
	for _, id := range ids {
		if r := sendRaw(t, b, everything(id)); r.Status != envelope.Success {
			t.Fatalf("%s: %+v", id, r.Error)
		}
	}
	refused := everything("process.once")
	refused.Fn = "none"
	if r := sendRaw(t, b, refused); r.Error == nil || r.Error.Details.Effect != envelope.EffectNone {
		t.Fatalf("%+v", r)
	}
	stop()
	got, ran := map[string]string{}, map[string]bool{}
	for _, s := range spans.GetSpans() {
		of := map[string]string{}
		for _, kv := range s.Attributes {
			of[string(kv.Key)] = kv.Value.AsString()
		}
		got[s.Name] = of["effect.level"] + " " + of["tool.origin"]
		ran["00-"+s.SpanContext.TraceID().String()+"-"+s.SpanContext.SpanID().String()+"-01"] = true
	}
	want := map[string]string{"refuse process.once": "NonIdempotentWrite local"}
	for i, is := range []string{
		"Pure local", "ExternalSideEffects local", "NonIdempotentWrite local", "IdempotentWrite mcp", "IdempotentWrite mcp",
	} {
		want["admit "+ids[i]], want["execute_tool "+ids[i]] = is, is
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	var told struct{ Run struct{ Traceparent string } }
	if err := json.Unmarshal(<-seen, &told); err != nil || !ran[told.Run.Traceparent] {
		t.Errorf("%v: the tool was told %q, which is none of %v", err, told.Run.Traceparent, ran)
	}
}
