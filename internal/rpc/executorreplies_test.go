package rpc

import (
	"context"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/seed-018f16cc/toolbus/bus"
	"github.com/seed-018f16cc/toolbus/internal/natsserver/natstest"
)

// runsAll is an executor that says of every attempt that it runs it.
type runsAll struct{}

func (runsAll) Kill(string, int, time.Time) bool     { return true }
func (runsAll) Locate(string, int) (time.Time, bool) { return time.Now(), true }

// Executors of all pools hear a kill and a seek, and those of the call's own are believed, whoever answers first.
func TestAnswersOfAnotherPool(t *testing.T) {
	srv := natstest.Start(t)
	dialled := func(name string) *nats.Conn {
		nc, err := bus.Dial(srv.URL, name)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(nc.Close)
		return nc
	}
	obey := func(pool string) (stop func()) {
		nc := dialled(pool)
		stop, err := (&Control{NC: nc}).ServeControl(pool, "1", runsAll{})
		if err == nil {
			err = nc.Flush()
		}
		if err != nil {
			t.Fatal(err)
		}
		return stop
	}
	c := &Control{NC: dialled("dispatcher")}
	defer obey("forger")()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	if c.Kill(ctx, "own", "id", 1, time.Now().Add(time.Minute)) {
		t.Error("another pool says that a call runs, and is believed")
	}
	if by, _, ok := c.Locate(ctx, "own", "id", 1); ok {
		t.Errorf("another pool is believed to run a call: %s", by)
	}
	defer obey("own")()
	if !c.Kill(ctx, "own", "id", 1, time.Now().Add(time.Minute)) {
		t.Error("its own pool is not believed")
	}
	if by, _, ok := c.Locate(ctx, "own", "id", 1); !ok || by != "own/1" {
		t.Errorf("its own pool is not believed: %q", by)
	}
}

// An executor answers a flood of seeks a thousand times a second, and below its own subject alone.
func TestSeekFlood(t *testing.T) {
	nc := natstest.Start(t).Connect(t)
	heard, err := nc.SubscribeSync("tb.exe.heard.>")
	if err != nil {
		t.Fatal(err)
	}
	stop, err := (&Control{NC: nc}).ServeControl("own", "1", runsAll{})
	if err != nil {
		t.Fatal(err)
	}
	defer stop()
	begun := time.Now()
	for range 20 * maxAnswers {
		if err := nc.Publish("tb.ctl.seek.id", []byte(`{"form":2,"id":"id","attempt":1,"word":"w.>"}`)); err != nil {
			t.Fatal(err)
		}
	}
	for range 3 { // what came has been answered, and the answers have come
		if err := nc.Flush(); err != nil {
			t.Fatal(err)
		}
	}
	msg, err := heard.NextMsg(10 * time.Second)
	if err != nil || msg.Subject != "tb.exe.heard.own.1.w_2e_3e" {
		t.Errorf("answered at %v: %v", msg, err)
	}
	n, _, err := heard.Pending()
	if most := (int(time.Since(begun).Seconds()) + 2) * maxAnswers; err != nil || n > most {
		t.Errorf("%d answers, want at most %d: %v", n, most, err)
	}
}
