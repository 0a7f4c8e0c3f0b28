package toolbus_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"

	"github.com/seed-018f16cc/toolbus"
	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/toolbustest"
)

// What is not safe as what its schema declares never reaches the tool.
func TestUnsafeInputDoesNotRun(t *testing.T) {
	var runs atomic.Int32
	tools := toolbus.NewToolset()
	err := toolbus.Add(tools, toolbus.Tool{ID: "fetch", Class: toolbus.Pure, Request: []byte(`{
		"type":"object","properties":{
		"url":{"anyOf":[{"type":"string","format":"uri"},{"type":"string"}]},
		"argv":{"type":"array","items":{"type":"string"},"format":"command"}}}`)},
		func(_ context.Context, _ *toolbus.Run, in map[string]any) (string, error) {
			runs.Add(1)
			url, _ := in["url"].(string)
			return url, nil
		})
	if err != nil {
		t.Fatal(err)
	}
	bus := toolbustest.Start(t, tools)
	for input, pointer := range map[string]string{
		`{"url":"file:///etc/passwd"}`: "/input/url", `{"url":"http://a b@c"}`: "/input/url",
		`{"url":"not even an address"}`: "/input/url", `{"argv":["ls","a\u0000b"]}`: "/input/argv",
	} {
		_, err := bus.Call(t.Context(), toolbus.Call{Tool: "fetch", Input: []byte(input)})
		failed, ok := errors.AsType[*toolbus.Error](err)
		if !ok || failed.Code() != envelope.CodeUnsafe || failed.Effect() != toolbus.EffectNone {
			t.Errorf("%s: %v", input, err)
			continue
		}
		if bad := failed.Reason().Details.Violations; len(bad) != 1 || bad[0].Pointer != pointer {
			t.Errorf("%s: %+v", input, bad)
		}
	}
	if n := runs.Load(); n != 0 {
		t.Errorf("the tool ran %d times", n)
	}
	got, err := toolbus.Invoke[string](t.Context(), bus.Client, toolbus.Call{Tool: "fetch"},
		map[string]any{"argv": []string{"sh", "-c", "a | b"}})
	if err != nil || got != "" || runs.Load() != 1 {
		t.Errorf("%q, %v, %d runs", got, err, runs.Load())
	}
}
