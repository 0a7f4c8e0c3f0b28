package callout

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/nats-io/nats.go"

	"github.com/seed-018f16cc/toolbus/internal/auth"
)

// Disconnector closes client connections of NATS servers by requests in the account SYS. Its methods are safe for
// concurrent use.
type Disconnector struct{ nc *nats.Conn }

// NewDisconnector returns a Disconnector. nc is a connection to the account SYS.
func NewDisconnector(nc *nats.Conn) *Disconnector { return &Disconnector{nc} }

// Limits of the requests to servers.
const (
	kickPage = 1024                   // connections in one page of a list
	kickWait = 2 * time.Second        // how long to wait for the first answer
	kickMore = 250 * time.Millisecond // how long to wait for each further answer
)

// connection is an entry in the list of connections of a server.
type connection struct {
	CID     uint64    `json:"cid"`
	User    string    `json:"authorized_user"`
	Account string    `json:"account"`
	Start   time.Time `json:"start"`
	Pending int64     `json:"pending_bytes"` // the server has not written them to the client yet
	counts
}

// counts are the messages and bytes that a client has sent and received.
type counts struct {
	Sent       int64 `json:"in_msgs"`
	Heard      int64 `json:"out_msgs"`
	SentBytes  int64 `json:"in_bytes"`
	HeardBytes int64 `json:"out_bytes"`
}

// listed is one page of the list of connections of a server.
type listed struct {
	Server struct {
		ID string `json:"id"`
	} `json:"server"`
	Data struct {
		Total       int          `json:"total"`
		Offset      int          `json:"offset"`
		Connections []connection `json:"connections"`
	} `json:"data"`
}

// Kick closes the connections for which match returns true, on all servers, and returns how many it closed. match gets
// the user of a connection and the time when it was opened. After an error some may still be open. Kick may be
// repeated, and may run in several processes at the same time.
func (k *Disconnector) Kick(
	ctx context.Context, match func(u auth.User, opened time.Time) bool,
) (closed int, err error) {
	err = k.each(ctx, func(server string, all []connection) (err error) {
		for _, c := range all {
			if u, ok := auth.ParseUser(c.User); ok && match(u, c.Start) {
				_, failed := k.close(ctx, server, c.CID)
				if err = errors.Join(err, failed); failed == nil {
					closed++
				}
			}
		}
		return err
	})
	return closed, err
}

// close closes one connection. open is false if the server no longer had it.
func (k *Disconnector) close(ctx context.Context, server string, cid uint64) (open bool, err error) {
	answer, err := k.ask(ctx, server, "KICK", fmt.Appendf(nil, `{"cid":%d}`, cid))
	if err != nil {
		return false, err
	}
	var refused struct {
		Error *struct{} `json:"error"` // the only one means that the server does not have it
	}
	err = json.Unmarshal(answer, &refused)
	return err == nil && refused.Error == nil, err
}

// each calls take with all connections of each server that answers in time. It reads all pages of a server before it
// calls take, because closing connections would move others between pages. It returns the joined errors of take and of
// reading, and an error if no server answers.
func (k *Disconnector) each(ctx context.Context, take func(server string, all []connection) error) error {
	answers := make(chan *nats.Msg, 100)
	inbox := k.nc.NewInbox()
	sub, err := k.nc.ChanSubscribe(inbox, answers)
	if err == nil {
		defer func() { _ = sub.Unsubscribe() }() // fails only if the connection is closed
		err = k.nc.PublishRequest("$SYS.REQ.SERVER.PING.CONNZ", inbox, page(0))
	}
	if err != nil {
		return fmt.Errorf("list connections: %w", err)
	}
	quiet := time.NewTimer(kickWait)
	defer quiet.Stop()
	for servers := 0; ; servers++ {
		select {
		case msg := <-answers:
			server, all, failed := k.list(ctx, msg.Data)
			if failed == nil {
				failed = take(server, all)
			}
			err = errors.Join(err, failed)
			quiet.Reset(kickMore)
		case <-quiet.C:
			if servers == 0 {
				err = errors.New("no server lists its connections")
			}
			return err
		case <-ctx.Done():
			return errors.Join(err, ctx.Err())
		}
	}
}

// list returns all connections of the server whose first page is answer.
func (k *Disconnector) list(ctx context.Context, answer []byte) (server string, all []connection, err error) {
	for {
		var l listed
		if err := json.Unmarshal(answer, &l); err != nil {
			return server, all, fmt.Errorf("list connections: %w", err)
		}
		server, all = l.Server.ID, append(all, l.Data.Connections...)
		next := l.Data.Offset + kickPage
		if next >= l.Data.Total {
			return server, all, nil
		}
		if answer, err = k.ask(ctx, server, "CONNZ", page(next)); err != nil {
			return server, all, err
		}
	}
}

func page(offset int) []byte {
	return fmt.Appendf(nil, `{"auth":true,"limit":%d,"offset":%d}`, kickPage, offset)
}

func (k *Disconnector) ask(ctx context.Context, server, what string, body []byte) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, kickWait)
	defer cancel()
	msg, err := k.nc.RequestWithContext(ctx, "$SYS.REQ.SERVER."+server+"."+what, body)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", what, err)
	}
	return msg.Data, nil
}
