package rpc

import (
	"bytes"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed-018f16cc/toolbus/internal/flow"
)

var (
	flooder   = flow.Sender{Tenant: "t", Actor: "flooder"}
	bystander = flow.Sender{Tenant: "t", Actor: "bystander"}
)

// counter stands in for whoever handles messages: those of floods until they may end, others in no time.
type counter struct {
	waits  bool
	hold   chan struct{} // lets one of the flood end
	silent chan struct{} // closed once those who are turned away may be told

	mu          sync.Mutex
	flood, mine int // that were begun
	atOnce      int // of the flood
	told        int
}

func (c *counter) handle(m string, waits func()) {
	c.mu.Lock()
	if m != "flood" {
		c.mine++
		c.mu.Unlock()
		return
	}
	c.flood++
	c.atOnce++
	c.mu.Unlock()
	if c.waits {
		waits()
	}
	<-c.hold
	c.mu.Lock()
	c.atOnce--
	c.mu.Unlock()
}

func (c *counter) tell(string, *flow.QueueFullError) {
	<-c.silent
	c.mu.Lock()
	defer c.mu.Unlock()
	c.told++
}

func sit(log *slog.Logger, waits bool) (*intake[string], *counter) {
	c := &counter{hold: make(chan struct{}), silent: make(chan struct{}), waits: waits}
	return newIntake(log, "requests", forRequests(), c.handle, c.tell), c
}

// Whatever others send, no more of each is taken up before a bystander's message than a turn. What is over their bounds
// is turned away, of that as much told as there is room for, and all logged in one line a second.
func TestFloodAtADesk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		d, c := sit(slog.New(slog.NewTextHandler(&log, nil)), false)
		const flood, flooders = 20_000, 3 // who keep all hands busy
		for n := range flood * flooders {
			d.put(flow.Sender{Tenant: "t", Actor: fmt.Sprint("flooder", n%flooders)}, "flood", 100, func() {})
		}
		synctest.Wait()
		for n := range 100 {
			before := c.flood
			d.put(bystander, "mine", 100, func() {})
			for synctest.Wait(); c.mine == n; synctest.Wait() {
				c.hold <- struct{}{}
			}
			if most := flooders * (turnBytes/perMessage + 2); c.flood-before > most {
				t.Errorf("message %d was behind %d of the floods, want %d at most", n, c.flood-before, most)
			}
		}
		close(c.hold)
		close(c.silent)
		<-time.After(time.Second) // in a bubble
		synctest.Wait()
		d.stop(time.Second)
		if c.flood != flooders*maxActorRequests || c.told != flooders*maxActorTurned {
			t.Errorf("%d of the floods were taken in, and %d told that they were not", c.flood, c.told)
		}
		if lines := strings.Count(log.String(), "\n"); lines != 1 ||
			!strings.Contains(log.String(), fmt.Sprintf("messages=%d", flooders*(flood-maxActorRequests))) {
			t.Errorf("logged %s", &log)
		}
	})
}

// Of a message for which there is no room nothing is read but what it takes to tell its sender, as long as there is
// room for that; of others all is.
func TestFate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		d, c := sit(slog.New(slog.NewTextHandler(&log, nil)), false)
		is := func(of flow.Sender, want FilterAction) {
			t.Helper()
			if got := d.filter([]byte("tb.call."+of.Tenant+"."+of.Actor+".echo"), 100); got != want {
				t.Errorf("%s: %d, want %d", of.Actor, got, want)
			}
		}
		for n := range maxActorRequests + maxActorTurned {
			want := FilterTake
			if n > maxActorRequests { // the first one that is too many is read before it is known
				want = FilterTakeHead
			}
			is(flooder, want)
			d.put(flooder, "flood", 100, func() {})
		}
		synctest.Wait()
		is(flooder, FilterDrop)
		is(bystander, FilterTake)
		c.hold <- struct{}{}
		synctest.Wait()
		is(flooder, FilterTake)
		close(c.hold)
		close(c.silent)
		d.stop(time.Second)
		<-time.After(time.Second) // in a bubble: what is counted is logged
		synctest.Wait()
		if want := fmt.Sprintf("messages=%d untold=1", maxActorTurned+1); !strings.Contains(log.String(), want) {
			t.Errorf("logged %s, want %s", &log, want)
		}
	})
}

// What waits for others lets the next of its sender be looked at, up to so many.
func TestHandlersThatWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, c := sit(slog.New(slog.DiscardHandler), true)
		for range 1000 {
			d.put(flooder, "flood", 100, func() {})
		}
		synctest.Wait()
		if c.atOnce != maxActorHandlers {
			t.Errorf("%d are worked on, want %d", c.atOnce, maxActorHandlers)
		}
		d.put(bystander, "mine", 100, func() {})
		synctest.Wait()
		if c.mine != 1 {
			t.Error("nobody is left for the bystander")
		}
		go d.stop(time.Second)
		synctest.Wait()
		d.put(bystander, "late", 100, func() {})
		<-time.After(2 * time.Second) // what does not begin by then is dropped
		close(c.hold)
		synctest.Wait()
		if c.flood != maxActorHandlers || c.mine != 1 || c.atOnce != 0 {
			t.Errorf("%d of the flood were handled after the stop, %d of the bystander", c.flood, c.mine)
		}
	})
}
