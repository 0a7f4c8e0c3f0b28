package mcpclient

import (
	"context"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/seed-018f16cc/toolbus"
	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/gateway/mcp"
	"github.com/seed-018f16cc/toolbus/toolbustest"
)

type input struct {
	Text string `json:"text"`
}

// Call returns the same outcome from each gateway with the same key, and tries the next gateway if one fails.
func TestCall(t *testing.T) {
	tools, runs := toolbus.NewToolset(), 0
	if err := toolbus.Add(tools, toolbus.Tool{ID: "say", Class: toolbus.SideEffectful},
		func(_ context.Context, _ *toolbus.Run, in input) (input, error) {
			runs++
			return in, nil
		}); err != nil {
		t.Fatal(err)
	}
	bus := toolbustest.Start(t, tools)
	broken := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(broken.Close)
	doors := []string{broken.URL}
	for range 2 {
		door := mcp.New(t.Context(), bus.Client, mcp.Options{})
		s := httptest.NewServer(door.Handler())
		t.Cleanup(func() { door.Close(); s.Close() })
		doors = append(doors, s.URL)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	v := New(doors)
	t.Cleanup(v.Close)
	for first := range doors {
		r, err := v.Call(ctx, Call{
			Tool: "say", Key: "the-key-of-all-calls", Input: jsontext.Value(`{"text":"a"}`), First: first,
			Due: time.Now().Add(10 * time.Second),
		})
		if err != nil || r.Status != envelope.Success || string(r.Output) != `{"text":"a"}` || !r.Provenance.Final {
			t.Fatalf("%v: %+v", err, r)
		}
	}
	r, err := v.Call(ctx, Call{
		Tool: "say", Key: "the-key-of-all-calls", Input: jsontext.Value(`{"text":"b"}`), First: 1,
		Due: time.Now().Add(10 * time.Second),
	})
	if err != nil || r.Status != envelope.InvalidRequest || r.Error.Code != envelope.CodeKeyReused {
		t.Errorf("%v: %+v", err, r)
	}
	if runs != 1 {
		t.Errorf("ran %d times", runs)
	}
}
