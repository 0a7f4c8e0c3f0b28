package toolbus_test

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/seed-018f16cc/toolbus"
	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/chaos/proxy"
	"github.com/seed-018f16cc/toolbus/toolbustest"
)

// TestKeyAfterRetryableError repeats a failed call by its key: the next attempt runs, and later calls replay its
// success.
func TestKeyAfterRetryableError(t *testing.T) {
	var runs, effects atomic.Int32
	tools := toolbus.NewToolset()
	about := toolbus.Tool{ID: "write", Class: toolbus.SideEffectful, Errors: []*toolbus.ToolError{errBusy}}
	must(t, tools, about, func(context.Context, *toolbus.Run, struct{}) (string, error) {
		if runs.Add(1) == 1 {
			failed := errBusy.Because("full")
			failed.Effect = toolbus.EffectNone
			return "", failed
		}
		effects.Add(1)
		return "written", nil
	})
	b := toolbustest.Start(t, tools)
	call := toolbus.Call{Tool: "write"}
	_, err := toolbus.Invoke[string](t.Context(), b.Client, call, struct{}{})
	failure, ok := errors.AsType[*toolbus.Error](err)
	if !ok || failure.Status() != toolbus.RetryableError || !failure.Retryable() || failure.Key() == "" ||
		toolbus.KeyOf(err) != failure.Key() {
		t.Fatalf("%v", err)
	}
	call.Key = failure.Key()
	if r := succeeds(t, b.Client, call); r.Provenance.Attempt != 2 || r.Provenance.Replayed || r.Key != call.Key {
		t.Errorf("%+v", r.Provenance)
	}
	if r := succeeds(t, b.Client, call); !r.Provenance.Replayed {
		t.Errorf("%+v", r.Provenance)
	}
	if n := effects.Load(); n != 1 {
		t.Errorf("%d effects", n)
	}
}

// TestKeyAfterLostAnswer repeats a call by its key after the bus gave no answer by the deadline.
func TestKeyAfterLostAnswer(t *testing.T) {
	var effects atomic.Int32
	tools := toolbus.NewToolset()
	must(t, tools, toolbus.Tool{ID: "pay", Class: toolbus.SideEffectful},
		func(context.Context, *toolbus.Run, struct{}) (string, error) { effects.Add(1); return "paid", nil })
	b := toolbustest.Start(t, tools)
	p, err := proxy.Listen(strings.TrimPrefix(b.URL, "nats://"), 1)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = p.Close() }()
	cut := client(t, p.URL(), toolbus.ClientOptions{})
	if _, err := cut.Tool(t.Context(), "pay"); err != nil {
		t.Fatal(err)
	}
	p.Set(proxy.Trouble{proxy.Answer: {Drop: 1}})
	call := toolbus.Call{Tool: "pay", Timeout: 2 * time.Second}
	r, err := toolbus.Outcome(cut.Call(t.Context(), call))
	if err != nil || r.Error == nil || r.Error.Code != envelope.CodeTimeout || r.Provenance.Final || r.Key == "" {
		t.Fatalf("%+v, %v", r, err)
	}
	call.Key = r.Key
	if again := succeeds(t, b.Client, call); again.Provenance.Attempt != 1 || again.Key != r.Key {
		t.Errorf("%+v", again.Provenance)
	}
	if n := effects.Load(); n != 1 {
		t.Errorf("%d effects", n)
	}
}

// TestKeyAfterUnknownEffect repeats calls by their keys that may have had an effect: they end in the same outcome, and
// the tool does not run again.
func TestKeyAfterUnknownEffect(t *testing.T) {
	var runs atomic.Int32
	tools := toolbus.NewToolset()
	must(t, tools, toolbus.Tool{ID: "pay", Class: toolbus.SideEffectful},
		func(ctx context.Context, _ *toolbus.Run, how string) (string, error) {
			if runs.Add(1); how == "panics" {
				panic("after the effect")
			}
			<-ctx.Done()
			return "", ctx.Err()
		})
	b := toolbustest.Start(t, tools)
	for i, c := range []struct {
		input   string
		timeout time.Duration
		code    envelope.Code
	}{
		{`"panics"`, 20 * time.Second, envelope.CodeToolUnknownState},
		{`"hangs"`, 2 * time.Second, envelope.CodeTimeoutUnknown},
	} {
		call := toolbus.Call{Tool: "pay", Input: jsontext.Value(c.input), Timeout: c.timeout}
		for n := range 2 {
			r, err := toolbus.Outcome(b.Call(t.Context(), call))
			for err == nil && !r.Provenance.Final { // a busy machine was told too late
				call.Key = r.Key
				r, err = toolbus.Outcome(b.Call(t.Context(), call))
			}
			if err != nil || r.Error == nil || r.Error.Code != c.code || r.Error.Details.Effect != toolbus.EffectUnknown ||
				n == 1 && !r.Provenance.Replayed {
				t.Fatalf("%s: %+v, %v", c.input, r, err)
			}
			call.Key = r.Key
		}
		if ran := runs.Load(); ran != int32(i+1) {
			t.Errorf("%s: ran %d times", c.input, ran)
		}
	}
}

// TestKeyOfErrors finds calls again that end in an error that is no outcome.
func TestKeyOfErrors(t *testing.T) {
	var runs atomic.Int32
	release := make(chan struct{})
	tools := toolbus.NewToolset()
	must(t, tools, toolbus.Tool{ID: "count", Class: toolbus.SideEffectful, Streaming: true},
		func(_ context.Context, run *toolbus.Run, _ struct{}) (int32, error) {
			n := runs.Add(1)
			if n == 2 {
				<-release // the second caller goes before its answer comes
			}
			return n, run.Emit("one")
		})
	b := toolbustest.Start(t, tools)
	ctx, cancel := context.WithCancel(t.Context())
	failed := errors.New("of the caller")
	for i, c := range []struct {
		ctx  context.Context
		call toolbus.Call
		want error
	}{
		{t.Context(), toolbus.Call{OnChunk: func(toolbus.Chunk) error { return failed }}, failed},
		{ctx, toolbus.Call{OnAccepted: func(toolbus.Accepted) { cancel() }}, context.Canceled},
	} {
		c.call.Tool = "count"
		r, err := toolbus.Outcome(b.Call(c.ctx, c.call))
		key := toolbus.KeyOf(err)
		if !errors.Is(err, c.want) || err.Error() != c.want.Error() && i == 1 || key == "" {
			t.Fatalf("%+v, %v with key %q", r, err, key)
		}
		if code, effect := toolbus.CodeOf(err), toolbus.EffectOf(err); code != "" || effect != toolbus.EffectUnknown {
			t.Errorf("%v is the caller's own, and has the code %q and the effect %q", err, code, effect)
		}
		if i == 1 {
			close(release)
		}
		r = succeeds(t, b.Client, toolbus.Call{Tool: "count", Key: key})
		if ran := runs.Load(); ran != int32(i+1) || r.Key != key {
			t.Errorf("%v: ran %d times, key %q", c.want, ran, r.Key)
		}
	}
	if _, err := toolbus.Invoke[string](t.Context(), b.Client, toolbus.Call{Tool: "count"}, struct{}{}); err == nil ||
		toolbus.KeyOf(err) == "" {
		t.Errorf("an output that cannot be decoded: %v", err)
	}
	if key := toolbus.KeyOf(failed); key != "" {
		t.Errorf("an error of no call has the key %q", key)
	}
}
