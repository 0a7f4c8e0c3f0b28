package caller_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/seed-018f16cc/toolbus"
	"github.com/seed-018f16cc/toolbus/caller"
	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/toolbustest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// A client of this package has a connection of its own, whose end ends its calls.
func TestConnect(t *testing.T) {
	tools := toolbus.NewToolset()
	err := toolbus.Add(tools, toolbus.Tool{ID: "greet", Class: toolbus.Pure},
		func(_ context.Context, _ *toolbus.Run, in struct {
			Name string `json:"name"`
		}) (string, error) {
			return "hello " + in.Name, nil
		})
	if err != nil {
		t.Fatal(err)
	}
	bus := toolbustest.Start(t, tools)
	client, err := caller.Connect(t.Context(), bus.URL, caller.Options{Client: caller.ClientOptions{Actor: "agent://me"}})
	if err != nil {
		t.Fatal(err)
	}
	resp, err := client.Call(t.Context(), caller.Call{Tool: "greet", Input: []byte(`{"name":"Ada"}`)})
	if err != nil || string(resp.Output) != `"hello Ada"` || client.Options().Actor != "agent://me" {
		t.Errorf("%+v, %v", resp, err)
	}
	_, err = client.Call(t.Context(), caller.Call{Tool: "greet", Input: []byte(`{"name":1}`)})
	failed, ok := errors.AsType[*toolbus.Error](err)
	if !ok || failed.Status() != envelope.InvalidRequest || caller.CodeOf(err) != "I-REQ-SCHEMA" {
		t.Error(err)
	}
	_, err = client.Call(t.Context(), caller.Call{Tool: "greet", Input: []byte(`{"name":"Ada"}`), Key: "k", Priority: "x"})
	const short = "; Call.Key must have at least 16 characters, has 1; Call.Priority "
	if err == nil || !strings.Contains(err.Error(), short) {
		t.Errorf("%v does not say %q", err, short)
	}
	for _, timeout := range []time.Duration{-time.Second, time.Hour} {
		_, err = client.Call(t.Context(), caller.Call{Tool: "greet", Timeout: timeout})
		if err == nil || !strings.Contains(err.Error(), "; Call.Timeout must be 1ms to 10m0s") {
			t.Errorf("timeout %s: %v", timeout, err)
		}
		failed, ok := errors.AsType[*caller.Error](err)
		if !ok || failed.Fix() != "correct what the text of the error names" {
			t.Errorf("timeout %s: the fix is %q", timeout, failed.Fix())
		}
	}
	_, err = client.Call(t.Context(), caller.Call{Tool: "greet", Input: []byte(`{"name":`)})
	if failed, ok := errors.AsType[*caller.Error](err); !ok || !strings.Contains(failed.Fix(), "Call.Input is not JSON") {
		t.Errorf("a cut input: %v", err)
	}
	if err := errors.Join(client.Close(), client.Close()); err != nil {
		t.Error(err)
	}
	if _, err := client.Call(t.Context(), caller.Call{Tool: "greet"}); !errors.Is(err, caller.ErrClosed) {
		t.Errorf("after Close: %v", err)
	}
	bad := caller.Options{Client: caller.ClientOptions{Actor: strings.Repeat("a", 101)}}
	if _, err := caller.Connect(t.Context(), bus.URL, bad); err == nil {
		t.Error("connected as an actor whose name is invalid")
	}
}
