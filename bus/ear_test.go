package bus

import (
	"context"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/seed-018f16cc/toolbus/internal/natstest"
)

// runsAll is an executor that says of every attempt that it runs it.
type runsAll struct{}

func (runsAll) Kill(string, int, time.Time) bool   { return true }
func (runsAll) Seek(string, int) (time.Time, bool) { return time.Now(), true }

// Executors of all pools hear a kill and a seek, and those of the call's own are believed, whoever answers first.
func TestAnswersOfAnotherPool(t *testing.T) {
	srv := natstest.Start(t)
	dialled := func(name string) *nats.Conn {
		nc, err := Dial(srv.URL, name)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(nc.Close)
		return nc
	}
	obey := func(pool string) (stop func()) {
		nc := dialled(pool)
		stop, err := (&Control{NC: nc}).Obey(pool, "1", runsAll{})
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
	if by, _, ok := c.Find(ctx, "own", "id", 1); ok {
		t.Errorf("another pool is believed to run a call: %s", by)
	}
	defer obey("own")()
	if !c.Kill(ctx, "own", "id", 1, time.Now().Add(time.Minute)) {
		t.Error("its own pool is not believed")
	}
	if by, _, ok := c.Find(ctx, "own", "id", 1); !ok || by != "own/1" {
		t.Errorf("its own pool is not believed: %q", by)
	}
}
