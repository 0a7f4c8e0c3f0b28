package health

import (
	"context"
	"errors"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/nats-io/nats.go"
)

// Timeouts of the first answer, and of each further one.
const (
	firstServer = 2 * time.Second
	nextServer  = 250 * time.Millisecond
)

// told is the answer of one server to a request in the system account.
type told[T any] struct {
	Server struct {
		Name string `json:"name"`
	} `json:"server"`
	Data T `json:"data"`
}

// askServers sends a request to all servers, over a connection to the system account. It returns as soon as known
// servers have answered; if known is 0, it waits for the timeout.
func askServers[T any](ctx context.Context, sys *nats.Conn, known int, what, body string) (all []told[T], err error) {
	answers := make(chan *nats.Msg, 64)
	inbox := sys.NewInbox()
	sub, err := sys.ChanSubscribe(inbox, answers)
	if err != nil {
		return nil, err
	}
	defer func() { _ = sub.Unsubscribe() }() // fails only if the connection is closed
	if err := sys.PublishRequest("$SYS.REQ.SERVER.PING."+what, inbox, []byte(body)); err != nil {
		return nil, err
	}
	quiet := time.NewTimer(firstServer)
	defer quiet.Stop()
	for {
		select {
		case msg := <-answers:
			var one told[T]
			if err := json.Unmarshal(msg.Data, &one); err != nil {
				return nil, err
			}
			if all = append(all, one); len(all) == known {
				return all, nil
			}
			quiet.Reset(nextServer)
		case <-quiet.C:
			if len(all) == 0 {
				return nil, errors.New("no server answers to the account SYS")
			}
			return all, nil
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}
