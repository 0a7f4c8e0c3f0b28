package callout

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/nats-io/nats.go"

	"github.com/seed-018f16cc/toolbus/internal/auth"
	"github.com/seed-018f16cc/toolbus/subjects"
)

// Disconnector closes connections, over one to the account SYS.
type Disconnector struct{ nc *nats.Conn }

// NewDisconnector returns a Disconnector over nc.
func NewDisconnector(nc *nats.Conn) *Disconnector { return &Disconnector{nc} }

// Bounds of a look at all connections.
const (
	kickPage = 1024                   // connections that a server lists at once
	kickWait = 2 * time.Second        // for the first server
	kickMore = 250 * time.Millisecond // for each further one, and for what it does
)

// connection is one that a server lists.
type connection struct {
	CID     uint64    `json:"cid"`
	User    string    `json:"authorized_user"`
	Account string    `json:"account"`
	Start   time.Time `json:"start"`
	counts
}

// counts are messages and bytes that a client has sent and got.
type counts struct {
	Sent       int64 `json:"in_msgs"`
	Heard      int64 `json:"out_msgs"`
	SentBytes  int64 `json:"in_bytes"`
	HeardBytes int64 `json:"out_bytes"`
}

// listed is a page of the connections of a server.
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

// Kick closes the connections of all users that match, on all servers, and returns how many. It is safe to do it again,
// and by several at once. An error says that some may be open.
func (k *Disconnector) Kick(ctx context.Context, match func(auth.User) bool) (closed int, err error) {
	err = k.each(ctx, func(server string, all []connection) (err error) {
		for _, c := range all {
			if u, ok := auth.ParseUser(c.User); ok && match(u) {
				failed := k.close(ctx, server, c.CID)
				if err = errors.Join(err, failed); failed == nil {
					closed++
				}
			}
		}
		return err
	})
	return closed, err
}

// Family closes the connections with tokens of a family.
func (k *Disconnector) Family(ctx context.Context, family string) (closed int, err error) {
	return k.Kick(ctx, func(u auth.User) bool { return u.Family == family })
}

// Actor closes all connections of an actor of a tenant.
func (k *Disconnector) Actor(ctx context.Context, tenant, actor string) (closed int, err error) {
	tenant, actor = subjects.Token(tenant), subjects.Token(actor)
	return k.Kick(ctx, func(u auth.User) bool { return u.Tenant == tenant && u.Actor == actor })
}

// close closes one connection. The error is nil, too, if it is closed already.
func (k *Disconnector) close(ctx context.Context, server string, cid uint64) error {
	_, err := k.ask(ctx, server, "KICK", fmt.Appendf(nil, `{"cid":%d}`, cid))
	return err
}

// each passes to take the connections of each server that answers in time. It reads all pages of a server before take
// may close some, which would move the others between pages. The error includes those of take, and is not nil if no
// server answers.
func (k *Disconnector) each(ctx context.Context, take func(server string, all []connection) error) error {
	answers := make(chan *nats.Msg, 100)
	inbox := k.nc.NewInbox()
	sub, err := k.nc.ChanSubscribe(inbox, answers)
	if err == nil {
		defer func() { _ = sub.Unsubscribe() }() // it ends with the connection otherwise
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
