package baseline_test

import (
	"bytes"
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/seed-018f16cc/toolbus/internal/bench/baseline"
	"github.com/seed-018f16cc/toolbus/internal/natsserver/natstest"
)

// Each call gets its own result and stores one message in each stream.
func TestCalls(t *testing.T) {
	srv := natstest.Start(t)
	p, err := baseline.StartRaw(t.Context(), baseline.Options{
		Dial:    func(name string) (*nats.Conn, error) { return nats.Connect(srv.URL, nats.Name(name)) },
		Workers: 4, Tool: bytes.ToUpper,
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	const calls = 100
	var wg sync.WaitGroup
	for n := range calls {
		wg.Go(func() {
			out, err := p.Call(ctx, fmt.Sprint("id", n), fmt.Append(nil, "call ", n))
			if want := fmt.Sprint("CALL ", n); err != nil || string(out) != want {
				t.Errorf("%q, %v; want %q", out, err, want)
			}
		})
	}
	wg.Wait()
	if err := p.Settle(ctx); err != nil {
		t.Fatal(err)
	}
	js := srv.JetStream(t)
	for _, name := range baseline.RawStreams {
		s, err := js.Stream(ctx, name)
		if err != nil {
			t.Fatal(err)
		}
		if n := s.CachedInfo().State.Msgs; n != calls {
			t.Errorf("%s holds %d messages, want %d", name, n, calls)
		}
	}
	p.Close()
}

func TestNoServer(t *testing.T) {
	_, err := baseline.StartRaw(t.Context(), baseline.Options{
		Dial: func(string) (*nats.Conn, error) { return nats.Connect("nats://127.0.0.1:1") },
	})
	if err == nil {
		t.Error("runs without a server")
	}
}
