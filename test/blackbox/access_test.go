package blackbox

import (
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"github.com/seed-018f16cc/toolbus/bus"
	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/natstest"
	"github.com/seed-018f16cc/toolbus/tool"
)

// password makes the server let in who has it, and nobody else.
func password(secret string) natstest.Option {
	return func(o *server.Options) { o.Username, o.Password = "toolbus", secret }
}

// as returns the URL of a server with a user in it.
func as(user, url string) string { return strings.Replace(url, "nats://", "nats://"+user+"@", 1) }

// Processes that a server turns away for a while, as one with a wrong configuration does, work again
// when it lets them in.
func TestTurnedAwayForAWhile(t *testing.T) {
	var runs atomic.Int64
	srv := natstest.Start(t, password("right"))
	srv.URL = as("toolbus:right", srv.URL)
	d := deployOn(t, srv, map[string]spec{"echo": {class: tool.Pure, run: echo(&runs)}})
	processes := []*process{d.dispatcher(), d.executor(4)}
	srv.Restart(password("wrong"))
	for _, p := range processes {
		away := 0
		eventually(t, "the server turns it away again and again", func() bool {
			if errors.Is(p.conn.NC.LastError(), nats.ErrAuthorization) {
				away++
			}
			return away > 20 // looks, which is longer than two attempts take
		})
	}
	srv.Restart(password("right"))
	c := d.client()
	eventually(t, "calls are answered", func() bool {
		r, err := c.Call(t.Context(), bus.Call{Tool: "echo", Input: []byte(`{}`), Timeout: 2 * time.Second})
		return err == nil && r.Status == envelope.Success
	})
}
