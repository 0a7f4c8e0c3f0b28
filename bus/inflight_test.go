package bus_test

import (
	"context"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"golang.org/x/sync/errgroup"

	"github.com/seed-018f16cc/toolbus/bus"
	"github.com/seed-018f16cc/toolbus/internal/deployment"
	"github.com/seed-018f16cc/toolbus/internal/natsserver/natstest"
)

// slowReader dials connections that read nothing while shut.
type slowReader struct {
	shut sync.RWMutex
}

type slowConn struct {
	net.Conn
	*slowReader
}

func (r *slowReader) Dial(network, address string) (net.Conn, error) {
	conn, err := net.Dial(network, address)
	return slowConn{conn, r}, err
}

func (c slowConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	c.shut.RLock()
	defer c.shut.RUnlock()
	return n, err
}

// However many messages a process reads at the same time, the server does not close its connection, also if the process
// is slow to receive them. Each read has its message.
func TestReadsAtOnce(t *testing.T) {
	const large, readers, atOnce = 900 << 10, 48, 4
	srv := natstest.Start(t, func(o *server.Options) { o.MaxPending = deployment.MaxPending })
	slow := &slowReader{}
	nc := srv.Connect(t, nats.SetCustomDialer(slow))
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	shared := bus.Shared(js)
	defer shared.Close()
	if _, err := js.CreateStream(t.Context(), jetstream.StreamConfig{Name: "S", Subjects: []string{"s"}}); err != nil {
		t.Fatal(err)
	}
	if _, err := js.Publish(t.Context(), "s", make([]byte, large)); err != nil {
		t.Fatal(err)
	}
	stream, err := shared.Stream(t.Context(), "S")
	if err != nil {
		t.Fatal(err)
	}
	before := nc.Stats().OutMsgs
	slow.shut.Lock()
	var reading errgroup.Group
	for n := range readers {
		reading.Go(func() (err error) {
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			if n%8 > 0 {
				_, err = stream.GetMsg(ctx, 1)
				return err
			}
			for _, err = range bus.Messages(ctx, shared, "S", jetstream.OrderedConsumerConfig{}, time.Minute) {
			}
			return err
		})
	}
	for nc.Stats().OutMsgs < before+atOnce { // all that may be under way have asked
		if err := t.Context().Err(); err != nil {
			t.Fatal(err)
		}
	}
	slow.shut.Unlock()
	if err := reading.Wait(); err != nil {
		t.Error(err)
	}
	if n := nc.Stats().Reconnects; n > 0 {
		t.Errorf("the server closed the connection %d times", n)
	}
}
